package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// MustFinish finishes a send; want is whether that must change the send.
func (f *Fixture) MustFinish(t *testing.T, o store.Outcome, want bool) {
	t.Helper()
	Equal(t, "finished", Must(f.Finish(t.Context(), o))(t), want)
}

// End finishes the first attempt of a send, which must be in flight.
func (f *Fixture) End(t *testing.T, id uuid.UUID, o store.Outcome) {
	t.Helper()
	o.AttemptID = Held(id, 1)
	f.MustFinish(t, o, true)
}

// Ended begins a send, which must be admitted, and finishes it with the outcome o.
func (f *Fixture) Ended(t *testing.T, in store.Intent, o store.Outcome) store.BeginAnswer {
	t.Helper()
	begun := f.Admit(t, in)
	f.End(t, begun.Send.ID, o)
	return begun
}

// Sent is an outcome for tests to which the provider doesn't matter.
var Sent = store.Outcome{Status: store.Sent}

// Held is short for a store.AttemptID.
func Held(id uuid.UUID, attempt int) store.AttemptID {
	return store.AttemptID{ID: id, Attempt: attempt}
}

// MustTakeOver takes over at most limit due mails.
func (f *Fixture) MustTakeOver(t *testing.T, limit int) []store.Work {
	t.Helper()
	return Must(f.TakeOver(t.Context(), store.Queue{Channel: recipient.Email}, 8*time.Second, limit))(t)
}

func finish(t *testing.T, f *Fixture) {
	for n, status := range []store.Status{store.Sent, store.Failed, store.Unknown} {
		begun := f.Admit(t, f.Intent(n))
		f.Pass(3 * time.Second)
		o := store.Outcome{
			AttemptID: Held(begun.Send.ID, 1), Status: status, Reason: "why\x00\xff", Provider: "mx.example.com",
			ProviderCode: "250 2.0.0", Took: 1500*time.Microsecond + 999,
		}
		f.MustFinish(t, o, true)
		want := begun.Send
		want.Status, want.Reason, want.Provider, want.ProviderCode = status, "why\uFFFD\uFFFD", "mx.example.com", "250 2.0.0"
		want.Took, want.DueAt, want.FinishedAt = 1500*time.Microsecond, time.Time{}, f.Now
		Equal(t, "row", f.Row(t, begun.Send.ID), RowOf(want))
		found := Must(f.Sends(t.Context(), store.Filter{Status: status, Limit: 10}))(t)
		Equal(t, "found by its status", IDs(found), []uuid.UUID{begun.Send.ID})
		f.MustFinish(t, o, false) // the send has already ended
		Equal(t, "row", f.Row(t, begun.Send.ID), RowOf(want))
	}
	f.MustFinish(t, store.Outcome{AttemptID: store.AttemptID{ID: uuid.UUID{1}, Attempt: 1}, Status: store.Sent}, false)
	f.Pass(time.Hour)
	Equal(t, "work", len(f.MustTakeOver(t, 10)), 0)
}

func postponeAndTakeOver(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(1))
	held := Held(begun.Send.ID, 1)
	p := store.Postponement{AttemptID: held, After: 5*time.Second + 7, Reason: "greylisted", Provider: "mx", ProviderCode: "451"}
	Equal(t, "postponed", Must(f.Postpone(t.Context(), p))(t), true)
	want := begun.Send
	want.Status, want.Reason, want.Provider, want.ProviderCode, want.DueAt = store.Queued, "greylisted", "mx", "451",
		f.Now.Add(5*time.Second)
	Equal(t, "row", f.Row(t, held.ID), RowOf(want))

	OK(t, f.RenewLeases(t.Context(), time.Hour, []store.AttemptID{held})) // a waiting send has no lease to renew
	f.Pass(5*time.Second - time.Microsecond)
	Equal(t, "work too early", len(f.MustTakeOver(t, 10)), 0)
	f.Pass(time.Microsecond)
	work := f.MustTakeOver(t, 10)
	want.Status, want.Attempt, want.DueAt = store.Sending, 2, f.Now.Add(8*time.Second)
	Equal(t, "work", work, []store.Work{{Send: want, Verification: begun.Verification, Now: f.Now}})
	OK(t, f.RenewLeases(t.Context(), time.Minute, []store.AttemptID{{ID: held.ID, Attempt: 2}})) // this send has a lease
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "work while the lease is renewed", len(f.MustTakeOver(t, 10)), 0)
	// the first attempt cannot finish the send either
	f.MustFinish(t, store.Outcome{AttemptID: held, Status: store.Failed, Refund: true}, false)
	Equal(t, "postponed by another", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: held}))(t), false)
	OK(t, f.RenewLeases(t.Context(), time.Hour, []store.AttemptID{held}))

	// The lease ends without an outcome. From then on the send is in doubt, even after a later
	// attempt was postponed, and it is not refunded.
	f.Pass(time.Microsecond)
	Equal(t, "in doubt", f.MustTakeOver(t, 10)[0].Send.InDoubt, true)
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(held.ID, 3)}))(t), true)
	Equal(t, "still in doubt", f.MustTakeOver(t, 10)[0].Send.InDoubt, true)
	f.MustFinish(t, store.Outcome{AttemptID: Held(held.ID, 4), Status: store.Failed, Refund: true}, true)
	row := f.Row(t, held.ID)
	Equal(t, "counts, refund due", []bool{row.Counts, row.RefundDue}, []bool{true, false})
	Equal(t, "postponed after its end", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(held.ID, 4)}))(t), false)
}

// historySaysWhatIsInFlight checks that a history says of each counted send whether it waits for
// its outcome.
func historySaysWhatIsInFlight(t *testing.T, f *Fixture) {
	begin := func() uuid.UUID { return f.Admit(t, f.Intent(1)).Send.ID }
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Refund: true})
	f.reject(t, f.Intent(1))
	sent, unknown, failed, waits, sending := begin(), begin(), begin(), begin(), begin()
	want := func(when string, inFlight ...uuid.UUID) {
		t.Helper()
		h := Must(f.History(t.Context(), ana, time.Hour))(t)
		var got []uuid.UUID
		for _, p := range slices.Concat(h.Past, h.Rejections) {
			if p.InFlight {
				got = append(got, p.ID)
			}
		}
		compare := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
		slices.SortFunc(got, compare)
		slices.SortFunc(inFlight, compare)
		Equal(t, when, got, inFlight)
		Equal(t, when+": counted, rejected", []int{len(h.Past), len(h.Rejections)}, []int{5, 1})
	}
	want("under way", sent, unknown, failed, waits, sending)
	f.End(t, sent, Sent)
	f.End(t, unknown, store.Outcome{Status: store.Unknown})
	f.End(t, failed, store.Outcome{Status: store.Failed})
	Equal(t, "postponed", Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(waits, 1)}))(t), true)
	want("ended, and postponed", waits, sending)
}

// withCode gives an intent a caller's code; sealed stands for the encrypted code.
func withCode(sealed string) func(*store.Intent) {
	return func(in *store.Intent) { in.Verification.CallerChecks, in.Code = true, []byte(sealed) }
}

// callersCode checks that each attempt of a send gets the caller's code, that no other send does,
// and that the code is deleted when the send ends. No send joins the verification of such a code.
func callersCode(t *testing.T, f *Fixture) {
	held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	codes := func(work []store.Work) (codes []string) {
		for _, w := range work {
			codes = append(codes, fmt.Sprintf("%q", w.Code))
		}
		return codes
	}
	sealed := func() (n int) {
		OK(t, f.EachSealedPage(t.Context(), 2, func(table store.SealedTable, rows []store.SealedRow) error {
			if table.Name == "outbox" {
				n += len(rows)
			}
			return nil
		}))
		return n
	}
	first := f.Admit(t, f.Intent(1, held))
	begun := f.Admit(t, f.Intent(1, held, withCode("sealed\x00\xff")))
	Equal(t, "opened a verification that the caller checks",
		[]bool{begun.Opened(), f.Code(t, begun.Verification.ID).CallerChecks}, []bool{true, true})
	Equal(t, "code", string(begun.Code), "sealed\x00\xff")
	Equal(t, "what the next send resends", f.Admit(t, f.Intent(1, held)).Verification.ID, first.Verification.ID)
	Equal(t, "resent by its ID", f.Admit(t, f.Intent(1, Joining(begun.Verification.ID))).Opened(), true)
	Equal(t, "sealed codes", sealed(), 1)
	f.Pass(8 * time.Second)
	Equal(t, "codes", codes(f.MustTakeOver(t, 10)), []string{`""`, `"sealed\x00\xff"`, `""`, `""`})
	Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(begun.Send.ID, 2), After: time.Second}))(t)
	f.Pass(time.Second)
	Equal(t, "code once more", codes(f.MustTakeOver(t, 10)), []string{`"sealed\x00\xff"`})
	Must(f.Cancel(t.Context(), begun.Verification.ID))(t)
	Equal(t, "sealed codes while the attempt runs", sealed(), 1)
	again := f.MustBegin(t, f.Intent(1, held, withCode("other"), func(in *store.Intent) { in.Send.ID = begun.Send.ID }))
	Equal(t, "repeated, code", []any{again.Repeated, len(again.Code)}, []any{true, 0})
	f.MustFinish(t, store.Outcome{AttemptID: Held(begun.Send.ID, 3), Status: store.Failed, Reason: "ended", Refund: true}, true)
	Equal(t, "sealed codes", sealed(), 0)

	// Too many wrong codes lock out codes that the service checks, but not callers' codes.
	f.spendAllTries(t, 2, 4)
	Equal(t, "admitted in a lockout",
		[]bool{f.MustBegin(t, f.Intent(2)).Admitted, f.MustBegin(t, f.Intent(2, withCode("sealed"))).Admitted},
		[]bool{false, true})
	Equal(t, "sealed codes", sealed(), 1)
}

// firstToExpire checks that the send whose code expires first is taken over first, whatever waits
// in the other channel. A later call takes the rest in the same order, however long a send has been
// due.
func firstToExpire(t *testing.T, f *Fixture) {
	later := f.Admit(t, f.Intent(1)).Send.ID
	f.Admit(t, f.Intent(2, bySMS))
	first := f.Admit(t, f.Intent(3, func(in *store.Intent) { in.TTL = time.Minute })).Send.ID
	f.Pass(30 * time.Second)
	for _, want := range []uuid.UUID{first, later} {
		Equal(t, "taken over", f.MustTakeOver(t, 1)[0].Send.ID, want)
	}
	Equal(t, "more", len(f.MustTakeOver(t, 1)), 0)
}

// queuesApart checks that a takeover takes only sends of its own queue. The sends of each channel
// are in two queues: those of strangers, and all others.
func queuesApart(t *testing.T, f *Fixture) {
	want, n := map[store.Queue][]uuid.UUID{}, 0
	for range 2 {
		for _, class := range []store.Class{store.StrangerClass, store.KnownBrowser, store.SecretKeyClass} {
			for _, ch := range recipient.Channels() {
				n++
				id := f.Admit(t, f.Intent(n, func(in *store.Intent) {
					in.Verification.Class, in.Send.Channel, in.Verification.Channel = class, ch, ch
				})).Send.ID
				q := store.Queue{Channel: ch, Strangers: class == store.StrangerClass}
				want[q] = append(want[q], id)
			}
		}
	}
	take := func(q store.Queue, from func(context.Context, store.Queue, time.Duration, int) ([]store.Work, error)) (ids []uuid.UUID) {
		for work := Must(from(t.Context(), q, 8*time.Second, 1))(t); len(work) > 0; work = Must(from(t.Context(), q, 8*time.Second, 1))(t) {
			ids = append(ids, work[0].Send.ID)
			Equal(t, "the queue", work[0].Queue(), q)
		}
		return ids
	}
	f.Pass(8 * time.Second)
	for _, q := range store.Queues() {
		Equal(t, "taken over", take(q, f.TakeOver), want[q])
	}
	f.Pass(time.Hour)
	for _, q := range store.Queues() {
		Equal(t, "expired", take(q, f.TakeOverWithExpiredCode), want[q])
	}
}

// takeOverWithExpiredCode checks that sends with expired codes can be taken over separately, after
// their leases have ended.
func takeOverWithExpiredCode(t *testing.T, f *Fixture) {
	expired := func() (ids []uuid.UUID) {
		t.Helper()
		for _, w := range Must(f.TakeOverWithExpiredCode(t.Context(), store.Queue{Channel: recipient.Email}, 8*time.Second, 10))(t) {
			ids = append(ids, w.Send.ID)
		}
		return ids
	}
	f.Admit(t, f.Intent(1))
	f.Admit(t, f.Intent(2, func(in *store.Intent) { in.TTL, in.Lease = time.Minute, 2*time.Minute }))
	soon := f.Admit(t, f.Intent(3, func(in *store.Intent) { in.TTL = time.Minute })).Send.ID
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "before a code expires", len(expired()), 0)
	f.Pass(time.Microsecond)
	Equal(t, "expired, and without a lease", expired(), []uuid.UUID{soon})
	f.Pass(time.Minute)
	Equal(t, "the other one, and the first again", len(expired()), 2)
	Equal(t, "the one that did not expire", len(f.MustTakeOver(t, 10)), 1)
}

// refundsAreLeased checks that a refund is due again after each lease, until it is confirmed. The
// refund has the fields of the verification that name the buckets.
func refundsAreLeased(t *testing.T, f *Fixture) {
	begun := f.Ended(t, f.Intent(1, func(in *store.Intent) { in.Verification.Class = store.StrangerClass }),
		store.Outcome{Status: store.Failed, Refund: true})
	id, v := begun.Send.ID, begun.Verification
	due := func(want ...store.Refund) {
		t.Helper()
		Equal(t, "refunds due", Must(f.LeaseDueRefunds(t.Context(), 5*time.Second, 10))(t), want)
	}
	for attempt := 3; attempt > 0; attempt-- {
		due()
		f.Pass(5*time.Second - time.Microsecond)
		due()
		f.Pass(time.Microsecond)
		due(store.Refund{AttemptID: Held(id, 1), Verification: store.Verification{
			ID: v.ID, App: "shop",
			Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: 1}, Class: store.StrangerClass,
			Sealed: []byte{0, 1, 255},
		}})
		OK(t, f.ConfirmRefund(t.Context(), Held(id, attempt)))
	}
	f.Pass(time.Hour)
	due()
}

func takenOnce(t *testing.T, f *Fixture) {
	f.admitAll(t, 100, func(i int) store.Intent { return f.Intent(i) })
	f.Pass(8 * time.Second)
	eachOnce(t, f, 100, func(db *sqldb.DB) (ids []uuid.UUID, err error) {
		work, err := db.TakeOver(t.Context(), store.Queue{Channel: recipient.Email}, 8*time.Second, 7)
		for _, w := range work {
			ids = append(ids, w.Send.ID)
			if w.Send.Attempt != 2 || w.Verification.ID != w.Send.VerificationID {
				t.Errorf("taken over as %s", Show(w))
			}
		}
		return ids, err
	})
}

// endTogether ends and postpones many sends at once, so that calls share round trips. Each call
// must get its own answer and change its own row, with an event and a suppression of its own.
func endTogether(t *testing.T, f *Fixture) {
	const n = 60
	begun := f.admitAll(t, n, func(i int) store.Intent { return f.Intent(i, to(byte(i))) })
	f.Pass(time.Second)
	took := func(i int) time.Duration { return time.Duration(i) * time.Second }
	sendOf, events := map[uuid.UUID]uuid.UUID{}, make([]store.NewEvent, n)
	for i := 0; i < n; i += 4 {
		events[i] = f.NewEvent("send.sent")
		sendOf[events[i].ID] = begun[i].Send.ID
	}
	changed := f.atOnce(t, n, func(_ *sqldb.DB, i int) (bool, error) {
		switch h := Held(begun[i].Send.ID, 1); i % 4 {
		case 0:
			return f.Finish(t.Context(), store.Outcome{AttemptID: h, Status: store.Sent, Provider: "mx", Took: took(i), Event: events[i]})
		case 1:
			return f.Finish(t.Context(), store.Outcome{
				AttemptID: h, Status: store.Failed, Reason: "rejected", Refund: true,
				Suppress: store.NewSuppression{Cause: store.CauseOptOut, Address: Address(byte(i)), For: time.Hour},
			})
		case 2:
			return f.Postpone(t.Context(), store.Postponement{AttemptID: h, After: took(i), Reason: "temporary_rcpt"})
		default: // an attempt that does not hold the send
			return f.Finish(t.Context(), store.Outcome{AttemptID: Held(h.ID, 2), Status: store.Unknown})
		}
	})
	Equal(t, "changed", changed, n*3/4)
	for i, b := range begun {
		row := f.Row(t, b.Send.ID)
		Equal(t, "row", []any{row.Status, row.Counts, row.Reason, row.Took, row.DueAt}, [][]any{
			{store.Sent, true, "", took(i), time.Time{}},
			{store.Failed, false, "rejected", time.Duration(0), time.Time{}},
			{store.Queued, true, "temporary_rcpt", time.Duration(0), f.Now.Add(took(i))},
			{store.Sending, true, "", time.Duration(0), f.Now.Add(7 * time.Second)},
		}[i%4])
	}
	written := f.events(t, store.AppEventFilter{})
	Equal(t, "events", len(written), n/4)
	for _, e := range written {
		Equal(t, "send of the event", e.SendID, sendOf[e.ID])
	}
	suppressed := f.suppressions(t, store.SuppressionFilter{Active: true})
	Equal(t, "suppressions", len(suppressed), n/4)
	for _, s := range suppressed {
		n := s.Recipient[15]
		Equal(t, "suppression", []any{s.ID, s.Address, n % 4}, []any{store.SuppressionID(s.Send, store.CauseOptOut), Address(n), 1})
	}
}

func claim(n byte, in store.Intent) store.IdempotencyClaim {
	return store.IdempotencyClaim{Key: [32]byte{31: n}, Fingerprint: [32]byte{0: 1}, SendID: in.Send.ID}
}

func (f *Fixture) claim(t *testing.T, c store.IdempotencyClaim, want store.IdempotencyClaimState) store.IdempotencyClaimAnswer {
	t.Helper()
	got := Must(f.ClaimIdempotencyKey(t.Context(), c))(t)
	Equal(t, "state", got.State, want)
	return got
}

func claimsGivenUp(t *testing.T, f *Fixture) {
	in, later := f.Intent(1), f.Intent(1)
	f.claim(t, claim(1, in), store.IdempotencyClaimGranted)
	other := claim(1, later)
	other.Fingerprint[0]++
	f.claim(t, claim(1, later), store.IdempotencyClaimBusy)
	OK(t, f.ReleaseIdempotencyKey(t.Context(), other.Key, later.Send.ID, false)) // not the claim's send
	f.claim(t, claim(1, later), store.IdempotencyClaimBusy)
	f.Pass(store.IdempotencyClaimLease())
	f.claim(t, other, store.IdempotencyClaimMismatched)
	Equal(t, "after the lease, the same send", f.claim(t, claim(1, later), store.IdempotencyClaimGranted).SendID, in.Send.ID)
	OK(t, f.ReleaseIdempotencyKey(t.Context(), other.Key, later.Send.ID, true)) // not the claim's send
	f.claim(t, other, store.IdempotencyClaimMismatched)
	OK(t, f.ReleaseIdempotencyKey(t.Context(), other.Key, in.Send.ID, true))
	Equal(t, "as if it never was", f.claim(t, other, store.IdempotencyClaimGranted).SendID, later.Send.ID)
}

func claimsEndAfterADay(t *testing.T, f *Fixture) {
	in := f.Intent(1)
	f.claim(t, claim(1, in), store.IdempotencyClaimGranted)
	f.Admit(t, in)
	for n := range byte(5) {
		f.claim(t, claim(10+n, f.Intent(2)), store.IdempotencyClaimGranted)
	}
	f.Pass(24*time.Hour - time.Microsecond)
	f.claim(t, claim(1, f.Intent(1)), store.IdempotencyClaimDone)
	f.Pass(time.Microsecond)
	fresh := f.Intent(1)
	c := claim(1, fresh)
	c.Fingerprint[0]++
	Equal(t, "a day later it is a new request", f.claim(t, c, store.IdempotencyClaimGranted).SendID, fresh.Send.ID)
	c.SendID = f.Intent(1).Send.ID
	f.claim(t, c, store.IdempotencyClaimBusy)
	again := f.Intent(2)
	Equal(t, "an old claim without a send", f.claim(t, claim(12, again), store.IdempotencyClaimGranted).SendID, again.Send.ID)
}

// claimsAtOnce checks that of 50 requests with one key, one gets the claim for its own send. After
// the end of its lease, one other request gets the claim.
func claimsAtOnce(t *testing.T, f *Fixture) {
	for range 2 {
		var claims [50]store.IdempotencyClaim
		for i := range claims {
			claims[i] = claim(1, f.Intent(1))
		}
		first := f.Serial == 50
		Equal(t, "held", f.atOnce(t, 50, func(db *sqldb.DB, i int) (bool, error) {
			got, err := db.ClaimIdempotencyKey(t.Context(), claims[i])
			if first && got.State == store.IdempotencyClaimGranted && got.SendID != claims[i].SendID {
				t.Error("held with another's send")
			}
			return got.State == store.IdempotencyClaimGranted, err
		}), 1)
		f.Pass(store.IdempotencyClaimLease())
	}
}
