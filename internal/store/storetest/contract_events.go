package storetest

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// NewEvent returns an event with an ID of its own, newer than all earlier events.
func (f *Fixture) NewEvent(kind string) store.NewEvent {
	f.Serial++
	id := uuid.UUID{0: 1, 6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint32(id[2:], uint32(f.Serial))
	return store.NewEvent{ID: id, Type: kind}
}

func (f *Fixture) events(t *testing.T, filter store.AppEventFilter) []store.AppEvent {
	t.Helper()
	filter.Limit = store.MaxPageRows
	return Must(f.AppEvents(t.Context(), filter))(t)
}

func eventIDs(events []store.AppEvent) (ids []uuid.UUID) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// eventOfASend checks that the event is written once, with the outcome, and has the send's status
// and reason.
func eventOfASend(t *testing.T, f *Fixture) {
	for n, status := range []store.Status{store.Sent, store.Failed, store.Unknown} {
		begun := f.Admit(t, f.Intent(n))
		f.Pass(time.Second)
		event := f.NewEvent("send." + string(status))
		event.Test = status == store.Unknown
		o := store.Outcome{AttemptID: Held(begun.Send.ID, 1), Status: status, Reason: "why", Event: event}
		f.MustFinish(t, o, true)
		want := store.AppEvent{
			ID: event.ID, App: "shop", Type: event.Type, SendID: begun.Send.ID, VerificationID: begun.Verification.ID, Status: string(status),
			Reason: "why", Test: event.Test, At: f.Now, State: store.EventPending, DueAt: f.Now,
			Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
		}
		Equal(t, "event", f.events(t, store.AppEventFilter{})[0], want)
		// The send has ended already, so no further event is written, even if the caller repeats
		// Finish because it got no answer.
		o.Event = f.NewEvent(event.Type)
		f.MustFinish(t, o, false)
		f.MustFinish(t, store.Outcome{AttemptID: Held(begun.Send.ID, 2), Status: store.Sent, Event: f.NewEvent("send.sent")}, false)
		want.Attempt, want.DueAt = 1, f.Now.Add(30*time.Second)
		due, now := must2(f.LeaseDueAppEvents(t.Context(), 30*time.Second, []store.AppEventLimit{{App: "shop", Limit: 10}}))(t)
		Equal(t, "due, by the database's clock", []any{due, now}, []any{[]store.AppEvent{want}, f.Now})
		Equal(t, "event, taken", f.events(t, store.AppEventFilter{})[0], want)
		Equal(t, "events", len(f.events(t, store.AppEventFilter{})), n+1)
	}
}

// eventShares checks that an app with many due events takes no places of another app, and that the
// longest overdue events of an app come first.
func eventShares(t *testing.T, f *Fixture) {
	sendWithEvent := func(n int, app string) uuid.UUID {
		event := f.NewEvent("send.sent")
		f.Ended(t, f.Intent(n, inApp(app)), store.Outcome{Status: store.Sent, Event: event})
		f.Pass(time.Millisecond)
		return event.ID
	}
	var busy []uuid.UUID
	for n := range 8 {
		busy = append(busy, sendWithEvent(n, "busy"))
	}
	quiet := sendWithEvent(9, "quiet")
	sendWithEvent(10, "no one asks")
	take := func(shares ...store.AppEventLimit) []uuid.UUID {
		events, _ := must2(f.LeaseDueAppEvents(t.Context(), time.Hour, shares))(t)
		return eventIDs(events)
	}
	Equal(t, "nothing asked for", take(), nil)
	Equal(t, "a share each", take(store.AppEventLimit{App: "busy", Limit: 3}, store.AppEventLimit{App: "quiet", Limit: 3}),
		append(busy[:3:3], quiet))
	Equal(t, "the next ones", take(store.AppEventLimit{App: "quiet", Limit: 3}, store.AppEventLimit{App: "busy", Limit: 4}), busy[3:7])
	Equal(t, "the last one", take(store.AppEventLimit{App: "busy", Limit: 4}), busy[7:])
	listed := f.events(t, store.AppEventFilter{App: "busy", State: store.EventPending, Before: busy[3]})
	Equal(t, "listed", eventIDs(listed), reversed(busy[:3]))
}

// eventAttempts checks that only the newest attempt can end an event, and only once. After that,
// the event is due again later, or has ended.
func eventAttempts(t *testing.T, f *Fixture) {
	event := f.NewEvent("send.sent")
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent, Event: event})
	lease := func(attempt int) {
		t.Helper()
		events, _ := must2(f.LeaseDueAppEvents(t.Context(), time.Minute, []store.AppEventLimit{{App: "shop", Limit: 3}}))(t)
		Equal(t, "leased", []any{len(events), events[0].Attempt}, []any{1, attempt})
	}
	end := func(attempt int, state store.EventState, want bool) {
		t.Helper()
		o := store.AppEventOutcome{
			AttemptID: store.AttemptID{ID: event.ID, Attempt: attempt}, State: state, Answer: "503", After: time.Second,
		}
		Equal(t, "ended", Must(f.EndAppEventAttempt(t.Context(), o))(t), want)
	}
	lease(1)
	end(1, store.EventPending, true)
	f.Pass(time.Second)
	lease(2)
	end(1, store.EventGivenUp, false)
	end(2, store.EventDelivered, true)
	end(2, store.EventPending, false)
	got := f.events(t, store.AppEventFilter{})[0]
	Equal(t, "event", []any{got.State, got.Attempt, got.Answer, got.DueAt}, []any{store.EventDelivered, 2, "503", time.Time{}})
}

func eventsOnce(t *testing.T, f *Fixture) {
	begun := f.admitAll(t, 60, func(i int) store.Intent { return f.Intent(i) })
	f.endAll(t, begun, func(int) store.Outcome { return store.Outcome{Status: store.Sent, Event: f.NewEvent("send.sent")} })
	eachOnce(t, f, 60, func(db *sqldb.DB) (ids []uuid.UUID, err error) {
		events, _, err := db.LeaseDueAppEvents(t.Context(), time.Hour, []store.AppEventLimit{{App: "shop", Limit: 3}})
		return eventIDs(events), err
	})
}

// eventsOfExpiry checks that each code that expires is reported once, by any number of replicas,
// even if several codes expire at one instant. A code that ended otherwise is not reported.
func eventsOfExpiry(t *testing.T, f *Fixture) {
	open := f.admitAll(t, 10, func(i int) store.Intent { return f.Intent(i) }) // all expire at the same instant
	f.Admit(t, f.Intent(11, inApp("other")))
	f.Admit(t, f.Intent(12, withCode("sealed"))) // the caller checks this code, so its expiry is not reported
	open = append(open, f.Admit(t, f.Intent(13, withReport)))
	f.approve(t, open[0].Verification.ID)
	Equal(t, "canceled", Must(f.Cancel(t.Context(), open[1].Verification.ID))(t), true)
	for range 5 {
		tryOnce(t, f, open[2].Verification.ID)
	}
	addExpiryEvents := func(db *sqldb.DB, from store.ExpiryCursor) (store.ExpiryCursor, int) {
		return must2(db.AddExpiryEvents(t.Context(), []string{"shop"}, from, 3, func(store.Verification) (store.NewEvent, error) {
			return store.NewEvent{Type: store.VerificationExpired, Status: "expired"}, nil
		}))(t)
	}
	reportedIDs := func() (ids []string) {
		for _, e := range f.events(t, store.AppEventFilter{}) {
			Equal(t, "event", e.Type+" "+e.Status+" "+e.App, "verification.expired expired shop")
			ids = append(ids, e.VerificationID)
		}
		return ids
	}
	f.Pass(10*time.Minute + store.CallTimeout)
	_, read := addExpiryEvents(f.DB, store.ExpiryCursor{})
	Equal(t, "read, while a check may be about to commit", read, 0)
	f.Pass(2 * store.CallTimeout)
	mark, pages := store.ExpiryCursor{}, []int(nil)
	for read = 3; read == 3; pages = append(pages, read) {
		mark, read = addExpiryEvents(f.DB, mark)
	}
	Equal(t, "pages", pages, []int{3, 3, 2})
	_, read = addExpiryEvents(f.DB, mark)
	Equal(t, "read again", read, 0)
	_, read = addExpiryEvents(f.Replica, store.ExpiryCursor{})
	Equal(t, "read by one that has just begun", read, 3)
	var want []string
	for _, b := range open[3:] {
		want = append(want, b.Verification.ID)
	}
	slices.Sort(want)
	got := reportedIDs()
	slices.Sort(got)
	Equal(t, "told", got, want)
	late := f.Admit(t, f.Intent(12))
	f.Pass(2 * time.Hour)
	_, read = addExpiryEvents(f.DB, store.ExpiryCursor{})
	Equal(t, "read of what expired long before the first process", read, 0)
	_, read = addExpiryEvents(f.DB, store.ExpiryCursor{At: late.Verification.CreatedAt})
	Equal(t, "and after a process slept", read, 0)
}
