package records

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

func (handlers *Handlers) auditEntryList() layout.List[store.AuditFilter, store.AuditEntry] {
	return layout.List[store.AuditFilter, store.AuditEntry]{
		Name: "acts", Path: "/admin/acts", JSON: auditEntryJSON,
		Parameters: func(f *store.AuditFilter) layout.Parameters {
			return layout.Parameters{
				"who": layout.ShortTextParameter(&f.Who), "what": layout.ShortTextParameter(&f.What),
				"recipient": layout.RecipientHashParser(&f.Recipient),
			}
		},
		Paging: func(f *store.AuditFilter) layout.PagingFields {
			return layout.PagingFields{Limit: &f.Limit, Before: &f.Before}
		},
		Cursor: func(r store.AuditEntry) store.Cursor { return store.Cursor{At: r.At, ID: r.ID} },
		Read: func(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, time.Time, error) {
			list, err := handlers.Store.AuditEntries(ctx, f)
			return list, time.Time{}, err
		},
	}
}

func auditEntryJSON(a store.AuditEntry, _ time.Time) layout.JSONObject {
	return layout.JSONObject{
		"id": a.ID, "at": layout.Timestamp(a.At), "who": a.Who, "role": a.Role, "network": layout.OrNull(a.Network),
		"what": a.What,
		"app":  layout.OrNull(a.App), "channel": layout.OrNull(a.Channel), "purpose": layout.OrNull(a.Purpose),
		"to":        layout.OrNull(a.To),
		"recipient": layout.OrNull(a.Recipient), "target": layout.OrNull(a.Target), "reason": layout.OrNull(a.Reason),
		"outcome": a.Outcome, "detail": layout.OrNull(a.Detail), "ends": layout.OrNull(a.Completes),
	}
}

// auditView is the data of the template acts.html.
type auditView struct {
	layout.Page
	layout.PaginatedRows[store.AuditFilter, store.AuditEntry]
	Actions []layout.FieldOption
	People  []string // names of the people who acted in the rows
	Topics  []string // providers whose subscription the reader may accept
	Problem string
	Typed   url.Values // the fields of the form that was refused
}

func (handlers *Handlers) auditPage(c echo.Context) error {
	return handlers.showAuditPage(c, http.StatusOK, c.Request().URL.RawQuery, nil, "")
}

func (handlers *Handlers) showAuditPage(c echo.Context, status int, rawQuery string, refusedForm url.Values, problem string) error {
	p, err := handlers.auditEntryList().PageOrMistake(c, rawQuery, store.AuditFilter{})
	if err != nil {
		return err
	}
	// if this page has both the beginning and the end of an action, only the end is shown
	p.Rows = slices.DeleteFunc(p.Rows, func(entry store.AuditEntry) bool {
		return slices.ContainsFunc(p.Rows, func(end store.AuditEntry) bool { return entry.ID != uuid.Nil && end.Completes == entry.ID })
	})
	v := auditView{Page: layout.NewPage(c, "acts.title", "acts"), PaginatedRows: p, Problem: problem, Typed: refusedForm}
	v.Actions = layout.FieldOptions(v.W, "acts", "action", p.Filter.What, auth.RecordedActions()...)
	for _, entry := range p.Rows {
		v.People = append(v.People, entry.Who)
	}
	slices.Sort(v.People)
	v.People = slices.Compact(v.People)
	if auth.ActorOf(c).May(auth.ActionAcceptSubscription) {
		v.Topics = handlers.TopicProviders
	}
	return handlers.Layout.Show(c, p.Mistake.StatusOr(status), "acts", v)
}

// acceptSubscription lets the next subscription of a provider's topic be confirmed.
func (handlers *Handlers) acceptSubscription(c echo.Context, provider, reason string) error {
	if !slices.Contains(handlers.TopicProviders, provider) {
		return fault.Invalid("provider", "unknown", "No provider of this name has a topic.")
	}
	act, err := handlers.Auth.NewAuditEntry(c, auth.ActionAcceptSubscription)
	if err != nil {
		return err
	}
	return handlers.Administration.AllowSubscription(c.Request().Context(), provider, strings.TrimSpace(reason), act)
}

func (handlers *Handlers) acceptSubscriptionJSON(c echo.Context) error {
	var w struct {
		Provider string `json:"provider"`
		Reason   string `json:"reason"`
	}
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	if err := handlers.acceptSubscription(c, w.Provider, w.Reason); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (handlers *Handlers) acceptSubscriptionForm(c echo.Context, form url.Values) error {
	err := handlers.acceptSubscription(c, form.Get("provider"), form.Get("reason"))
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		return handlers.showAuditPage(c, http.StatusUnprocessableEntity, "", form,
			actionProblemText(layout.Words(c), "acts", bad, support.MaxReasonLength))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/admin/acts")
}

// IsOnSend reports whether the entry is about a send, that is, whether its target is an ID.
func (v auditView) IsOnSend(a store.AuditEntry) bool {
	_, err := uuid.Parse(a.Target)
	return err == nil
}

// TargetText returns the masked recipient of an entry. If there is none, it returns the target, or
// "–" if the target is the ID of a send.
func (v auditView) TargetText(a store.AuditEntry) string {
	if v.IsOnSend(a) {
		return cmp.Or(a.To, "–")
	}
	return cmp.Or(a.To, a.Target, "–")
}

// State returns the label of how an audited action ended.
func (v auditView) State(a store.AuditEntry) explain.StateLabel {
	return outcomeLabel(v.W.Or("outcome", string(a.Outcome)), a.Outcome == store.AuditDone, a.Outcome == store.AuditFailed)
}

// outcomeLabel returns a label for the outcome of an audited action or of an event: done, failed,
// or not yet ended.
func outcomeLabel(word string, done, failed bool) explain.StateLabel {
	switch {
	case done:
		return explain.StateLabel{Sign: "✓", Word: word, Tone: explain.Good}
	case failed:
		return explain.StateLabel{Sign: "✕", Word: word, Tone: explain.Bad}
	}
	return explain.StateLabel{Sign: "…", Word: word, Tone: explain.Neutral}
}
