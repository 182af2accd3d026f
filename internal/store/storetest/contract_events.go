package storetest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// Telling is an event with an ID of its own, newer than those before.
func (f *Fixture) Telling(kind string) store.NewEvent {
	f.Serial++
	id := uuid.UUID{0: 1, 6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint32(id[2:], uint32(f.Serial))
	return store.NewEvent{ID: id, Type: kind}
}

// takeDueEvents takes what is due of the apps, 10 each, for a lease of 30 s.
func (f *Fixture) takeDueEvents(t *testing.T, apps ...string) []store.AppEvent {
	t.Helper()
	var shares []store.Share
	for _, app := range apps {
		shares = append(shares, store.Share{App: app, Limit: 10})
	}
	events, now := Must2(f.AppEventsDue(t.Context(), 30*time.Second, shares))(t)
	if len(events) > 0 {
		Equal(t, "the log's clock", now, f.Now)
	}
	return events
}

func (f *Fixture) endEvent(t *testing.T, e store.AppEventEnd, want bool) {
	t.Helper()
	Equal(t, "ended", Must(f.AppEventEnded(t.Context(), e))(t), want)
}

func (f *Fixture) events(t *testing.T, filter store.AppEventFilter) []store.AppEvent {
	t.Helper()
	filter.Limit = store.MaxPage
	return Must(f.AppEvents(t.Context(), filter))(t)
}

func eventIDs(events []store.AppEvent) (ids []uuid.UUID) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// The event is there when the outcome is, once, and says what the outcome was then.
func eventOfASend(t *testing.T, f *Fixture) {
	for n, status := range []store.Status{store.Sent, store.Failed, store.Unknown} {
		begun := f.Admit(t, f.Intent(n))
		f.Pass(time.Second)
		tell := f.Telling("send." + string(status))
		tell.Test = status == store.Unknown
		o := store.Outcome{Held: Held(begun.Send.ID, 1), Status: status, Reason: "why", Event: tell}
		f.MustFinish(t, o, true)
		want := store.AppEvent{
			ID: tell.ID, App: "shop", Type: tell.Type, SendID: begun.Send.ID, VerificationID: begun.Verification.ID, Status: string(status),
			Reason: "why", Test: tell.Test, At: f.Now, State: store.EventPending, DueAt: f.Now,
			Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
		}
		Equal(t, "event", f.events(t, store.AppEventFilter{})[0], want)
		// It ended before: nothing more is told, though the caller, who did not hear of it, asks again.
		o.Event = f.Telling(tell.Type)
		f.MustFinish(t, o, false)
		f.MustFinish(t, store.Outcome{Held: Held(begun.Send.ID, 2), Status: store.Sent, Event: f.Telling("send.sent")}, false)
		want.Attempt, want.DueAt = 1, f.Now.Add(30*time.Second)
		Equal(t, "due", f.takeDueEvents(t, "shop"), []store.AppEvent{want})
		Equal(t, "event, taken", f.events(t, store.AppEventFilter{})[0], want)
		Equal(t, "events", len(f.events(t, store.AppEventFilter{})), n+1)
	}
}

func eventOfAnApproval(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	f.Pass(time.Second)
	tell := f.Telling("verification.approved")
	tell.Test = true
	for _, want := range []bool{true, false} {
		won := Must(f.Approve(t.Context(), begun.Verification.ID, tell))(t)
		Equal(t, "approved", won, want)
		tell = f.Telling("verification.approved")
	}
	Equal(t, "approved", Must(f.Approve(t.Context(), "no such id", f.Telling("verification.approved")))(t), false)
	events := f.takeDueEvents(t, "shop")
	Equal(t, "events", len(events), 1)
	Equal(t, "event", events[0], store.AppEvent{
		ID: events[0].ID, App: "shop", Type: "verification.approved", VerificationID: begun.Verification.ID, Status: "approved", Test: true,
		At: f.Now, State: store.EventPending, Attempt: 1, DueAt: f.Now.Add(30 * time.Second),
		Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
	})
}

func noEventUnlessAsked(t *testing.T, f *Fixture) {
	f.approve(t, f.Ended(t, f.Intent(1), Sent).Verification.ID)
	cancel(t, f, f.Admit(t, f.Intent(2)).Verification.ID)
	Equal(t, "events", len(f.events(t, store.AppEventFilter{})), 0)
}

// Outcomes share round trips: each event is its own send's, and an outcome without an event adds none.
func eventsAmongOthers(t *testing.T, f *Fixture) {
	begun := f.AdmitAll(t, 60, func(i int) store.Intent { return f.Intent(i) })
	want := map[uuid.UUID]uuid.UUID{}
	f.EndAll(t, begun, func(i int) store.Outcome {
		o := Sent
		if i%3 > 0 {
			o.Event = f.Telling("send.sent")
			want[o.Event.ID] = begun[i].Send.ID
		}
		return o
	})
	events := f.events(t, store.AppEventFilter{})
	Equal(t, "events", len(events), len(want))
	for _, e := range events {
		Equal(t, "send of the event", e.SendID, want[e.ID])
	}
}

func eventLeases(t *testing.T, f *Fixture) {
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent, Event: f.Telling("send.sent")})
	first := f.takeDueEvents(t, "shop")[0]
	f.Pass(30*time.Second - time.Microsecond)
	Equal(t, "due before the lease ends", len(f.takeDueEvents(t, "shop")), 0)
	f.Pass(time.Microsecond)
	second := f.takeDueEvents(t, "shop")[0]
	Equal(t, "ID and attempt", []any{second.ID, second.Attempt}, []any{first.ID, 2})

	// Who slept through its lease changes nothing.
	stale := Held(first.ID, 1)
	for _, state := range []store.EventState{store.EventPending, store.EventDelivered, store.EventGivenUp} {
		f.endEvent(t, store.AppEventEnd{Held: stale, State: state, Answer: "late"}, false)
	}
	Equal(t, "after stale words", f.events(t, store.AppEventFilter{})[0], second)

	f.endEvent(t, store.AppEventEnd{Held: Held(first.ID, 2), State: store.EventPending, After: time.Minute + 9, Answer: "503\x00"}, true)
	second.DueAt, second.Answer = f.Now.Add(time.Minute), "503\uFFFD"
	Equal(t, "put off", f.events(t, store.AppEventFilter{})[0], second)
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "due too early", len(f.takeDueEvents(t, "shop")), 0)
	f.Pass(time.Microsecond)
	third := f.takeDueEvents(t, "shop")[0]
	f.Pass(time.Second)
	f.endEvent(t, store.AppEventEnd{Held: Held(first.ID, 3), State: store.EventDelivered, Answer: "204"}, true)
	third.State, third.Answer, third.DueAt, third.EndedAt = store.EventDelivered, "204", time.Time{}, f.Now
	Equal(t, "delivered", f.events(t, store.AppEventFilter{})[0], third)
	f.endEvent(t, store.AppEventEnd{Held: Held(first.ID, 3), State: store.EventGivenUp}, false)
	f.Pass(time.Hour)
	Equal(t, "due after its end", len(f.takeDueEvents(t, "shop")), 0)
	Equal(t, "delivered, later", f.events(t, store.AppEventFilter{})[0], third)
}

// An app with many events that are due takes nothing of another's turn, and of one app the longest overdue come first.
func eventShares(t *testing.T, f *Fixture) {
	tell := func(n int, app string) uuid.UUID {
		tell := f.Telling("send.sent")
		f.Ended(t, f.Intent(n, inApp(app)), store.Outcome{Status: store.Sent, Event: tell})
		f.Pass(time.Millisecond)
		return tell.ID
	}
	var busy []uuid.UUID
	for n := range 8 {
		busy = append(busy, tell(n, "busy"))
	}
	quiet := tell(9, "quiet")
	tell(10, "no one asks")
	take := func(shares ...store.Share) []uuid.UUID {
		events, _ := Must2(f.AppEventsDue(t.Context(), time.Hour, shares))(t)
		return eventIDs(events)
	}
	Equal(t, "nothing asked for", take(), nil)
	Equal(t, "a share each", take(store.Share{App: "busy", Limit: 3}, store.Share{App: "quiet", Limit: 3}), append(busy[:3:3], quiet))
	Equal(t, "the next ones", take(store.Share{App: "quiet", Limit: 3}, store.Share{App: "busy", Limit: 4}), busy[3:7])
	Equal(t, "the last one", take(store.Share{App: "busy", Limit: 4}), busy[7:])
}

func eventsOnce(t *testing.T, f *Fixture) {
	begun := f.AdmitAll(t, 60, func(i int) store.Intent { return f.Intent(i) })
	f.EndAll(t, begun, func(int) store.Outcome { return store.Outcome{Status: store.Sent, Event: f.Telling("send.sent")} })
	eachOnce(t, f, 60, func(log store.Store) (ids []uuid.UUID, err error) {
		events, _, err := log.AppEventsDue(t.Context(), time.Hour, []store.Share{{App: "shop", Limit: 3}})
		return eventIDs(events), err
	})
}

func eventsForgotten(t *testing.T, f *Fixture) {
	const keep = 7 * 24 * time.Hour
	var ids []uuid.UUID
	for n := range 4 {
		tell := f.Telling("send.sent")
		f.Ended(t, f.Intent(n), store.Outcome{Status: store.Sent, Event: tell})
		ids = append([]uuid.UUID{tell.ID}, ids...)
	}
	f.takeDueEvents(t, "shop")
	f.endEvent(t, store.AppEventEnd{Held: Held(ids[3], 1), State: store.EventDelivered}, true)
	f.Pass(time.Hour)
	f.endEvent(t, store.AppEventEnd{Held: Held(ids[2], 1), State: store.EventGivenUp}, true)
	forget := func(limit, wantGone, wantGivenUp int, want ...uuid.UUID) {
		t.Helper()
		gone, n := Must2(f.ForgetAppEvents(t.Context(), keep, limit))(t)
		Equal(t, "forgotten, given up", []int{gone, n}, []int{wantGone, wantGivenUp})
		Equal(t, "left", eventIDs(f.events(t, store.AppEventFilter{})), want)
	}
	f.Pass(keep - time.Hour)
	forget(10, 0, 0, ids...)
	f.Pass(time.Microsecond)
	forget(1, 1, 1, ids[:3]...) // one that was delivered goes, and one of two that were not delivered is given up
	first := f.events(t, store.AppEventFilter{})[1]
	Equal(t, "given up", []any{first.State, first.EndedAt, first.DueAt}, []any{store.EventGivenUp, f.Now, time.Time{}})
	f.Pass(time.Hour)
	forget(10, 1, 1, ids[0], ids[1])
	Equal(t, "pending", len(f.events(t, store.AppEventFilter{State: store.EventPending})), 0)
	f.Pass(keep + time.Microsecond)
	forget(10, 2, 0)
}

func eventPages(t *testing.T, f *Fixture) {
	for n := range 6 {
		f.Ended(t, f.Intent(n, inApp([]string{"shop", "other"}[n%2])), store.Outcome{Status: store.Sent, Event: f.Telling("send.sent")})
	}
	for _, e := range f.takeDueEvents(t, "shop") {
		state := store.EventDelivered
		if e.SendID == f.events(t, store.AppEventFilter{App: "shop"})[0].SendID {
			state = store.EventGivenUp
		}
		f.endEvent(t, store.AppEventEnd{Held: Held(e.ID, 1), State: state}, true)
	}
	all := f.events(t, store.AppEventFilter{})
	Equal(t, "all", len(all), 6)
	Equal(t, "newest first", sorted(eventIDs(all)), reversed(eventIDs(all)))
	Equal(t, "first page", Must(f.AppEvents(t.Context(), store.AppEventFilter{Limit: 4}))(t), all[:4])
	for _, c := range []struct {
		filter store.AppEventFilter
		want   []store.AppEvent
	}{
		{store.AppEventFilter{Before: all[3].ID}, all[4:]},
		{store.AppEventFilter{App: "other"}, []store.AppEvent{all[0], all[2], all[4]}},
		{store.AppEventFilter{App: "unknown"}, nil},
		{store.AppEventFilter{App: "shop", State: store.EventGivenUp}, []store.AppEvent{all[1]}},
		{store.AppEventFilter{State: store.EventDelivered}, []store.AppEvent{all[3], all[5]}},
		{store.AppEventFilter{State: store.EventPending, Before: all[2].ID}, []store.AppEvent{all[4]}},
	} {
		Equal(t, Show(c.filter), f.events(t, c.filter), c.want)
	}
}
