package api

import (
	"github.com/labstack/echo/v4"

	"sendcode/internal/limits"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota/quotahttp"
)

type limitBody struct {
	Keys map[string]string `json:"keys"`
	ID   string            `json:"id"`
}

type limitJSON struct {
	Quota    *quotahttp.Quota `json:"quota"`
	Degraded bool             `json:"degraded,omitempty"`
}

// limit is POST /v1/limits/{limit}/take, /peek and /record.
func (a *API) limit(o limits.Operation) func(echo.Context, verification.Caller, limitBody) error {
	return func(c echo.Context, who verification.Caller, body limitBody) error {
		ask := limits.Request{Operation: o, App: who.App, Limit: c.Param("limit"), Keys: body.Keys, ID: body.ID}
		state, err := a.Limits.Do(c.Request().Context(), ask)
		switch {
		case err != nil:
			return err
		case !state.Refused(o):
			return answer(c, state.Decision, limitJSON{limitQuota(state), state.Degraded})
		}
		if err := quotahttp.SetRateLimit(c.Response().Header(), state.Decision); err != nil {
			return err
		}
		return limitProblem(state)
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
