package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// MustFinish finishes a send; want says whether it must change something.
func (f *Fixture) MustFinish(t *testing.T, o store.Outcome, want bool) {
	t.Helper()
	Equal(t, "finished", Must(f.Finish(t.Context(), o))(t), want)
}

// End finishes the first attempt of a send, which must change something.
func (f *Fixture) End(t *testing.T, id uuid.UUID, o store.Outcome) {
	t.Helper()
	o.Held = store.Held{ID: id, Attempt: 1}
	f.MustFinish(t, o, true)
}

// Ended begins a send, which must be let in, and ends it.
func (f *Fixture) Ended(t *testing.T, in store.Intent, o store.Outcome) store.Begun {
	t.Helper()
	begun := f.Admit(t, in)
	f.End(t, begun.Send.ID, o)
	return begun
}

// MustTakeOver takes over what is due.
func (f *Fixture) MustTakeOver(t *testing.T, limit int) []store.Work {
	t.Helper()
	work := Must(f.TakeOver(t.Context(), recipient.Email, 8*time.Second, limit))(t)
	return work
}

func finish(t *testing.T, f *Fixture) {
	for n, status := range []store.Status{store.Sent, store.Failed, store.Unknown} {
		begun := f.Admit(t, f.Intent(n))
		f.Pass(3 * time.Second)
		o := store.Outcome{
			Held: store.Held{ID: begun.Send.ID, Attempt: 1}, Status: status, Reason: "why\x00\xff", Provider: "mx.example.com",
			ProviderCode: "250 2.0.0",
			Took:         1500*time.Microsecond + 999,
		}
		f.MustFinish(t, o, true)
		want := begun.Send
		want.Status, want.Reason, want.Provider, want.ProviderCode = status, "why\uFFFD\uFFFD", "mx.example.com", "250 2.0.0"
		want.Took, want.DueAt, want.FinishedAt = 1500*time.Microsecond, time.Time{}, f.Now
		Equal(t, "row", f.Row(t, begun.Send.ID), want)
		found := Must(f.Sends(t.Context(), store.Filter{Status: status, Limit: 10}))(t)
		Equal(t, "found by its status", IDs(found), []uuid.UUID{begun.Send.ID})
		f.MustFinish(t, o, false) // it ended before
		Equal(t, "row", f.Row(t, begun.Send.ID), want)
	}
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: uuid.UUID{1}, Attempt: 1}, Status: store.Sent}, false)
	f.Pass(time.Hour)
	Equal(t, "work", len(f.MustTakeOver(t, 10)), 0)
}

func postponeAndTakeOver(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	held := store.Held{ID: begun.Send.ID, Attempt: 1}
	p := store.Postponement{Held: held, After: 5*time.Second + 7, Reason: "greylisted", Provider: "mx", ProviderCode: "451"}
	Equal(t, "postponed", Must(f.Postpone(t.Context(), p))(t), true)
	want := begun.Send
	want.Status, want.Reason, want.Provider, want.ProviderCode, want.DueAt = store.Queued, "greylisted", "mx", "451", f.Now.Add(5*time.Second)
	Equal(t, "row", f.Row(t, held.ID), want)

	OK(t, f.Renew(t.Context(), time.Hour, []store.Held{held})) // it waits: there is no lease to renew
	f.Pass(5*time.Second - time.Microsecond)
	Equal(t, "work too early", len(f.MustTakeOver(t, 10)), 0)
	f.Pass(time.Microsecond)
	work := f.MustTakeOver(t, 10)
	want.Status, want.Attempt, want.DueAt = store.Sending, 2, f.Now.Add(8*time.Second)
	Equal(t, "work", work, []store.Work{{Send: want, Verification: begun.Verification}})
	OK(t, f.Renew(t.Context(), time.Minute, []store.Held{{ID: held.ID, Attempt: 2}})) // it waits no longer
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "work while the lease is renewed", len(f.MustTakeOver(t, 10)), 0)
	f.MustFinish(t, store.Outcome{Held: held, Status: store.Failed, Refund: true}, false)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: held.ID, Attempt: 2}, Status: store.Sent}, true)

	done := Must(f.Postpone(t.Context(), store.Postponement{Held: store.Held{ID: held.ID, Attempt: 2}}))(t)
	Equal(t, "postponed after its end", done, false)
	_, err := f.Postpone(t.Context(), store.Postponement{Held: held, After: -1})
	Is(t, err, store.ErrBadRequest)
}

func leaseRenewedThenTakenOver(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	held := store.Held{ID: begun.Send.ID, Attempt: 1}
	f.Pass(4 * time.Second)
	OK(t, f.Renew(t.Context(), 8*time.Second, []store.Held{held, {ID: uuid.UUID{1}, Attempt: 1}}))
	OK(t, f.Renew(t.Context(), 8*time.Second, nil))
	f.Pass(8*time.Second - time.Microsecond)
	Equal(t, "work before the lease ends", len(f.MustTakeOver(t, 10)), 0)
	f.Pass(time.Microsecond)
	work := f.MustTakeOver(t, 10)
	Equal(t, "work", len(work), 1)
	s := work[0].Send
	Equal(t, "row", f.Row(t, held.ID), s)
	if !s.InDoubt || s.Attempt != 2 || s.Status != store.Sending || !s.Counts || !s.DueAt.Equal(f.Now.Add(8*time.Second)) {
		t.Errorf("taken over as %s", Show(s))
	}
	Equal(t, "work again", len(f.MustTakeOver(t, 10)), 0)

	// Once in doubt, always: the next attempt was asked for, not lost.
	Must(f.Postpone(t.Context(), store.Postponement{Held: store.Held{ID: held.ID, Attempt: 2}}))(t)
	again := f.MustTakeOver(t, 10)
	Equal(t, "in doubt", again[0].Send.InDoubt, true)
	Is(t, f.Renew(t.Context(), 0, []store.Held{held}), store.ErrBadRequest)
	_, err := f.TakeOver(t.Context(), recipient.Email, time.Second, 0)
	Is(t, err, store.ErrBadRequest)
}

func firstToExpire(t *testing.T, f *Fixture) {
	var want []uuid.UUID
	for n := range 6 {
		// Later rows with shorter lives, and leases that end in yet another order.
		begun := f.Admit(t, f.Intent(n, func(in *store.Intent) {
			in.TTL, in.Lease = time.Duration(10-n)*time.Minute, time.Duration(n%3+1)*time.Second
		}))
		want = append([]uuid.UUID{begun.Send.ID}, want...)
		f.Pass(time.Millisecond)
	}
	f.Pass(time.Minute)
	var got []uuid.UUID
	for _, w := range append(f.MustTakeOver(t, 4), f.MustTakeOver(t, 4)...) {
		got = append(got, w.Send.ID)
	}
	Equal(t, "order", got, want)
}

// However long a channel's rows are overdue, they do not delay the other.
func channelsTakenOverApart(t *testing.T, f *Fixture) {
	text := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Channel = recipient.SMS }))
	f.Pass(time.Second)
	mail := f.Admit(t, f.Intent(2))
	f.Pass(time.Minute)
	for _, want := range []store.Send{mail.Send, text.Send} {
		work := Must(f.TakeOver(t.Context(), want.Channel, 8*time.Second, 1))(t)
		if len(work) != 1 || work[0].Send.ID != want.ID || work[0].Verification.ID != want.VerificationID {
			t.Errorf("%s: %s", want.Channel, Show(work))
		}
		work = Must(f.TakeOver(t.Context(), want.Channel, 8*time.Second, 1))(t)
		Equal(t, "again", len(work), 0)
	}
}

func takenOnce(t *testing.T, f *Fixture) {
	for n := range 100 {
		f.Admit(t, f.Intent(n))
	}
	f.Pass(8 * time.Second)
	var mu sync.Mutex
	taken := map[uuid.UUID]int{}
	Together(8, func(i int) {
		for range 10 {
			work, err := f.Both(i).TakeOver(t.Context(), recipient.Email, 8*time.Second, 7)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, w := range work {
				taken[w.Send.ID]++
				if w.Send.Attempt != 2 || w.Verification.ID != w.Send.VerificationID {
					t.Errorf("taken over as %s", Show(w))
				}
			}
			mu.Unlock()
		}
	})
	Equal(t, "rows", len(taken), 100)
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%v was taken %d times", id, n)
		}
	}
}

func staleAttempt(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	stale, fresh := store.Held{ID: begun.Send.ID, Attempt: 1}, store.Held{ID: begun.Send.ID, Attempt: 2}
	f.Pass(8 * time.Second)
	f.MustTakeOver(t, 1)
	before := f.Row(t, stale.ID)
	unchanged := func(what string) {
		t.Helper()
		Equal(t, "row after a stale "+what, f.Row(t, stale.ID), before)
	}
	f.Pass(time.Second)
	f.MustFinish(t, store.Outcome{Held: stale, Status: store.Failed, Reason: "late", Refund: true}, false)
	unchanged("Finish")
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{Held: stale, After: time.Hour, Reason: "late"}))(t), false)
	unchanged("Postpone")
	OK(t, f.Renew(t.Context(), time.Hour, []store.Held{stale}))
	unchanged("Renew")
	OK(t, f.Refunded(t.Context(), stale))
	unchanged("Refunded")

	// A row that is not in doubt gets its refund; one confirmation of an older attempt is not this attempt's.
	Must(f.Postpone(t.Context(), store.Postponement{Held: fresh}))(t)
	f.MustTakeOver(t, 1)
	other := f.Admit(t, f.Intent(2))
	Must(f.Postpone(t.Context(), store.Postponement{Held: store.Held{ID: other.Send.ID, Attempt: 1}}))(t)
	Equal(t, "attempt", f.MustTakeOver(t, 1)[0].Send.Attempt, 2)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: other.Send.ID, Attempt: 2}, Status: store.Failed, Refund: true}, true)
	OK(t, f.Refunded(t.Context(), store.Held{ID: other.Send.ID, Attempt: 1}))
	Equal(t, "refund due", f.Row(t, other.Send.ID).RefundDue, true)
}

func refundsLeasedAndConfirmed(t *testing.T, f *Fixture) {
	one := WithRules(Rule(1, time.Hour))
	begun := f.Admit(t, f.Intent(1, one))
	held := store.Held{ID: begun.Send.ID, Attempt: 1}
	f.Refuse(t, f.Intent(1, one))
	f.MustFinish(t, store.Outcome{Held: held, Status: store.Failed, Reason: "rejected", Refund: true}, true)
	row := f.Row(t, held.ID)
	Equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{false, true})
	f.Admit(t, f.Intent(1, one)) // at once

	due := func(want int) []store.Refund {
		t.Helper()
		got := Must(f.RefundsDue(t.Context(), 5*time.Second, 10))(t)
		Equal(t, "refunds due", len(got), want)
		return got
	}
	due(0) // the process that finished it has a lease's time to confirm it
	f.Pass(5*time.Second - time.Microsecond)
	due(0)
	f.Pass(time.Microsecond)
	s := begun.Send
	Equal(t, "refund", due(1)[0], store.Refund{Held: held, App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient})
	due(0) // leased
	f.Pass(5 * time.Second)
	due(1)
	OK(t, f.Refunded(t.Context(), held))
	Equal(t, "refund due", f.Row(t, held.ID).RefundDue, false)
	Equal(t, "counts", f.Row(t, held.ID).Counts, false)
	f.Pass(time.Hour)
	due(0)
	OK(t, f.Refunded(t.Context(), held))
	_, err := f.RefundsDue(t.Context(), 0, 1)
	Is(t, err, store.ErrBadRequest)

	f.Ended(t, f.Intent(2, one), store.Outcome{Status: store.Failed})
	f.Refuse(t, f.Intent(2, one)) // failed without a refund: the place stays spent
	f.Pass(time.Hour)
	due(0)
}

func noRefundInDoubt(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1, WithRules(Rule(1, time.Hour))))
	f.Pass(8 * time.Second)
	f.MustTakeOver(t, 1)
	f.MustFinish(t, store.Outcome{Held: store.Held{ID: begun.Send.ID, Attempt: 2}, Status: store.Failed, Reason: "rejected", Refund: true},
		true)
	row := f.Row(t, begun.Send.ID)
	Equal(t, "status", row.Status, store.Failed)
	Equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{true, false})
	f.Refuse(t, f.Intent(1, WithRules(Rule(1, time.Hour))))
}

func badOutcomes(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	for _, o := range []store.Outcome{
		{Status: store.Queued}, {Status: store.Sending}, {Status: store.Refused}, {Status: ""}, {Status: "odd"},
		{Status: store.Sent, Refund: true}, {Status: store.Unknown, Refund: true},
	} {
		o.Held = store.Held{ID: begun.Send.ID, Attempt: 1}
		_, err := f.Finish(t.Context(), o)
		Is(t, err, store.ErrBadRequest)
	}
	Equal(t, "row", f.Row(t, begun.Send.ID), begun.Send)
}

// Outcomes and postponements that come all at once share round trips where the log makes them: each is told its own
// answer, and changes its own row.
func endTogether(t *testing.T, f *Fixture) {
	const n = 60
	var held [n]store.Held
	for i := range held {
		held[i] = store.Held{ID: f.Admit(t, f.Intent(i)).Send.ID, Attempt: 1}
	}
	f.Pass(time.Second)
	var changed [n]bool
	Together(n, func(i int) {
		var err error
		h := held[i]
		switch i % 4 {
		case 0:
			changed[i], err = f.Finish(t.Context(), store.Outcome{Held: h, Status: store.Sent, Provider: "mx", ProviderCode: "250 2.0.0",
				Took: time.Duration(i) * time.Millisecond})
		case 1:
			changed[i], err = f.Finish(t.Context(), store.Outcome{Held: h, Status: store.Failed, Reason: "rejected", Refund: true})
		case 2:
			changed[i], err = f.Postpone(t.Context(), store.Postponement{Held: h, After: time.Duration(i) * time.Second, Reason: "temporary_rcpt"})
		default:
			h.Attempt = 2 // an attempt that does not hold it
			changed[i], err = f.Finish(t.Context(), store.Outcome{Held: h, Status: store.Unknown})
		}
		OK(t, err)
	})
	for i, h := range held {
		row := f.Row(t, h.ID)
		Equal(t, "changed", changed[i], i%4 != 3)
		Equal(t, "status", row.Status, []store.Status{store.Sent, store.Failed, store.Queued, store.Sending}[i%4])
		Equal(t, "counts", row.Counts, i%4 != 1)
		Equal(t, "reason", row.Reason, []string{"", "rejected", "temporary_rcpt", ""}[i%4])
		if i%4 == 0 {
			Equal(t, "took", row.Took, time.Duration(i)*time.Millisecond)
		}
		if i%4 == 2 {
			Equal(t, "due", row.DueAt, f.Now.Add(time.Duration(i)*time.Second))
		}
	}
}
