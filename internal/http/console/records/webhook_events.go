package records

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// webhookEventFilter is the store's filter, with a cursor like that of other lists.
type webhookEventFilter struct {
	store.AppEventFilter
	before *store.Cursor
}

var webhookEventStates = []store.EventState{store.EventPending, store.EventDelivered, store.EventGivenUp}

func webhookEventTypes() (names []string) {
	for _, e := range store.EventTypes {
		names = append(names, e.Name)
	}
	return names
}

func (handlers *Handlers) webhookEventList() layout.List[webhookEventFilter, store.AppEvent] {
	return layout.List[webhookEventFilter, store.AppEvent]{
		Name: "events", Path: "/admin/webhooks", JSON: webhookEventJSON,
		Parameters: func(f *webhookEventFilter) layout.Parameters {
			return layout.Parameters{
				"app": layout.ShortTextParameter(&f.App), "type": layout.OneOfParameter(&f.Type, webhookEventTypes()...),
				"state": layout.OneOfParameter(&f.State, webhookEventStates...), "recipient": layout.RecipientHashParser(&f.Recipient),
			}
		},
		Paging: func(f *webhookEventFilter) layout.PagingFields {
			return layout.PagingFields{Limit: &f.Limit, Before: &f.before}
		},
		Cursor: func(e store.AppEvent) store.Cursor { return store.Cursor{At: e.At, ID: e.ID} },
		Read: func(ctx context.Context, f webhookEventFilter) ([]store.AppEvent, time.Time, error) {
			if f.before != nil {
				f.Before = f.before.ID
			}
			list, err := handlers.Store.AppEvents(ctx, f.AppEventFilter)
			return list, handlers.Now(), err
		},
	}
}

func webhookEventJSON(e store.AppEvent, _ time.Time) layout.JSONObject {
	return layout.JSONObject{
		"id": e.ID, "app": e.App, "type": e.Type, "at": layout.Timestamp(e.At), "verification_id": e.VerificationID,
		"send_id": layout.OrNull(e.SendID), "channel": e.Channel, "purpose": e.Purpose, "to": e.To, "status": e.Status,
		"reason": layout.OrNull(e.Reason), "reference": layout.OrNull(e.Reference), "test": e.Test, "state": e.State,
		"attempts": e.Attempt,
		"due_at":   layout.Timestamp(e.DueAt), "ended_at": layout.Timestamp(e.EndedAt), "answer": layout.OrNull(e.Answer),
	}
}

// webhookEventsView is the data of the page of apps' webhook events. The page helps to find out why
// a back end did not receive an event.
type webhookEventsView struct {
	layout.Page
	layout.PaginatedRows[webhookEventFilter, store.AppEvent]
	States []layout.FieldOption
	Kinds  []layout.FieldOption // types, as a filter
	Apps   []string             // the apps to which the reader may send a sample
	Types  []store.EventType    // the types that a sample may have
	Posted postedSample
}

// postedSample is a sample event that was posted to an app. The zero value means that none was
// posted.
type postedSample struct {
	App, Event, Answer string
	OK                 bool
}

func (handlers *Handlers) webhookEventsPage(c echo.Context) error {
	return handlers.showWebhookEvents(c, http.StatusOK, postedSample{})
}

// postSampleEventForm posts a sample of an event to an app, and shows the answer.
func (handlers *Handlers) postSampleEventForm(c echo.Context, form url.Values) error {
	s := postedSample{App: form.Get("app"), Event: form.Get("event")}
	if !slices.Contains(handlers.Webhooks.Apps(), s.App) {
		s.Answer = layout.Words(c).Get("events.sample.unknown")
		return handlers.showWebhookEvents(c, server.InvalidField.Status, s)
	}
	// before the action, because a page that can't be shown can't show the result of the action
	list, r := handlers.webhookEventList(), c.Request()
	if _, err := list.PageForRawQuery(r.Context(), r.URL.RawQuery, webhookEventFilter{}); err != nil {
		return err
	}
	act, err := handlers.Auth.NewAuditEntry(c, auth.ActionSampleEvent)
	if err != nil {
		return err
	}
	act.App, act.Target = s.App, s.Event
	if err := handlers.Store.AddAuditEntry(c.Request().Context(), act); err != nil {
		return err
	}
	if s.Answer, s.OK, err = handlers.Webhooks.PostSample(c.Request().Context(), s.App, s.Event); err != nil {
		return err
	}
	return handlers.showWebhookEvents(c, http.StatusOK, s)
}

func (handlers *Handlers) showWebhookEvents(c echo.Context, status int, posted postedSample) error {
	p, err := handlers.webhookEventList().PageOrMistake(c, c.Request().URL.RawQuery, webhookEventFilter{})
	if err != nil {
		return err
	}
	v := webhookEventsView{Page: layout.NewPage(c, "events.title", "webhooks"), PaginatedRows: p, Types: store.EventTypes, Posted: posted}
	if auth.ActorOf(c).May(auth.ActionSampleEvent) {
		v.Apps = handlers.Webhooks.Apps()
	}
	v.States = layout.FieldOptions(v.W, "events.state", "events.state", p.Filter.State, webhookEventStates...)
	v.Kinds = []layout.FieldOption{{Text: v.W.Get("events.type.any"), Chosen: p.Filter.Type == ""}}
	for _, name := range webhookEventTypes() {
		v.Kinds = append(v.Kinds, layout.FieldOption{Value: name, Text: name, Chosen: name == p.Filter.Type})
	}
	return handlers.Layout.Show(c, p.Mistake.StatusOr(status), "events", v)
}

// State returns the label of an event: delivered, given up or pending.
func (v webhookEventsView) State(e store.AppEvent) explain.StateLabel {
	return outcomeLabel(v.W.Or("events.state", string(e.State)), e.State == store.EventDelivered,
		e.State == store.EventGivenUp)
}

// RetryText returns in words when the event is tried again; "" if the event is not tried again, or
// was never tried.
func (v webhookEventsView) RetryText(e store.AppEvent) string {
	if e.State != store.EventPending || e.Attempt == 0 {
		return ""
	}
	return v.W.Get("events.again", "wait", v.W.Wait(max(0, e.DueAt.Sub(v.Now))))
}
