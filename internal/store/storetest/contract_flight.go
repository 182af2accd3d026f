package storetest

import (
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
	o.Held = Held(id, 1)
	f.MustFinish(t, o, true)
}

// Ended begins a send, which must be let in, and ends it.
func (f *Fixture) Ended(t *testing.T, in store.Intent, o store.Outcome) store.Begun {
	t.Helper()
	begun := f.Admit(t, in)
	f.End(t, begun.Send.ID, o)
	return begun
}

// Sent is the outcome of a send that was sent.
var Sent = store.Outcome{Status: store.Sent}

// Postponed postpones what an attempt holds.
func (f *Fixture) Postponed(t *testing.T, id uuid.UUID, attempt int) {
	t.Helper()
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{Held: Held(id, attempt), Reason: "later"}))(t), true)
}

// Held names an attempt.
func Held(id uuid.UUID, attempt int) store.Held { return store.Held{ID: id, Attempt: attempt} }

// MustTakeOver takes over what is due.
func (f *Fixture) MustTakeOver(t *testing.T, limit int) []store.Work {
	t.Helper()
	return Must(f.TakeOver(t.Context(), recipient.Email, 8*time.Second, limit))(t)
}

func finish(t *testing.T, f *Fixture) {
	for n, status := range []store.Status{store.Sent, store.Failed, store.Unknown} {
		begun := f.Admit(t, f.Intent(n))
		f.Pass(3 * time.Second)
		o := store.Outcome{Held: Held(begun.Send.ID, 1), Status: status, Reason: "why\x00\xff", Provider: "mx.example.com",
			ProviderCode: "250 2.0.0", Took: 1500*time.Microsecond + 999}
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
	held := Held(begun.Send.ID, 1)
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
	f.MustFinish(t, store.Outcome{Held: Held(held.ID, 2), Status: store.Sent}, true)
	Equal(t, "postponed after its end", Must(f.Postpone(t.Context(), store.Postponement{Held: Held(held.ID, 2)}))(t), false)
}

func leaseRenewedThenTakenOver(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	held := Held(begun.Send.ID, 1)
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
	f.Postponed(t, held.ID, 2)
	Equal(t, "in doubt", f.MustTakeOver(t, 10)[0].Send.InDoubt, true)
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
	f.AdmitAll(t, 100, func(i int) store.Intent { return f.Intent(i) })
	f.Pass(8 * time.Second)
	eachOnce(t, f, 100, func(log store.Store) (ids []uuid.UUID, err error) {
		work, err := log.TakeOver(t.Context(), recipient.Email, 8*time.Second, 7)
		for _, w := range work {
			ids = append(ids, w.Send.ID)
			if w.Send.Attempt != 2 || w.Verification.ID != w.Send.VerificationID {
				t.Errorf("taken over as %s", Show(w))
			}
		}
		return ids, err
	})
}

func staleAttempt(t *testing.T, f *Fixture) {
	stale := Held(f.Admit(t, f.Intent(1)).Send.ID, 1)
	f.Pass(8 * time.Second)
	f.MustTakeOver(t, 1)
	before := f.Row(t, stale.ID)
	f.Pass(time.Second)
	f.MustFinish(t, store.Outcome{Held: stale, Status: store.Failed, Reason: "late", Refund: true}, false)
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{Held: stale, After: time.Hour, Reason: "late"}))(t), false)
	OK(t, f.Renew(t.Context(), time.Hour, []store.Held{stale}))
	OK(t, f.Refunded(t.Context(), stale))
	Equal(t, "row after stale calls", f.Row(t, stale.ID), before)

	// A row that is not in doubt gets its refund; one confirmation of an older attempt is not this attempt's.
	f.Postponed(t, stale.ID, 2)
	f.MustTakeOver(t, 1)
	other := f.Admit(t, f.Intent(2)).Send.ID
	f.Postponed(t, other, 1)
	Equal(t, "attempt", f.MustTakeOver(t, 1)[0].Send.Attempt, 2)
	f.MustFinish(t, store.Outcome{Held: Held(other, 2), Status: store.Failed, Refund: true}, true)
	OK(t, f.Refunded(t.Context(), Held(other, 1)))
	Equal(t, "refund due", f.Row(t, other).RefundDue, true)
}

func refundsLeasedAndConfirmed(t *testing.T, f *Fixture) {
	one := WithRules(Rule(1, time.Hour))
	begun := f.Admit(t, f.Intent(1, one))
	held := Held(begun.Send.ID, 1)
	f.Refuse(t, f.Intent(1, one))
	f.MustFinish(t, store.Outcome{Held: held, Status: store.Failed, Reason: "rejected", Refund: true}, true)
	is := func(counts, due bool) {
		t.Helper()
		row := f.Row(t, held.ID)
		Equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{counts, due})
	}
	is(false, true)
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
	is(false, false)
	f.Pass(time.Hour)
	due(0)
	OK(t, f.Refunded(t.Context(), held))

	f.Ended(t, f.Intent(2, one), store.Outcome{Status: store.Failed})
	f.Refuse(t, f.Intent(2, one)) // failed without a refund: the place stays spent
	f.Pass(time.Hour)
	due(0)
}

func noRefundInDoubt(t *testing.T, f *Fixture) {
	id := f.Admit(t, f.Intent(1, WithRules(Rule(1, time.Hour)))).Send.ID
	f.Pass(8 * time.Second)
	f.MustTakeOver(t, 1)
	f.MustFinish(t, store.Outcome{Held: Held(id, 2), Status: store.Failed, Reason: "rejected", Refund: true}, true)
	row := f.Row(t, id)
	Equal(t, "row", []any{row.Status, row.Counts, row.RefundDue}, []any{store.Failed, true, false})
	f.Refuse(t, f.Intent(1, WithRules(Rule(1, time.Hour))))
}

// Outcomes and postponements that come all at once share round trips where the log makes them: each is told its own
// answer, and changes its own row.
func endTogether(t *testing.T, f *Fixture) {
	const n = 60
	var ids [n]uuid.UUID
	for i, begun := range f.AdmitAll(t, n, func(i int) store.Intent { return f.Intent(i) }) {
		ids[i] = begun.Send.ID
	}
	f.Pass(time.Second)
	took := func(i int) time.Duration { return time.Duration(i) * time.Second }
	changed := f.atOnce(t, n, func(_ store.Store, i int) (bool, error) {
		switch h := Held(ids[i], 1); i % 4 {
		case 0:
			return f.Finish(t.Context(), store.Outcome{Held: h, Status: store.Sent, Provider: "mx", Took: took(i)})
		case 1:
			return f.Finish(t.Context(), store.Outcome{Held: h, Status: store.Failed, Reason: "rejected", Refund: true})
		case 2:
			return f.Postpone(t.Context(), store.Postponement{Held: h, After: took(i), Reason: "temporary_rcpt"})
		default: // an attempt that does not hold it
			changed, err := f.Finish(t.Context(), store.Outcome{Held: Held(ids[i], 2), Status: store.Unknown})
			if changed {
				t.Error("changed by another attempt")
			}
			return changed, err
		}
	})
	Equal(t, "changed", changed, n*3/4)
	for i, id := range ids {
		row := f.Row(t, id)
		Equal(t, "row", []any{row.Status, row.Counts, row.Reason, row.Took, row.DueAt}, [][]any{
			{store.Sent, true, "", took(i), time.Time{}}, {store.Failed, false, "rejected", time.Duration(0), time.Time{}},
			{store.Queued, true, "temporary_rcpt", time.Duration(0), f.Now.Add(took(i))},
			{store.Sending, true, "", time.Duration(0), f.Now.Add(7 * time.Second)},
		}[i%4])
	}
}

// claim is one with key n for the send of an intent.
func claim(n byte, in store.Intent) store.Claim {
	return store.Claim{Key: [32]byte{31: n}, Fingerprint: [32]byte{0: 1}, SendID: in.Send.ID, Lease: 15 * time.Second, Life: 24 * time.Hour}
}

func (f *Fixture) claim(t *testing.T, c store.Claim, want store.ClaimState) store.Claimed {
	t.Helper()
	got := Must(f.Claim(t.Context(), c))(t)
	Equal(t, "state", got.State, want)
	return got
}

func claims(t *testing.T, f *Fixture) {
	in, later := f.Intent(1), f.Intent(1)
	Equal(t, "send", f.claim(t, claim(1, in), store.ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), store.ClaimBusy)
	f.claim(t, claim(2, later), store.ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[31] = 9
	f.claim(t, other, store.ClaimOther)

	begun := f.Admit(t, in)
	done := f.claim(t, claim(1, later), store.ClaimDone)
	Equal(t, "send", done.Send, begun.Send)
	Equal(t, "verification", done.Verification, begun.Verification)
	Equal(t, "now", done.Now, f.Now)
	f.claim(t, other, store.ClaimOther)
	f.approve(t, begun.Verification.ID)
	Equal(t, "as it is now", f.claim(t, claim(1, later), store.ClaimDone).Verification.ApprovedAt, f.Now)

	// The ID of a refusal's row never is a send's; were it so, nothing was sent all the same.
	in = f.Intent(1)
	f.claim(t, claim(3, in), store.ClaimHeld)
	OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(1, func(s *store.Send) { s.ID = in.Send.ID })}))
	f.claim(t, claim(3, in), store.ClaimBusy)
}

func claimsGivenUp(t *testing.T, f *Fixture) {
	in, later := f.Intent(1), f.Intent(1)
	f.claim(t, claim(1, in), store.ClaimHeld)
	other := claim(1, later)
	other.Fingerprint[0]++

	f.Pass(15*time.Second - time.Microsecond)
	f.claim(t, claim(1, later), store.ClaimBusy)
	f.Pass(time.Microsecond)
	f.claim(t, other, store.ClaimOther)
	Equal(t, "after the lease, the same send", f.claim(t, claim(1, later), store.ClaimHeld).SendID, in.Send.ID)
	f.claim(t, claim(1, later), store.ClaimBusy)

	release := func(send uuid.UUID, forget bool) {
		t.Helper()
		OK(t, f.Release(t.Context(), claim(1, in).Key, send, forget))
	}
	release(later.Send.ID, true) // not its send
	f.claim(t, claim(1, later), store.ClaimBusy)
	release(in.Send.ID, false)
	f.claim(t, other, store.ClaimOther)
	Equal(t, "given up", f.claim(t, claim(1, later), store.ClaimHeld).SendID, in.Send.ID)
	release(in.Send.ID, true)
	Equal(t, "as if it never was", f.claim(t, other, store.ClaimHeld).SendID, later.Send.ID)
	OK(t, f.Release(t.Context(), [32]byte{7}, in.Send.ID, true)) // never was
}

func claimsEndAfterADay(t *testing.T, f *Fixture) {
	in := f.Intent(1)
	f.claim(t, claim(1, in), store.ClaimHeld)
	f.Admit(t, in)
	for n := range byte(5) {
		f.claim(t, claim(10+n, f.Intent(2)), store.ClaimHeld)
	}
	f.Pass(24*time.Hour - time.Microsecond)
	f.claim(t, claim(1, f.Intent(1)), store.ClaimDone)
	f.Pass(time.Microsecond)
	fresh := f.Intent(1)
	c := claim(1, fresh)
	c.Fingerprint[0]++
	Equal(t, "a day later it is a new request", f.claim(t, c, store.ClaimHeld).SendID, fresh.Send.ID)
	c.SendID = f.Intent(1).Send.ID
	f.claim(t, c, store.ClaimBusy)
	again := f.Intent(2)
	Equal(t, "an old claim without a send", f.claim(t, claim(12, again), store.ClaimHeld).SendID, again.Send.ID)
}

// Of 50 requests with one key one holds it, for its own send; after its lease one takes over.
func claimsAtOnce(t *testing.T, f *Fixture) {
	for range 2 {
		var claims [50]store.Claim
		for i := range claims {
			claims[i] = claim(1, f.Intent(1))
		}
		first := f.Serial == 50
		Equal(t, "held", f.atOnce(t, 50, func(log store.Store, i int) (bool, error) {
			got, err := log.Claim(t.Context(), claims[i])
			if first && got.State == store.ClaimHeld && got.SendID != claims[i].SendID {
				t.Error("held with another's send")
			}
			return got.State == store.ClaimHeld, err
		}), 1)
		f.Pass(15 * time.Second)
	}
}
