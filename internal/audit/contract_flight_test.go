package audit

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

func (f *fixture) finish(t *testing.T, o Outcome, want bool) {
	t.Helper()
	got, err := f.Finish(t.Context(), o)
	ok(t, err)
	equal(t, "finished", got, want)
}

func (f *fixture) takeOver(t *testing.T, limit int) []Work {
	t.Helper()
	work, err := f.TakeOver(t.Context(), recipient.Email, 8*time.Second, limit)
	ok(t, err)
	return work
}

func finish(t *testing.T, f *fixture) {
	for n, status := range []Status{Sent, Failed, Unknown} {
		begun := f.admit(t, f.intent(n))
		f.pass(3 * time.Second)
		o := Outcome{
			Held: Held{begun.Send.ID, 1}, Status: status, Reason: "why\x00\xff", Provider: "mx.example.com", ProviderCode: "250 2.0.0",
			Took: 1500*time.Microsecond + 999,
		}
		f.finish(t, o, true)
		want := begun.Send
		want.Status, want.Reason, want.Provider, want.ProviderCode = status, "why\uFFFD\uFFFD", "mx.example.com", "250 2.0.0"
		want.Took, want.DueAt, want.FinishedAt = 1500*time.Microsecond, time.Time{}, f.now
		equal(t, "row", f.row(t, begun.Send.ID), want)
		f.finish(t, o, false) // it ended before
		equal(t, "row", f.row(t, begun.Send.ID), want)
	}
	f.finish(t, Outcome{Held: Held{uuid.UUID{1}, 1}, Status: Sent}, false)
	f.pass(time.Hour)
	equal(t, "work", len(f.takeOver(t, 10)), 0)
}

func postponeAndTakeOver(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	held := Held{begun.Send.ID, 1}
	p := Postponement{Held: held, After: 5*time.Second + 7, Reason: "greylisted", Provider: "mx", ProviderCode: "451"}
	done, err := f.Postpone(t.Context(), p)
	ok(t, err)
	equal(t, "postponed", done, true)
	want := begun.Send
	want.Status, want.Reason, want.Provider, want.ProviderCode, want.DueAt = Queued, "greylisted", "mx", "451", f.now.Add(5*time.Second)
	equal(t, "row", f.row(t, held.ID), want)

	ok(t, f.Renew(t.Context(), time.Hour, []Held{held})) // it waits: there is no lease to renew
	f.pass(5*time.Second - time.Microsecond)
	equal(t, "work too early", len(f.takeOver(t, 10)), 0)
	f.pass(time.Microsecond)
	work := f.takeOver(t, 10)
	want.Status, want.Attempt, want.DueAt = Sending, 2, f.now.Add(8*time.Second)
	equal(t, "work", work, []Work{{Send: want, Verification: begun.Verification}})
	f.finish(t, Outcome{Held: held, Status: Failed, Refund: true}, false)
	f.finish(t, Outcome{Held: Held{held.ID, 2}, Status: Sent}, true)

	done, err = f.Postpone(t.Context(), Postponement{Held: Held{held.ID, 2}})
	ok(t, err)
	equal(t, "postponed after its end", done, false)
	_, err = f.Postpone(t.Context(), Postponement{Held: held, After: -1})
	is(t, err, ErrBadRequest)
}

func lease(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	held := Held{begun.Send.ID, 1}
	f.pass(4 * time.Second)
	ok(t, f.Renew(t.Context(), 8*time.Second, []Held{held, {uuid.UUID{1}, 1}}))
	ok(t, f.Renew(t.Context(), 8*time.Second, nil))
	f.pass(8*time.Second - time.Microsecond)
	equal(t, "work before the lease ends", len(f.takeOver(t, 10)), 0)
	f.pass(time.Microsecond)
	work := f.takeOver(t, 10)
	equal(t, "work", len(work), 1)
	s := work[0].Send
	equal(t, "row", f.row(t, held.ID), s)
	if !s.InDoubt || s.Attempt != 2 || s.Status != Sending || !s.Counts || !s.DueAt.Equal(f.now.Add(8*time.Second)) {
		t.Errorf("taken over as %s", show(s))
	}
	equal(t, "work again", len(f.takeOver(t, 10)), 0)

	// Once in doubt, always: the next attempt was asked for, not lost.
	_, err := f.Postpone(t.Context(), Postponement{Held: Held{held.ID, 2}})
	ok(t, err)
	again := f.takeOver(t, 10)
	equal(t, "in doubt", again[0].Send.InDoubt, true)
	is(t, f.Renew(t.Context(), 0, []Held{held}), ErrBadRequest)
	_, err = f.TakeOver(t.Context(), recipient.Email, time.Second, 0)
	is(t, err, ErrBadRequest)
}

func overdueFirst(t *testing.T, f *fixture) {
	var want []uuid.UUID
	for n := range 6 {
		// Later rows with shorter leases, so that the order of the rows is not the order of their turns.
		begun := f.admit(t, f.intent(n, func(in *Intent) { in.Lease = time.Duration(10-n) * time.Second }))
		want = append([]uuid.UUID{begun.Send.ID}, want...)
		f.pass(time.Millisecond)
	}
	f.pass(time.Minute)
	var got []uuid.UUID
	for _, w := range append(f.takeOver(t, 4), f.takeOver(t, 4)...) {
		got = append(got, w.Send.ID)
	}
	equal(t, "order", got, want)
}

// However long a channel's rows are overdue, they stand in nobody's way on the other.
func eachChannelApart(t *testing.T, f *fixture) {
	text := f.admit(t, f.intent(1, func(in *Intent) { in.Send.Channel = recipient.SMS }))
	f.pass(time.Second)
	mail := f.admit(t, f.intent(2))
	f.pass(time.Minute)
	for _, want := range []Send{mail.Send, text.Send} {
		work, err := f.TakeOver(t.Context(), want.Channel, 8*time.Second, 1)
		ok(t, err)
		if len(work) != 1 || work[0].Send.ID != want.ID || work[0].Verification.ID != want.VerificationID {
			t.Errorf("%s: %s", want.Channel, show(work))
		}
		work, err = f.TakeOver(t.Context(), want.Channel, 8*time.Second, 1)
		ok(t, err)
		equal(t, "again", len(work), 0)
	}
}

func takenOnce(t *testing.T, f *fixture) {
	for n := range 100 {
		f.admit(t, f.intent(n))
	}
	f.pass(8 * time.Second)
	var mu sync.Mutex
	taken := map[uuid.UUID]int{}
	together(8, func(i int) {
		for range 10 {
			work, err := f.both(i).TakeOver(t.Context(), recipient.Email, 8*time.Second, 7)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, w := range work {
				taken[w.Send.ID]++
				if w.Send.Attempt != 2 || w.Verification.ID != w.Send.VerificationID {
					t.Errorf("taken over as %s", show(w))
				}
			}
			mu.Unlock()
		}
	})
	equal(t, "rows", len(taken), 100)
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%v was taken %d times", id, n)
		}
	}
}

func staleAttempt(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	stale, fresh := Held{begun.Send.ID, 1}, Held{begun.Send.ID, 2}
	f.pass(8 * time.Second)
	f.takeOver(t, 1)
	before := f.row(t, stale.ID)
	unchanged := func(what string) {
		t.Helper()
		equal(t, "row after a stale "+what, f.row(t, stale.ID), before)
	}
	f.pass(time.Second)
	f.finish(t, Outcome{Held: stale, Status: Failed, Reason: "late", Refund: true}, false)
	unchanged("Finish")
	done, err := f.Postpone(t.Context(), Postponement{Held: stale, After: time.Hour, Reason: "late"})
	ok(t, err)
	equal(t, "postponed", done, false)
	unchanged("Postpone")
	ok(t, f.Renew(t.Context(), time.Hour, []Held{stale}))
	unchanged("Renew")
	ok(t, f.Refunded(t.Context(), stale))
	unchanged("Refunded")

	// A row that is not in doubt gets its refund; one confirmation of an older attempt is not this attempt's.
	_, err = f.Postpone(t.Context(), Postponement{Held: fresh})
	ok(t, err)
	f.takeOver(t, 1)
	other := f.admit(t, f.intent(2))
	_, err = f.Postpone(t.Context(), Postponement{Held: Held{other.Send.ID, 1}})
	ok(t, err)
	equal(t, "attempt", f.takeOver(t, 1)[0].Send.Attempt, 2)
	f.finish(t, Outcome{Held: Held{other.Send.ID, 2}, Status: Failed, Refund: true}, true)
	ok(t, f.Refunded(t.Context(), Held{other.Send.ID, 1}))
	equal(t, "refund due", f.row(t, other.Send.ID).RefundDue, true)
}

func refund(t *testing.T, f *fixture) {
	one := withRules(rule(1, time.Hour))
	begun := f.admit(t, f.intent(1, one))
	held := Held{begun.Send.ID, 1}
	f.refuse(t, f.intent(1, one))
	f.finish(t, Outcome{Held: held, Status: Failed, Reason: "rejected", Refund: true}, true)
	row := f.row(t, held.ID)
	equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{false, true})
	f.admit(t, f.intent(1, one)) // at once

	due := func(want int) []Refund {
		t.Helper()
		got, err := f.RefundsDue(t.Context(), 5*time.Second, 10)
		ok(t, err)
		equal(t, "refunds due", len(got), want)
		return got
	}
	due(0) // whoever finished it has a lease's time to confirm it
	f.pass(5*time.Second - time.Microsecond)
	due(0)
	f.pass(time.Microsecond)
	s := begun.Send
	equal(t, "refund", due(1)[0], Refund{Held: held, App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient})
	due(0) // leased
	f.pass(5 * time.Second)
	due(1)
	ok(t, f.Refunded(t.Context(), held))
	equal(t, "refund due", f.row(t, held.ID).RefundDue, false)
	equal(t, "counts", f.row(t, held.ID).Counts, false)
	f.pass(time.Hour)
	due(0)
	ok(t, f.Refunded(t.Context(), held))
	_, err := f.RefundsDue(t.Context(), 0, 1)
	is(t, err, ErrBadRequest)

	plain := f.admit(t, f.intent(2, one))
	f.finish(t, Outcome{Held: Held{plain.Send.ID, 1}, Status: Failed}, true)
	f.refuse(t, f.intent(2, one)) // failed without a refund: the place stays spent
	f.pass(time.Hour)
	due(0)
}

func noRefundInDoubt(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1, withRules(rule(1, time.Hour))))
	f.pass(8 * time.Second)
	f.takeOver(t, 1)
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 2}, Status: Failed, Reason: "rejected", Refund: true}, true)
	row := f.row(t, begun.Send.ID)
	equal(t, "status", row.Status, Failed)
	equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{true, false})
	f.refuse(t, f.intent(1, withRules(rule(1, time.Hour))))
}

func badOutcomes(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	for _, o := range []Outcome{
		{Status: Queued}, {Status: Sending}, {Status: Refused}, {Status: ""}, {Status: "odd"},
		{Status: Sent, Refund: true}, {Status: Unknown, Refund: true},
	} {
		o.Held = Held{begun.Send.ID, 1}
		_, err := f.Finish(t.Context(), o)
		is(t, err, ErrBadRequest)
	}
	equal(t, "row", f.row(t, begun.Send.ID), begun.Send)
}

// Outcomes and postponements that come all at once share round trips where the log makes them: each is told its own
// answer, and changes its own row.
func endTogether(t *testing.T, f *fixture) {
	const n = 60
	var held [n]Held
	for i := range held {
		held[i] = Held{f.admit(t, f.intent(i)).Send.ID, 1}
	}
	f.pass(time.Second)
	var changed [n]bool
	together(n, func(i int) {
		var err error
		h := held[i]
		switch i % 4 {
		case 0:
			changed[i], err = f.Finish(t.Context(), Outcome{Held: h, Status: Sent, Provider: "mx", ProviderCode: "250 2.0.0", Took: time.Duration(i) * time.Millisecond})
		case 1:
			changed[i], err = f.Finish(t.Context(), Outcome{Held: h, Status: Failed, Reason: "rejected", Refund: true})
		case 2:
			changed[i], err = f.Postpone(t.Context(), Postponement{Held: h, After: time.Duration(i) * time.Second, Reason: "temporary_rcpt"})
		default:
			h.Attempt = 2 // somebody who does not hold it
			changed[i], err = f.Finish(t.Context(), Outcome{Held: h, Status: Unknown})
		}
		ok(t, err)
	})
	for i, h := range held {
		row := f.row(t, h.ID)
		equal(t, "changed", changed[i], i%4 != 3)
		equal(t, "status", row.Status, []Status{Sent, Failed, Queued, Sending}[i%4])
		equal(t, "counts", row.Counts, i%4 != 1)
		equal(t, "reason", row.Reason, []string{"", "rejected", "temporary_rcpt", ""}[i%4])
		if i%4 == 0 {
			equal(t, "took", row.Took, time.Duration(i)*time.Millisecond)
		}
		if i%4 == 2 {
			equal(t, "due", row.DueAt, f.now.Add(time.Duration(i)*time.Second))
		}
	}
}
