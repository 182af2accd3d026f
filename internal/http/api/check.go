package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

type checkBody struct {
	Code     string `json:"code"`
	ClientIP string `json:"client_ip"`
}

// setKeyAndClientIP sets the caller's IP and Idempotency-Key. Errors: those of setClientIP and
// idempotencyKey.
func setKeyAndClientIP(c echo.Context, who *verification.Caller, clientIP string) (err error) {
	if who.IdempotencyKey, err = idempotencyKey(c.Request().Header); err != nil {
		return err
	}
	return setClientIP(who, clientIP)
}

// check handles POST /v1/verifications/{id}/check.
func (a *API) check(c echo.Context, who verification.Caller, body checkBody) error {
	if err := setKeyAndClientIP(c, &who, body.ClientIP); err != nil {
		return err
	}
	checked, err := a.services.Codes.Check(c.Request().Context(), who, c.Param("id"), body.Code)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toCheckResultJSON(checked, who.Kind))
}

type checkByRecipientBody struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
	Purpose string `json:"purpose"`
	Session string `json:"session"`
	Code    string `json:"code"`

	ClientIP string `json:"client_ip"`
}

// checkByRecipient handles POST /v1/verifications/check. Only secret keys may use it. A browser
// that knows a person's address could otherwise use up the attempts for that person's code.
func (a *API) checkByRecipient(c echo.Context, who verification.Caller, body checkByRecipientBody) error {
	if err := setKeyAndClientIP(c, &who, body.ClientIP); err != nil {
		return err
	}
	ask := verification.Request{
		Caller: who, Channel: body.Channel, To: body.To, Purpose: body.Purpose,
		Session: body.Session,
	}
	checked, err := a.services.Codes.CheckByRecipient(c.Request().Context(), ask, body.Code)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toCheckResultJSON(checked, who.Kind))
}

// cancel handles POST /v1/verifications/{id}/cancel. A caller that may read the verification may
// cancel it. The body is empty or {}.
func (a *API) cancel(c echo.Context, who verification.Caller) error {
	if c.Request().ContentLength != 0 {
		if err := server.ReadJSON(c, &struct{}{}); err != nil {
			return err
		}
	}
	v, err := a.services.Codes.Cancel(c.Request().Context(), who, c.Param("id"))
	if err != nil {
		return err
	}
	return writeJSONWithRateLimit(c, v.Quota, toVerificationJSON(v, who.Kind))
}

type reportBody struct {
	Outcome string `json:"outcome"`
}

// report handles POST /v1/verifications/{id}/outcome.
func (a *API) report(c echo.Context, who verification.Caller, body reportBody) error {
	return a.answerReport(c, who, func(who verification.Caller) (store.Verification, error) {
		return a.services.Codes.Report(c.Request().Context(), who, c.Param("id"), body.Outcome)
	})
}

type reportByRecipientBody struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
	Purpose string `json:"purpose"`
	Outcome string `json:"outcome"`
}

// reportByRecipient handles POST /v1/verifications/outcome.
func (a *API) reportByRecipient(c echo.Context, who verification.Caller, body reportByRecipientBody) error {
	return a.answerReport(c, who, func(who verification.Caller) (store.Verification, error) {
		return a.services.Codes.ReportByRecipient(c.Request().Context(),
			verification.Request{Caller: who, Channel: body.Channel, To: body.To, Purpose: body.Purpose}, body.Outcome)
	})
}

// answerReport sets the caller's Idempotency-Key, calls report for the caller, and answers with the
// recorded outcome.
func (a *API) answerReport(c echo.Context, who verification.Caller, report func(verification.Caller) (store.Verification, error)) error {
	if err := setKeyAndClientIP(c, &who, ""); err != nil {
		return err
	}
	v, err := report(who)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"id": v.ID, "outcome": string(v.Reported)})
}
