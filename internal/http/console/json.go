package console

import (
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/frame"
	"sendcode/internal/http/console/records"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// clientJSON answers where the request comes from, for `sendcode doctor --behind`.
func clientJSON(c echo.Context) error {
	peer, _ := server.ParseHop(c.Request().RemoteAddr)
	return c.JSON(http.StatusOK, map[string]any{
		"address": server.ClientIP(c), "peer": peer,
		"header": frame.OrNull(server.ForwardingHeader(c.Request().Header)),
	})
}

func (console *Console) listJSON(c echo.Context) error {
	q, err := parseQuery(c.Request().URL.RawQuery, console.Now(), time.UTC)
	if err != nil {
		return err
	}
	return console.answerList(c, q)
}

// searchJSON is listJSON for callers that have an address and no hash. The recipient is in the
// body, never in the URL.
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
	list.JSON = func(s store.SendOrRefusal, _ time.Time) frame.JSONObject { return codes.rowJSON(s) }
	return list.WriteJSON(c, page)
}

// rowJSONWithoutOutcome returns a row of the database for scripts, without the outcome of its code.
func rowJSONWithoutOutcome(s store.SendOrRefusal) frame.JSONObject {
	row := frame.JSONObject{
		"id": s.ID, "verification_id": frame.OrNull(s.VerificationID), "at": frame.Timestamp(s.LoggedAt),
		"channel": s.Channel, "to": s.To,
		"recipient": s.Recipient, "purpose": s.Purpose, "app": s.App, "status": s.Status,
		"reason":     frame.OrNull(s.Reason),
		"blocked_by": frame.OrNull(s.BlockedBy), "retry_after": nil, "count": s.Count, "attempts": s.Attempt,
		"provider": frame.OrNull(s.Provider), "provider_code": frame.OrNull(s.ProviderCode),
		"took_ms": frame.OrNull(quota.Milliseconds(s.Took)),
	}
	for name, text := range s.Labels.All() {
		row[name] = frame.OrNull(text)
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
	now, away := console.quotaOf(c.Request().Context(), s.Send)
	known, err := console.readVerdictFacts(c.Request().Context(), s, now, away)
	if err != nil {
		return err
	}
	codes, err := console.codesOf(c.Request().Context(), append([]store.SendOrRefusal{s.Send}, s.Related...))
	if err != nil {
		return err
	}
	v := explain.Judge(s, known, frame.Words(c))
	story := codes.rowJSON(s.Send)
	maps.Copy(story, frame.JSONObject{
		"number": s.Send.Number, "in_doubt": s.Send.InDoubt, "counts": s.Send.Counts,
		"locale":  frame.OrNull(s.Send.Locale),
		"country": frame.OrNull(s.Send.Country), "network": frame.OrNull(s.Send.Network),
		"request_id": frame.OrNull(s.Send.RequestID), "finished_at": frame.Timestamp(s.Send.FinishedAt),
		"human_check":  frame.OrNull(s.Send.HumanCheck),
		"verification": nil, "observed": append([]string{}, s.Send.Observed...),
		"related": frame.JSONObjects(s.Related, codes.rowJSON), "quota": nil,
		"suppressions": frame.JSONObjects(s.Suppressions,
			func(x store.Suppression) frame.JSONObject { return records.SuppressionJSON(x, s.Now) }),
		"events":  frame.JSONObjects(s.Events, providerEventJSON),
		"verdict": frame.JSONObject{"what": v.What.String(), "next": v.Next.String()},
	})
	if s.Verification != nil {
		story["verification"] = verificationJSON(*s.Verification, s.Now)
	}
	if away == nil {
		story["quota"] = quotaJSON(now)
	}
	return c.JSON(http.StatusOK, story)
}

func verificationJSON(v store.Verification, now time.Time) frame.JSONObject {
	return frame.JSONObject{
		"id": v.ID, "status": verification.StateOf(v, now), "created_at": frame.Timestamp(v.CreatedAt),
		"expires_at": frame.Timestamp(v.ExpiresAt), "attempts": v.Attempts, "max_attempts": v.MaxAttempts,
		"sends":         v.Sends,
		"caller_checks": v.CallerChecks, "approved_at": frame.Timestamp(v.ApprovedAt),
		"canceled_at": frame.Timestamp(v.CanceledAt),
		"checks": frame.JSONObjects(v.Checks, func(x store.Check) frame.JSONObject {
			return frame.JSONObject{"at": frame.Timestamp(x.At), "network": frame.OrNull(x.Network)}
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
	}{q, frame.OrNull(q.RetryAt), frame.OrNull(q.BlockedBy)}
}

func providerEventJSON(e store.ProviderEvent) frame.JSONObject {
	return frame.JSONObject{
		"kind": e.Kind, "at": frame.Timestamp(e.At), "heard_at": frame.Timestamp(e.HeardAt),
		"provider": e.Provider,
		"detail":   frame.OrNull(e.Detail),
	}
}
