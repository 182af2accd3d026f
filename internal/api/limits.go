package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/limits"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota/quotahttp"
)

// Limits are the rules for what is not a send. Implementation: limits.Service.
type Limits interface {
	Do(ctx context.Context, ask limits.Request) (limits.Answer, error)
}

type limitBody struct {
	Keys map[string]string `json:"keys"`
	ID   string            `json:"id"`
}

type limitJSON struct {
	Quota    *quotahttp.Quota `json:"quota"`
	Degraded bool             `json:"degraded,omitempty"`
}

// limit is POST /v1/limits/{limit}/take, /peek and /record. Secret keys only, as the caller names what is counted.
func (a *API) limit(o limits.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		who := caller(c)
		if who.Kind != verification.Secret {
			return &server.Problem{Kind: server.Forbidden, Detail: "Only secret keys may use limits."}
		}
		var body limitBody
		if err := server.ReadJSON(c, &body); err != nil {
			return err
		}
		answer, err := a.limits.Do(c.Request().Context(), limits.Request{Operation: o, App: who.App, Limit: c.Param("limit"), Keys: body.Keys, ID: body.ID})
		if err != nil {
			return err
		}
		if err := quotahttp.SetRateLimit(c.Response().Header(), answer.Decision); err != nil {
			return err
		}
		if answer.Refused(o) {
			return limitProblem(answer)
		}
		return c.JSON(http.StatusOK, limitJSON{limitQuota(answer), answer.Degraded})
	}
}

// limitQuota leaves out the scopes, which are those of sends.
func limitQuota(a limits.Answer) *quotahttp.Quota {
	q := quotahttp.Describe(a.Decision)
	for i := range q.Rules {
		q.Rules[i].Scope = ""
	}
	return q
}

func limitProblem(a limits.Answer) *server.Problem {
	kind := server.QuotaExceeded
	kind.Title = "Too many requests" // of whatever the limit counts
	p := refusal(a.Decision, kind, "request is let in after")
	p.Extra["quota"] = limitQuota(a)
	if a.Degraded {
		p.Extra["degraded"] = true
	}
	return p
}
