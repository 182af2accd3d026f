package api

import (
	"github.com/labstack/echo/v4"

	"sendcode/internal/http/server"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/verify/verification"
	"sendcode/quota/quotahttp"
)

type limitBody struct {
	Keys map[string]string `json:"keys"`
	ID   string            `json:"id"`
}

type limitAnswerJSON struct {
	Quota    *quotahttp.Quota `json:"quota"`
	Degraded bool             `json:"degraded,omitempty"`
}

// limitHandler returns the handler of POST /v1/limits/{limit}/take, /peek and /record.
func (a *API) limitHandler(o applimits.Operation) func(echo.Context, verification.Caller, limitBody) error {
	return func(c echo.Context, who verification.Caller, body limitBody) error {
		ask := applimits.Request{Operation: o, App: who.App, Limit: c.Param("limit"), Keys: body.Keys, ID: body.ID}
		var err error
		if ask.Wait, err = preferredWait(c.Request().Header, applimits.MaxWait); err != nil {
			return err
		}
		allowWait(c, ask.Wait)
		state, err := a.services.Limits.Apply(c.Request().Context(), ask)
		if err == nil && o == applimits.Take {
			setPreferenceApplied(c.Response().Header(), ask.Wait)
		}
		switch {
		case err != nil:
			return err
		case !state.Refused(o):
			return writeJSONWithRateLimit(c, state.Decision, limitAnswerJSON{toLimitQuotaJSON(state), state.Local})
		}
		if err := quotahttp.SetRateLimit(c.Response().Header(), state.Decision); err != nil {
			return err
		}
		return limitProblem(state)
	}
}

// toLimitQuotaJSON returns the states of a limit's rules as JSON. It leaves out the scopes of the
// rules, because a scope has a meaning only for sends.
func toLimitQuotaJSON(a applimits.Answer) *quotahttp.Quota {
	q := quotahttp.Describe(a.Decision)
	for i := range q.Rules {
		q.Rules[i].Scope = ""
	}
	return q
}

// limitProblem returns the 429 for a take that a limit refused.
func limitProblem(a applimits.Answer) *server.Problem {
	p := refusalProblem(a.Decision, "The rule {blocked_by} has no place left; the next request is let in after {wait}.")
	p.Extra["quota"] = toLimitQuotaJSON(a)
	if a.Local {
		p.Extra["degraded"] = true
	}
	return p
}
