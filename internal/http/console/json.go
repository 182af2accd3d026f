package console

import (
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/console/records"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// clientJSON answers with the address from which the request comes, for `sendcode doctor --behind`.
func clientJSON(c echo.Context) error {
	peer, _ := quotahttp.ParseHop(c.Request().RemoteAddr)
	return c.JSON(http.StatusOK, map[string]any{
		"address": server.ClientIP(c), "peer": peer,
		"header": layout.OrNull(server.ForwardingHeader(c.Request().Header)),
	})
}

func (console *Console) listJSON(c echo.Context) error {
	q, err := parseQuery(c.Request().URL.RawQuery, console.Now(), time.UTC)
	if err != nil {
		return err
	}
	return console.answerList(c, q)
}

// searchJSON is listJSON for callers that know the recipient's address, but not the hash by which
// listJSON finds the recipient's sends. The address is in the body, never in the URL.
func (console *Console) searchJSON(c echo.Context) error {
	q, err := parseQuery(c.Request().URL.RawQuery, console.Now(), time.UTC)
	if err != nil {
		return err
	}
	var body struct {
		Channel string `json:"channel"`
		To      string `json:"to"`
	}
	if err := server.ReadJSON(c, &body); err != nil {
		return err
	}
	h, err := console.Administration.HashRecipient(body.Channel, body.To)
	if err != nil {
		return err
	}
	q.filter.Recipient = &h
	return console.answerList(c, q)
}

func (console *Console) answerList(c echo.Context, q listQuery) error {
	list := console.sendList()
	page, err := list.Page(c.Request().Context(), q.filter, q.given)
	if err != nil {
		return err
	}
	codes, err := console.codesOf(c.Request().Context(), page.Rows)
	if err != nil {
		return err
	}
	list.JSON = func(s store.SendOrRefusal, _ time.Time) layout.JSONObject { return codes.rowJSON(s) }
	return list.WriteJSON(c, page)
}

// rowJSONWithoutOutcome returns a row of the database as JSON for scripts. The row does not show
// whether the send's code was entered, expired or canceled, so the JSON does not say it.
func rowJSONWithoutOutcome(s store.SendOrRefusal) layout.JSONObject {
	row := layout.JSONObject{
		"id": s.ID, "verification_id": layout.OrNull(s.VerificationID), "at": layout.Timestamp(s.LoggedAt),
		"channel": s.Channel, "to": s.To,
		"recipient": s.Recipient, "purpose": s.Purpose, "app": s.App, "status": s.Status,
		"reason":     layout.OrNull(s.Reason),
		"blocked_by": layout.OrNull(s.BlockedBy), "retry_after": nil, "count": s.Count, "attempts": s.Attempt,
		"provider": layout.OrNull(s.Provider), "provider_code": layout.OrNull(s.ProviderCode),
		"took_ms": layout.OrNull(quota.Milliseconds(s.Took)),
	}
	for name, text := range s.Labels.All() {
		row[name] = layout.OrNull(text)
	}
	if s.Recipients > 0 {
		row["recipient"], row["recipients"] = "", s.Recipients
	}
	if s.Status == store.Refused {
		row["retry_after"] = quota.Seconds(s.RetryAfter)
	}
	return row
}

func (console *Console) sendJSON(c echo.Context) error {
	s, err := console.readStory(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	decision, quotaErr := console.quotaOf(c.Request().Context(), s.Send)
	known, err := console.readVerdictFacts(c.Request().Context(), s, decision, quotaErr)
	if err != nil {
		return err
	}
	codes, err := console.codesOf(c.Request().Context(), append([]store.SendOrRefusal{s.Send}, s.Related...))
	if err != nil {
		return err
	}
	v := explain.Judge(s, known, layout.Words(c))
	story := codes.rowJSON(s.Send)
	maps.Copy(story, layout.JSONObject{
		"number": s.Send.Number, "in_doubt": s.Send.InDoubt, "counts": s.Send.Counts,
		"locale":  layout.OrNull(s.Send.Locale),
		"country": layout.OrNull(s.Send.Country), "network": layout.OrNull(s.Send.Network),
		"request_id": layout.OrNull(s.Send.RequestID), "finished_at": layout.Timestamp(s.Send.FinishedAt),
		"human_check":  layout.OrNull(s.Send.HumanCheck),
		"verification": nil, "observed": append([]string{}, s.Send.Observed...),
		"related": layout.JSONObjects(s.Related, codes.rowJSON), "quota": nil,
		"suppressions": layout.JSONObjects(s.Suppressions,
			func(x store.Suppression) layout.JSONObject { return records.SuppressionJSON(x, s.Now) }),
		"events":  layout.JSONObjects(s.Events, providerEventJSON),
		"verdict": layout.JSONObject{"what": v.What.String(), "next": v.Next.String()},
	})
	if s.Verification != nil {
		story["verification"] = verificationJSON(*s.Verification, s.Now)
	}
	if quotaErr == nil {
		story["quota"] = quotaJSON(decision)
	}
	return c.JSON(http.StatusOK, story)
}

func verificationJSON(v store.Verification, now time.Time) layout.JSONObject {
	return layout.JSONObject{
		"id": v.ID, "status": verification.StateOf(v, now), "created_at": layout.Timestamp(v.CreatedAt),
		"expires_at": layout.Timestamp(v.ExpiresAt), "attempts": v.Attempts, "max_attempts": v.MaxAttempts,
		"sends":         v.Sends,
		"caller_checks": v.CallerChecks, "approved_at": layout.Timestamp(v.ApprovedAt),
		"canceled_at": layout.Timestamp(v.CanceledAt), "not_me_at": layout.Timestamp(v.NotMeAt), "details": layout.OrNull(v.Details),
		"checks": layout.JSONObjects(v.Checks, func(x store.Check) layout.JSONObject {
			return layout.JSONObject{"at": layout.Timestamp(x.At), "network": layout.OrNull(x.Network)}
		}),
	}
}

// quotaJSON returns the API's quota object; retry_at and blocked_by are null where no rule blocks.
func quotaJSON(d quota.Decision) any {
	q := quotahttp.Describe(d)
	return struct {
		*quotahttp.Quota
		RetryAt   any `json:"retry_at"`
		BlockedBy any `json:"blocked_by"`
	}{q, layout.OrNull(q.RetryAt), layout.OrNull(q.BlockedBy)}
}

func providerEventJSON(e store.ProviderEvent) layout.JSONObject {
	return layout.JSONObject{
		"kind": e.Kind, "at": layout.Timestamp(e.At), "heard_at": layout.Timestamp(e.HeardAt),
		"provider": e.Provider,
		"detail":   layout.OrNull(e.Detail),
	}
}
