package records

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/frame"
	"sendcode/internal/store"
)

// The webhook events of apps and whether they arrived, to find out why a back end did not hear of
// something.

// eventFilter is the store's, with a cursor as other lists have it.
type eventFilter struct {
	store.AppEventFilter
	before *store.Cursor
}

var eventStates = []store.EventState{store.EventPending, store.EventDelivered, store.EventGivenUp}

// events returns the list of webhook events.
func (a *Records) events() frame.List[eventFilter, store.AppEvent] {
	return frame.List[eventFilter, store.AppEvent]{
		Name: "events", Path: "/admin/webhooks", JSON: eventJSON,
		Parameters: func(f *eventFilter) frame.Parameters {
			return frame.Parameters{"app": frame.ShortText(&f.App), "state": frame.OneOf(&f.State, eventStates...)}
		},
		Place: func(f *eventFilter) frame.Place { return frame.Place{Limit: &f.Limit, Before: &f.before} },
		Mark:  func(e store.AppEvent) store.Cursor { return store.Cursor{At: e.At, ID: e.ID} },
		Read: func(ctx context.Context, f eventFilter) ([]store.AppEvent, time.Time, error) {
			if f.before != nil {
				f.Before = f.before.ID
			}
			list, err := a.Store.AppEvents(ctx, f.AppEventFilter)
			return list, a.Now(), err
		},
	}
}

func eventJSON(e store.AppEvent, _ time.Time) frame.Object {
	return frame.Object{
		"id": e.ID, "app": e.App, "type": e.Type, "at": frame.Timestamp(e.At), "verification_id": e.VerificationID,
		"send_id": frame.OrNull(e.SendID), "channel": e.Channel, "purpose": e.Purpose, "to": e.To, "status": e.Status,
		"reason": frame.OrNull(e.Reason), "reference": frame.OrNull(e.Reference), "test": e.Test, "state": e.State,
		"attempts": e.Attempt,
		"due_at":   frame.Timestamp(e.DueAt), "ended_at": frame.Timestamp(e.EndedAt), "answer": frame.OrNull(e.Answer),
	}
}

// eventsView is the page.
type eventsView struct {
	frame.Page
	frame.Result[eventFilter, store.AppEvent]
	States []frame.Option
}

func (a *Records) eventsPage(c echo.Context) error {
	p, err := a.events().PageForQuery(c.Request().Context(), c.Request().URL.RawQuery, eventFilter{})
	if err != nil {
		return err
	}
	v := eventsView{frame.NewPage(c, "events.title", "webhooks"), p, nil}
	v.States = frame.Options(v.W, "events.state", "events.state", p.Filter.State, eventStates...)
	return a.Layout.Show(c, http.StatusOK, "events", v)
}

// State returns whether an event arrived.
func (v eventsView) State(e store.AppEvent) explain.Label {
	return endLabel(v.W.Or("events.state", string(e.State)), e.State == store.EventDelivered,
		e.State == store.EventGivenUp)
}

// RetryText returns when an event is tried again, in words; "" if it is not, or was never tried.
func (v eventsView) RetryText(e store.AppEvent) string {
	if e.State != store.EventPending || e.Attempt == 0 {
		return ""
	}
	return v.W.Get("events.again", "wait", v.W.Wait(max(0, e.DueAt.Sub(v.Now))))
}
