package console

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/console/listing"
	"sendcode/internal/console/records"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// rowJSON is a row of the log as scripts see it. Every member is always there; what a row does not have is null.
type rowJSON struct {
	ID             string       `json:"id"`
	VerificationID *string      `json:"verification_id"`
	At             string       `json:"at"`
	Channel        string       `json:"channel"`
	To             string       `json:"to"`
	Recipient      string       `json:"recipient"`
	Purpose        string       `json:"purpose"`
	App            string       `json:"app"`
	Status         store.Status `json:"status"`
	Reason         *string      `json:"reason"`
	BlockedBy      *string      `json:"blocked_by"`
	RetryAfter     *int         `json:"retry_after"`
	Count          int          `json:"count"`
	Recipients     int          `json:"recipients,omitempty"` // in rows of several alone
	Attempts       int          `json:"attempts"`
	Provider       *string      `json:"provider"`
	ProviderCode   *string      `json:"provider_code"`
	TookMS         *int64       `json:"took_ms"`
	Reference      *string      `json:"reference"`
}

type listJSON struct {
	Sends []rowJSON `json:"sends"`
	Next  *string   `json:"next"`
}

// storyJSON is a row with all that is known of it.
type storyJSON struct {
	rowJSON
	Number       int                   `json:"number"`
	InDoubt      bool                  `json:"in_doubt"`
	Counts       bool                  `json:"counts"`
	Locale       *string               `json:"locale"`
	Country      *string               `json:"country"`
	Network      *string               `json:"network"`
	FinishedAt   *string               `json:"finished_at"`
	Verification *verificationJSON     `json:"verification"`
	Observed     []string              `json:"observed"`
	Related      []rowJSON             `json:"related"`
	Quota        *quotaJSON            `json:"quota"`
	Suppressions []records.Suppression `json:"suppressions"`
	Events       []toldJSON            `json:"events"`
	Verdict      verdictJSON           `json:"verdict"`
}

type verificationJSON struct {
	ID          string             `json:"id"`
	Status      verification.State `json:"status"`
	CreatedAt   string             `json:"created_at"`
	ExpiresAt   string             `json:"expires_at"`
	Attempts    int                `json:"attempts"`
	MaxAttempts int                `json:"max_attempts"`
	Sends       int                `json:"sends"`
	ApprovedAt  *string            `json:"approved_at"`
	CanceledAt  *string            `json:"canceled_at"`
}

// quotaJSON is the quota object of DESIGN.md, section 3.
type quotaJSON struct {
	Allowed    bool       `json:"allowed"`
	RetryAfter int        `json:"retry_after"`
	RetryAt    *string    `json:"retry_at"`
	BlockedBy  *string    `json:"blocked_by"`
	Rules      []ruleJSON `json:"rules"`
}

type ruleJSON struct {
	Name       string `json:"name"`
	Limit      int    `json:"limit"`
	Window     int    `json:"window"`
	Remaining  int    `json:"remaining"`
	ResetAfter int    `json:"reset_after"`
}

type verdictJSON struct {
	What string `json:"what"`
	Next string `json:"next"`
}

func (a *Console) listJSON(c echo.Context) error {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
	if err != nil {
		return err
	}
	return a.answerList(c, q.filter)
}

// searchJSON is listJSON for callers that have an address and no hash. The recipient is in the body, never in the URL.
func (a *Console) searchJSON(c echo.Context) error {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
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
	h, err := a.Desk.Hash(body.Channel, body.To)
	if err != nil {
		return err
	}
	q.filter.Recipient = &h
	return a.answerList(c, q.filter)
}

func (a *Console) answerList(c echo.Context, f store.Filter) error {
	page, err := a.find(c.Request().Context(), f)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, listJSON{Sends: rowsOf(page.rows), Next: listing.Text(page.next)})
}

func (a *Console) sendJSON(c echo.Context) error {
	s, err := a.story(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	now, away := a.quotaOf(c.Request().Context(), s.Send)
	known, err := a.facts(c.Request().Context(), s, now, away)
	if err != nil {
		return err
	}
	v := explain.Judge(s, known, layout.Words(c))
	out := storyJSON{
		rowJSON: rowOf(s.Send), Number: s.Send.Number, InDoubt: s.Send.InDoubt, Counts: s.Send.Counts,
		Locale: listing.Text(s.Send.Locale), Network: listing.Text(s.Send.IP), Country: listing.Text(s.Send.Country),
		FinishedAt:   listing.Stamp(s.Send.FinishedAt),
		Verification: verificationOf(s), Observed: append([]string{}, s.Send.Observed...), Related: rowsOf(s.Related),
		Suppressions: records.SuppressionsOf(s.Suppressions, s.Now), Events: toldOf(s.Events),
		Verdict: verdictJSON{What: v.What.String(), Next: v.Next.String()},
	}
	if away == nil {
		out.Quota = quotaOf(now)
	}
	return c.JSON(http.StatusOK, out)
}

func rowsOf(sends []store.Send) []rowJSON {
	rows := make([]rowJSON, 0, len(sends))
	for _, s := range sends {
		rows = append(rows, rowOf(s))
	}
	return rows
}

func rowOf(s store.Send) rowJSON {
	row := rowJSON{
		ID: s.ID.String(), VerificationID: listing.Text(s.VerificationID), At: *listing.Stamp(s.LoggedAt), Channel: string(s.Channel),
		To: s.To, Recipient: s.Recipient.String(), Purpose: s.Purpose, App: s.App, Status: s.Status, Reason: listing.Text(s.Reason),
		BlockedBy: listing.Text(s.BlockedBy), Count: s.Count, Attempts: s.Attempt, Provider: listing.Text(s.Provider),
		ProviderCode: listing.Text(s.ProviderCode), Reference: listing.Text(s.Reference),
	}
	if s.Recipients > 0 {
		row.Recipient, row.Recipients = "", s.Recipients
	}
	if s.Status == store.Refused {
		wait := quota.Seconds(s.RetryAfter)
		row.RetryAfter = &wait
	}
	if s.Took > 0 {
		took := quota.Milliseconds(s.Took)
		row.TookMS = &took
	}
	return row
}

func verificationOf(s store.Story) *verificationJSON {
	if s.Verification == nil {
		return nil
	}
	v := *s.Verification
	return &verificationJSON{
		ID: v.ID, Status: verification.StateOf(v, s.Now), CreatedAt: *listing.Stamp(v.CreatedAt), ExpiresAt: *listing.Stamp(v.ExpiresAt),
		Attempts: v.Attempts, MaxAttempts: v.MaxAttempts, Sends: v.Sends,
		ApprovedAt: listing.Stamp(v.ApprovedAt), CanceledAt: listing.Stamp(v.CanceledAt),
	}
}

func quotaOf(d quota.Decision) *quotaJSON {
	out := &quotaJSON{Allowed: d.Allowed(), RetryAfter: quota.Seconds(d.RetryAfter()), Rules: []ruleJSON{}}
	if worst, blocked := d.Blocking(); blocked {
		out.BlockedBy = &worst.Name
		out.RetryAt = listing.Stamp(explain.FreeAt(d, worst))
	}
	for _, s := range d.Public().Rules {
		out.Rules = append(out.Rules, ruleJSON{
			Name: s.Name, Limit: s.Limit, Window: quota.Seconds(s.Window), Remaining: s.Remaining(), ResetAfter: quota.Seconds(s.ResetAfter),
		})
	}
	return out
}

type toldJSON struct {
	Kind     store.ProviderEventKind `json:"kind"`
	At       string                  `json:"at"`
	HeardAt  string                  `json:"heard_at"`
	Provider string                  `json:"provider"`
	Detail   *string                 `json:"detail"`
}

func toldOf(list []store.ProviderEvent) []toldJSON {
	out := make([]toldJSON, 0, len(list))
	for _, e := range list {
		out = append(out, toldJSON{Kind: e.Kind, At: *listing.Stamp(e.At), HeardAt: *listing.Stamp(e.HeardAt), Provider: e.Provider,
			Detail: listing.Text(e.Detail)})
	}
	return out
}
