package audit

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// telling is an event with an ID of its own, newer than those before.
func (f *fixture) telling(kind string) Tell {
	f.serial++
	id := uuid.UUID{0: 1, 6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint32(id[2:], uint32(f.serial))
	return Tell{ID: id, Type: kind}
}

// due takes what is due of the apps, 10 each, for a lease of 30 s.
func (f *fixture) due(t *testing.T, apps ...string) []AppEvent {
	t.Helper()
	var shares []Share
	for _, app := range apps {
		shares = append(shares, Share{app, 10})
	}
	events, now, err := f.AppEventsDue(t.Context(), 30*time.Second, shares)
	ok(t, err)
	if len(events) > 0 {
		equal(t, "the log's clock", now, f.now)
	}
	return events
}

func (f *fixture) endEvent(t *testing.T, e AppEventEnd, want bool) {
	t.Helper()
	got, err := f.AppEventEnded(t.Context(), e)
	ok(t, err)
	equal(t, "ended", got, want)
}

func (f *fixture) events(t *testing.T, filter AppEventFilter) []AppEvent {
	t.Helper()
	filter.Limit = maxPage
	events, err := f.AppEvents(t.Context(), filter)
	ok(t, err)
	return events
}

// The event is there when the outcome is, once, and says what the outcome was then.
func eventOfASend(t *testing.T, f *fixture) {
	for n, status := range []Status{Sent, Failed, Unknown} {
		begun := f.admit(t, f.intent(n))
		f.pass(time.Second)
		tell := f.telling("send." + string(status))
		tell.Test = status == Unknown
		o := Outcome{Held: Held{begun.Send.ID, 1}, Status: status, Reason: "why", Tell: tell}
		f.finish(t, o, true)
		want := AppEvent{
			ID: tell.ID, App: "shop", Type: tell.Type, SendID: begun.Send.ID, VerificationID: begun.Verification.ID, Status: string(status),
			Reason: "why", Test: tell.Test, At: f.now, State: EventPending, DueAt: f.now,
			Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
		}
		equal(t, "event", f.events(t, AppEventFilter{})[0], want)
		// It ended before: nothing more is told, though the caller, who did not hear of it, asks again.
		o.Tell = f.telling(tell.Type)
		f.finish(t, o, false)
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 2}, Status: Sent, Tell: f.telling("send.sent")}, false)
		want.Attempt, want.DueAt = 1, f.now.Add(30*time.Second)
		equal(t, "due", f.due(t, "shop"), []AppEvent{want})
		equal(t, "event, taken", f.events(t, AppEventFilter{})[0], want)
		equal(t, "events", len(f.events(t, AppEventFilter{})), n+1)
	}
}

func eventOfAnApproval(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	f.pass(time.Second)
	tell := f.telling("verification.approved")
	tell.Test = true
	for _, want := range []bool{true, false} {
		won, err := f.Approve(t.Context(), begun.Verification.ID, tell)
		ok(t, err)
		equal(t, "approved", won, want)
		tell = f.telling("verification.approved")
	}
	won, err := f.Approve(t.Context(), "no such id", f.telling("verification.approved"))
	ok(t, err)
	equal(t, "approved", won, false)
	events := f.due(t, "shop")
	equal(t, "events", len(events), 1)
	equal(t, "event", events[0], AppEvent{
		ID: events[0].ID, App: "shop", Type: "verification.approved", VerificationID: begun.Verification.ID, Status: "approved", Test: true,
		At: f.now, State: EventPending, Attempt: 1, DueAt: f.now.Add(30 * time.Second),
		Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
	})
}

func nobodyIsTold(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent}, true)
	won, err := f.Approve(t.Context(), begun.Verification.ID, Tell{})
	ok(t, err)
	equal(t, "approved", won, true)
	canceled := f.admit(t, f.intent(2))
	cancel(t, f, canceled.Verification.ID)
	equal(t, "events", len(f.events(t, AppEventFilter{})), 0)
}

// Outcomes share round trips: each event is its own send's, and who is not told gets none.
func eventsAmongOthers(t *testing.T, f *fixture) {
	const n = 60
	outcomes := make([]Outcome, n)
	want := map[uuid.UUID]uuid.UUID{}
	for i := range n {
		begun := f.admit(t, f.intent(i))
		outcomes[i] = Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent}
		if i%3 > 0 {
			outcomes[i].Tell = f.telling("send.sent")
			want[outcomes[i].Tell.ID] = begun.Send.ID
		}
	}
	together(n, func(i int) {
		done, err := f.both(i).Finish(t.Context(), outcomes[i])
		if err != nil || !done {
			t.Error(done, err)
		}
	})
	events := f.events(t, AppEventFilter{})
	equal(t, "events", len(events), len(want))
	for _, e := range events {
		equal(t, "send of the event", e.SendID, want[e.ID])
	}
}

func eventLeases(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: f.telling("send.sent")}, true)
	first := f.due(t, "shop")[0]
	f.pass(30*time.Second - time.Microsecond)
	equal(t, "due before the lease ends", len(f.due(t, "shop")), 0)
	f.pass(time.Microsecond)
	second := f.due(t, "shop")[0]
	equal(t, "ID and attempt", []any{second.ID, second.Attempt}, []any{first.ID, 2})

	// Who slept through its lease changes nothing.
	stale := Held{first.ID, 1}
	for _, state := range []EventState{EventPending, EventDelivered, EventGivenUp} {
		f.endEvent(t, AppEventEnd{Held: stale, State: state, Answer: "late"}, false)
	}
	equal(t, "after stale words", f.events(t, AppEventFilter{})[0], second)

	f.endEvent(t, AppEventEnd{Held: Held{first.ID, 2}, State: EventPending, After: time.Minute + 9, Answer: "503\x00"}, true)
	second.DueAt, second.Answer = f.now.Add(time.Minute), "503\uFFFD"
	equal(t, "put off", f.events(t, AppEventFilter{})[0], second)
	f.pass(time.Minute - time.Microsecond)
	equal(t, "due too early", len(f.due(t, "shop")), 0)
	f.pass(time.Microsecond)
	third := f.due(t, "shop")[0]
	f.pass(time.Second)
	f.endEvent(t, AppEventEnd{Held: Held{first.ID, 3}, State: EventDelivered, Answer: "204"}, true)
	third.State, third.Answer, third.DueAt, third.EndedAt = EventDelivered, "204", time.Time{}, f.now
	equal(t, "delivered", f.events(t, AppEventFilter{})[0], third)
	f.endEvent(t, AppEventEnd{Held: Held{first.ID, 3}, State: EventGivenUp}, false)
	f.pass(time.Hour)
	equal(t, "due after its end", len(f.due(t, "shop")), 0)
	equal(t, "delivered, later", f.events(t, AppEventFilter{})[0], third)
}

// An app with many events that are due takes nothing of another's turn, and of one app the longest overdue come first.
func eventShares(t *testing.T, f *fixture) {
	tell := func(n int, app string) uuid.UUID {
		in := f.intent(n, func(in *Intent) { in.Send.App = app })
		begun, tell := f.admit(t, in), f.telling("send.sent")
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: tell}, true)
		f.pass(time.Millisecond)
		return tell.ID
	}
	var busy []uuid.UUID
	for n := range 8 {
		busy = append(busy, tell(n, "busy"))
	}
	quiet := tell(9, "quiet")
	tell(10, "nobody asks")
	take := func(shares ...Share) (ids []uuid.UUID) {
		events, _, err := f.AppEventsDue(t.Context(), time.Hour, shares)
		ok(t, err)
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	equal(t, "nothing asked for", take(), nil)
	equal(t, "a share each", take(Share{"busy", 3}, Share{"quiet", 3}), append(busy[:3:3], quiet))
	equal(t, "the next ones", take(Share{"quiet", 3}, Share{"busy", 4}), busy[3:7])
	equal(t, "the last one", take(Share{"busy", 4}), busy[7:])
}

func eventsOnce(t *testing.T, f *fixture) {
	for n := range 60 {
		begun := f.admit(t, f.intent(n))
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: f.telling("send.sent")}, true)
	}
	var mu sync.Mutex
	taken := map[uuid.UUID]int{}
	together(8, func(i int) {
		for range 10 {
			events, _, err := f.both(i).AppEventsDue(t.Context(), time.Hour, []Share{{"shop", 3}})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, e := range events {
				taken[e.ID]++
			}
			mu.Unlock()
		}
	})
	equal(t, "events", len(taken), 60)
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%v was taken %d times", id, n)
		}
	}
}

func eventsForgotten(t *testing.T, f *fixture) {
	const keep = 7 * 24 * time.Hour
	var ids []uuid.UUID
	for n := range 4 {
		begun, tell := f.admit(t, f.intent(n)), f.telling("send.sent")
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: tell}, true)
		ids = append([]uuid.UUID{tell.ID}, ids...)
	}
	f.due(t, "shop")
	f.endEvent(t, AppEventEnd{Held: Held{ids[3], 1}, State: EventDelivered}, true)
	f.pass(time.Hour)
	f.endEvent(t, AppEventEnd{Held: Held{ids[2], 1}, State: EventGivenUp}, true)
	forget := func(limit, wantGone, wantGivenUp int, want ...uuid.UUID) {
		t.Helper()
		gone, n, err := f.ForgetAppEvents(t.Context(), keep, limit)
		ok(t, err)
		equal(t, "forgotten, given up", []int{gone, n}, []int{wantGone, wantGivenUp})
		var left []uuid.UUID
		for _, e := range f.events(t, AppEventFilter{}) {
			left = append(left, e.ID)
		}
		equal(t, "left", left, want)
	}
	f.pass(keep - time.Hour)
	forget(10, 0, 0, ids...)
	f.pass(time.Microsecond)
	forget(1, 1, 1, ids[:3]...) // one that was delivered goes, and one of two that nobody delivered is given up
	first := f.events(t, AppEventFilter{})[1]
	equal(t, "given up", []any{first.State, first.EndedAt, first.DueAt}, []any{EventGivenUp, f.now, time.Time{}})
	f.pass(time.Hour)
	forget(10, 1, 1, ids[0], ids[1])
	equal(t, "pending", len(f.events(t, AppEventFilter{State: EventPending})), 0)
	f.pass(keep + time.Microsecond)
	forget(10, 2, 0)
	_, _, err := f.ForgetAppEvents(t.Context(), keep, 0)
	is(t, err, ErrBadRequest)
}

func eventPages(t *testing.T, f *fixture) {
	for n := range 6 {
		in := f.intent(n, func(in *Intent) { in.Send.App = []string{"shop", "other"}[n%2] })
		begun := f.admit(t, in)
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: f.telling("send.sent")}, true)
	}
	for _, e := range f.due(t, "shop") {
		state := EventDelivered
		if e.SendID == f.events(t, AppEventFilter{App: "shop"})[0].SendID {
			state = EventGivenUp
		}
		f.endEvent(t, AppEventEnd{Held: Held{e.ID, 1}, State: state}, true)
	}
	all := f.events(t, AppEventFilter{})
	equal(t, "all", len(all), 6)
	var paged []AppEvent
	for before := (uuid.UUID{}); ; before = paged[len(paged)-1].ID {
		page, err := f.AppEvents(t.Context(), AppEventFilter{Before: before, Limit: 4})
		ok(t, err)
		paged = append(paged, page...)
		if len(page) < 4 {
			break
		}
	}
	equal(t, "page by page", paged, all)
	for i := 1; i < len(all); i++ {
		if string(all[i-1].ID[:]) <= string(all[i].ID[:]) {
			t.Fatal("not the newest first")
		}
	}
	for _, c := range []struct {
		filter AppEventFilter
		want   []AppEvent
	}{
		{AppEventFilter{App: "other"}, []AppEvent{all[0], all[2], all[4]}},
		{AppEventFilter{App: "nobody"}, nil},
		{AppEventFilter{App: "shop", State: EventGivenUp}, []AppEvent{all[1]}},
		{AppEventFilter{State: EventDelivered}, []AppEvent{all[3], all[5]}},
		{AppEventFilter{State: EventPending, Before: all[2].ID}, []AppEvent{all[4]}},
		{AppEventFilter{App: "no\x00thing"}, nil},
	} {
		equal(t, show(c.filter), f.events(t, c.filter), c.want)
	}
}

func badEvents(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	for _, tell := range []Tell{{Type: "send.sent"}, {ID: uuid.UUID{1}}, {ID: uuid.UUID{1}, Type: "a\x00b"}} {
		_, err := f.Finish(t.Context(), Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent, Tell: tell})
		is(t, err, ErrBadRequest)
		_, err = f.Approve(t.Context(), begun.Verification.ID, tell)
		is(t, err, ErrBadRequest)
	}
	_, _, err := f.AppEventsDue(t.Context(), 0, nil)
	is(t, err, ErrBadRequest)
	_, _, err = f.AppEventsDue(t.Context(), time.Second, []Share{{"shop", 0}})
	is(t, err, ErrBadRequest)
	_, err = f.AppEvents(t.Context(), AppEventFilter{})
	is(t, err, ErrBadRequest)
	for _, end := range []AppEventEnd{{}, {State: "gone"}, {State: EventPending, After: -1}} {
		_, err = f.AppEventEnded(t.Context(), end)
		is(t, err, ErrBadRequest)
	}
	equal(t, "events", len(f.events(t, AppEventFilter{})), 0)
}
