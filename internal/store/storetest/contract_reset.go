package storetest

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// ana is the bucket of recipient 1.
var ana = store.SendBucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1}, Purposes: []string{"login", "signup"}}

func (f *Fixture) reset(t *testing.T, buckets ...store.SendBucket) {
	t.Helper()
	OK(t, f.ResetCounters(t.Context(), buckets, f.Act()))
}

func resetsCounters(t *testing.T, f *Fixture) {
	one, rejections := WithRules(Rule(1, time.Hour)), withRejections(1, time.Hour)
	sent := f.Admit(t, f.Intent(1, one))
	f.reject(t, f.Intent(1))
	f.Refuse(t, f.Intent(1, one))
	f.Refuse(t, f.Intent(1, rejections))
	failing, unsure := f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(1))
	fresh := f.Admit(t, f.Intent(1)).Verification
	spent := f.spendAllTries(t, 1, 4)
	f.checkLockedOut(t, fresh, spent[0].CreatedAt.Add(rowrules.FailedCheckWindow).Sub(f.Now))
	before := len(f.All(t))

	act := f.Act()
	OK(t, f.ResetCounters(t.Context(), []store.SendBucket{ana}, act))
	act.At = f.Now
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{act})
	Equal(t, "rows", len(f.All(t)), before)
	f.End(t, failing.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true})
	f.End(t, unsure.Send.ID, store.Outcome{Status: store.Unknown, Reason: "no_answer"})
	f.End(t, sent.Send.ID, Sent) // like the two before, it was in flight at the reset
	events := Must(f.History(t.Context(), ana, 24*time.Hour))(t).Past
	Equal(t, "history", len(events), 0)
	failed := Must(f.History(t.Context(), ana, 24*time.Hour))(t).Rejections
	Equal(t, "rejected", len(failed), 0)
	row := f.Row(t, sent.Send.ID)
	Equal(t, "the send can be read", []any{row.Status, row.Counts, row.WasReset, row.To},
		[]any{store.Sent, false, true, "a•••@example.com"})
	f.checkLockedOut(t, fresh, 0)
	Equal(t, "a try", tryOnce(t, f, fresh.ID), true)
	Equal(t, "tries of a code that was spent", f.Code(t, spent[3].ID).Attempts, 5)

	// The limit of a hundred failed checks in a row is reset, too.
	for range 5 {
		f.reset(t, ana)
		f.spendAllTries(t, 1, 4)
		f.Pass(rowrules.FailedCheckWindow + 10*time.Minute)
	}
	hundredth := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "a try after five days of them, each reset but the last", tryOnce(t, f, hundredth.ID), true)
	partly := f.Admit(t, f.Intent(1)).Verification
	useTries(t, f, partly.ID, 1)
	f.reset(t, ana)

	// From here on all events count again, also those of a verification with earlier checks.
	f.Admit(t, f.Intent(1, one, rejections))
	f.Refuse(t, f.Intent(1, one))
	f.reject(t, f.Intent(1))
	f.Refuse(t, f.Intent(1, rejections))
	last := f.Admit(t, f.Intent(1)).Verification
	useTries(t, f, partly.ID, 4)
	f.spendAllTries(t, 1, 3)
	useTries(t, f, last.ID, 1)
	Equal(t, "the twenty-first", tryOnce(t, f, last.ID), false)
}

func resetsNothingElse(t *testing.T, f *Fixture) {
	one := WithRules(Rule(1, time.Hour))
	change := map[string]func(*store.Intent){
		"another recipient": func(in *store.Intent) { in.Send.Recipient = recipient.Hash{15: 2} },
		"another app":       func(in *store.Intent) { in.Send.App = "desk" },
		"another channel":   func(in *store.Intent) { in.Send.Channel = recipient.SMS },
		"another policy":    func(in *store.Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift"} },
	}
	for _, c := range change {
		f.Admit(t, f.Intent(1, c, one))
	}
	f.Admit(t, f.Intent(1, one))
	other := f.spendAllTries(t, 2, 4)
	f.reset(t, ana)
	f.Admit(t, f.Intent(1, one))
	for what, c := range change {
		t.Log(what)
		f.Refuse(t, f.Intent(1, c, one))
	}
	f.checkLockedOut(t, other[0], other[0].CreatedAt.Add(rowrules.FailedCheckWindow).Sub(f.Now))
	gift, desk := ana, ana
	gift.Purposes, desk.App = []string{"gift"}, "desk"
	f.reset(t, gift, desk) // several at once
	f.Admit(t, f.Intent(1, change["another policy"], one))
	f.Admit(t, f.Intent(1, change["another app"], one))
	f.Refuse(t, f.Intent(1, change["another channel"], one))
	before := len(f.ListActs(t, store.AuditFilter{}))
	Is(t, f.ResetCounters(t.Context(), []store.SendBucket{ana}, f.Act(func(a *store.AuditEntry) { a.Who = "" })), store.ErrBadRequest)
	f.Refuse(t, f.Intent(1, one)) // and nothing was reset
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), before)
}

func (f *Fixture) erase(t *testing.T, n int, keep time.Duration) store.AuditEntry {
	t.Helper()
	act := f.Act(func(a *store.AuditEntry) { a.What, a.Recipient, a.To = store.ErasureAction, recipient.Hash{}, "" })
	OK(t, f.Erase(t.Context(), recipient.Hash{15: byte(n)}, keep, act))
	act.At, act.Recipient, act.To = f.Now, recipient.Hash{15: byte(n)}, store.ErasedMask
	return act
}

func erases(t *testing.T, f *Fixture) {
	named := func(in *store.Intent) { in.Send.Reference = "order 7 of Ana" }
	mine := f.Ended(t, f.Intent(1, named), store.Outcome{Status: store.Sent, Provider: "mx"})
	approved := f.Admit(t, f.Intent(1)).Verification
	f.approve(t, approved.ID)
	desk := f.Admit(t, f.Intent(1, inApp("desk"))) // an erasure covers all apps
	other := f.Admit(t, f.Intent(2, named))
	before := f.Act()
	OK(t, f.AddAuditEntry(t.Context(), before))
	before.At = f.Now
	f.Pass(time.Second)

	act := f.erase(t, 1, time.Hour)
	before.To = store.ErasedMask
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{act, before})
	for id, status := range map[uuid.UUID]store.Status{mine.Send.ID: store.Sent, desk.Send.ID: store.Sending} {
		row := f.Row(t, id)
		Equal(t, "row", []any{row.To, row.Reference, row.Network, row.Locale, row.Recipient, row.Status, row.Counts},
			[]any{store.ErasedMask, "", "", "", mine.Send.Recipient, status, true})
	}
	for _, id := range []string{mine.Verification.ID, approved.ID} {
		v := f.Code(t, id)
		Equal(t, "verification", []any{v.To, len(v.Sealed), len(v.Nonce), v.Reference}, []any{store.ErasedMask, 0, 0, ""})
		Equal(t, "approved stays, open is canceled", v.ApprovedAt.IsZero(), !v.CanceledAt.IsZero())
	}
	Equal(t, "another's row", f.Row(t, other.Send.ID).Reference, "order 7 of Ana")
	Equal(t, "another's verification", f.Code(t, other.Verification.ID), other.Verification)
}

// erasesWhatComesLate checks refusals that a replica had not yet written when another replica
// erased their recipient: they are written masked, and ForgetDueErased deletes their hash. If the
// person comes back, the new rows and codes are like others.
func erasesWhatComesLate(t *testing.T, f *Fixture) {
	doubtful := f.Admit(t, f.Intent(1)).Send.ID
	f.Pass(8 * time.Second)
	f.MustTakeOver(t, 10)
	OK(t, Err(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(doubtful, 2), After: time.Minute, Reason: "temporary"})))
	bouncing := f.Admit(t, f.Intent(1, to(1))).Send.ID
	begun := f.Act()
	OK(t, f.AddAuditEntry(t.Context(), begun))
	full := func(s *store.SendOrRefusal) { s.Country, s.Prefix = "DE", "+49" }
	known, late, other := f.Refusal(1, full), f.Refusal(1, full), f.Refusal(2, full)
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{known}))
	f.erase(t, 1, time.Hour)
	f.Pass(time.Second)
	back, code := f.Refusal(1, full), f.Admit(t, f.Intent(1)).Verification
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{known, late, back, other}))
	end := Must(store.AuditEntryCompletion(begun, store.AuditDone, ""))(t)
	OK(t, f.AddAuditEntry(t.Context(), end))
	f.End(t, bouncing, refusedAs(1, "550 5.1.1 of Ana"))

	written := func(id uuid.UUID) []string {
		r := f.Row(t, id)
		return []string{r.To, r.Country, r.Prefix, r.Locale, r.Network}
	}
	for _, r := range []store.SendOrRefusal{back, other} {
		Equal(t, "not erased", written(r.ID), []string{"a•••@example.com", "DE", "+49", "en", "192.0.2.0/24"})
	}
	for _, id := range []uuid.UUID{known.ID, late.ID} {
		Equal(t, "erased", written(id), []string{store.ErasedMask, "", "", "", ""})
	}
	Equal(t, "their code lives", f.Code(t, code.ID), code)
	Equal(t, "a send in doubt", f.Row(t, doubtful).Status, store.Unknown)
	Equal(t, "the words of a bounce", f.suppressions(t, store.SuppressionFilter{})[0].Words, "")
	Equal(t, "the end of an act", f.ListActs(t, store.AuditFilter{})[0].To, store.ErasedMask)
	f.Pass(time.Hour)
	Equal(t, "forgotten", Must(f.ForgetDueErased(t.Context()))(t), 1)
	Equal(t, "a late refusal's hash", f.Row(t, late.ID).Recipient, recipient.Hash{})
}

// erasesDuringWrites checks that refusals which replicas write while the recipient is erased are
// masked, whichever comes first.
func erasesDuringWrites(t *testing.T, f *Fixture) {
	rows := make([]store.SendOrRefusal, 16)
	for i := range rows {
		rows[i] = f.Refusal(1, nil)
	}
	act := f.Act()
	f.atOnce(t, len(rows)+1, func(db *sqldb.DB, i int) (bool, error) {
		if i == len(rows) {
			return true, db.Erase(t.Context(), ana.Recipient, time.Hour, act)
		}
		return true, db.RecordRefusals(t.Context(), rows[i:i+1])
	})
	for _, r := range rows {
		Equal(t, "written during the erasure", f.Row(t, r.ID).To, store.ErasedMask)
	}
}

func eraseFreesNothing(t *testing.T, f *Fixture) {
	one := WithRules(Rule(1, time.Hour))
	f.Admit(t, f.Intent(1, one))
	fresh := f.Admit(t, f.Intent(1)).Verification
	f.reject(t, f.Intent(1))
	spent := f.spendAllTries(t, 1, 4)
	f.erase(t, 1, rowrules.ConsecutiveFailedCheckWindow)
	f.Refuse(t, f.Intent(1, one))
	f.Refuse(t, f.Intent(1, withRejections(1, time.Hour)))
	f.checkLockedOut(t, fresh, spent[0].ExpiresAt.Add(rowrules.FailedCheckWindow).Sub(f.Now))
	Equal(t, "a send", f.MustBegin(t, f.Intent(1)).Admitted, false)
	f.Pass(time.Hour)
	Equal(t, "forgotten too early", Must(f.ForgetDueErased(t.Context()))(t), 0)
}

func forgets(t *testing.T, f *Fixture) {
	old := f.Admit(t, f.Intent(1))
	f.Admit(t, f.Intent(2))
	OK(t, f.AddAuditEntry(t.Context(), f.Act()))
	f.erase(t, 1, time.Hour)
	f.erase(t, 2, 2*time.Hour)
	f.Pass(30 * time.Minute)
	back := f.Admit(t, f.Intent(1)) // the person came back
	f.Pass(30*time.Minute - time.Microsecond)
	forget := func(want int) {
		t.Helper()
		Equal(t, "forgotten", Must(f.ForgetDueErased(t.Context()))(t), want)
	}
	forget(0)
	f.Pass(time.Microsecond)
	forget(1)
	forget(0)
	Equal(t, "the old row", f.Row(t, old.Send.ID).Recipient, recipient.Hash{})
	Equal(t, "the new row", f.Row(t, back.Send.ID), RowOf(back.Send))
	Equal(t, "the old verification", f.Code(t, old.Verification.ID).Recipient, recipient.Hash{})
	Equal(t, "acts on them", f.ListActs(t, store.AuditFilter{Recipient: &back.Send.Recipient}), nil)
	events := Must(f.History(t.Context(), ana, 24*time.Hour))(t).Sends(24 * time.Hour)
	Equal(t, "history", events, []quota.Event{{ID: string(back.Send.ID[:]), At: back.Send.LoggedAt}})

	f.erase(t, 1, time.Hour) // erases what came since
	f.Pass(time.Hour)
	forget(2)
	for _, row := range f.All(t) {
		Equal(t, "row", row.Recipient, recipient.Hash{})
	}
}

// forgottenAreDistinct checks that the details of a send to a forgotten recipient show no refusal
// of another forgotten recipient, although both have the zero hash.
func forgottenAreDistinct(t *testing.T, f *Fixture) {
	hers := f.Admit(t, f.Intent(1))
	f.Pass(time.Second)
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(2, nil)}))
	f.erase(t, 1, time.Hour)
	f.erase(t, 2, time.Hour)
	f.Pass(time.Hour)
	Equal(t, "forgotten", Must(f.ForgetDueErased(t.Context()))(t), 2)
	Equal(t, "related", IDs(Must(f.SendDetails(t.Context(), hers.Send.ID))(t).Related), []uuid.UUID{hers.Send.ID})
}

// erasedAndSuppressed checks that the suppression of an erased recipient keeps its hashes until its
// own end, because it needs them to stop messages.
func erasedAndSuppressed(t *testing.T, f *Fixture) {
	who := recipient.Hash{15: 1}
	s, _ := must2(f.Suppress(t.Context(), store.Suppression{
		ID: uuid.UUID{9}, Channel: recipient.Email, Address: who, Recipient: who, To: "a•••@example.com", Cause: store.CauseComplaint,
		Detail: "550 5.7.1",
	}, 3*time.Hour, nil))(t)
	f.erase(t, 1, time.Hour)
	list := func() []store.Suppression {
		t.Helper()
		all, _ := must2(f.Suppressions(t.Context(), store.SuppressionFilter{Limit: 10}))(t)
		return all
	}
	s.To = store.ErasedMask
	Equal(t, "erased", list(), []store.Suppression{s})
	for _, after := range []time.Duration{time.Hour, 2*time.Hour - time.Microsecond} {
		f.Pass(after)
		Must(f.ForgetDueErased(t.Context()))(t)
		Equal(t, "still held", list(), []store.Suppression{s})
	}
	f.Pass(time.Microsecond)
	Must(f.ForgetDueErased(t.Context()))(t)
	s.Address, s.Recipient = recipient.Hash{}, recipient.Hash{}
	Equal(t, "run out", list(), []store.Suppression{s})
}

func (f *Fixture) expireAndCheck(t *testing.T, age time.Duration, limit, want int) {
	t.Helper()
	Equal(t, "expired", Must(f.DeleteAged(t.Context(), age, limit))(t), store.DeletedRows{Rows: want, More: want == limit})
}

// expires checks that sends and refusals are deleted oldest first, but not while they are in flight
// or have a refund due.
func expires(t *testing.T, f *Fixture) {
	inFlight := f.Admit(t, f.Intent(1)).Send.ID
	f.Ended(t, f.Intent(2), Sent)
	refunded := f.Ended(t, f.Intent(3), store.Outcome{Status: store.Failed, Refund: true}).Send.ID
	f.Pass(time.Second)
	r := f.Refusal(1, nil)
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{r}))
	f.Pass(time.Second)
	young := f.Ended(t, f.Intent(4), Sent).Send.ID

	f.Pass(time.Hour + store.MaxCodeLife - 2*time.Second)
	f.expireAndCheck(t, time.Hour, 10, 0) // exactly that old, so not yet due
	f.Pass(time.Microsecond)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "left", sorted(IDs(f.All(t))), sorted([]uuid.UUID{inFlight, refunded, r.ID, young}))
	f.Pass(time.Second)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "left", sorted(IDs(f.All(t))), sorted([]uuid.UUID{inFlight, refunded, young}))
	f.Pass(time.Second)
	f.expireAndCheck(t, time.Hour, 10, 1)
	f.End(t, inFlight, Sent)
	OK(t, f.ConfirmRefund(t.Context(), Held(refunded, 1)))
	f.expireAndCheck(t, time.Hour, 10, 2)
	Equal(t, "left", len(f.All(t)), 0)
}

// expiresWithVerification checks that DeleteAged deletes an old verification together with the send
// that opened it, however long its code lived, since Erase finds the verification by that send. A
// verification with a send in flight stays.
func expiresWithVerification(t *testing.T, f *Fixture) {
	old := f.Ended(t, f.Intent(1, func(in *store.Intent) { in.TTL = store.MaxCodeLife }), Sent)
	f.Pass(time.Minute)
	kept := f.Ended(t, f.Intent(1), Sent)
	inFlight := f.Admit(t, f.Intent(1, Joining(kept.Verification.ID)))
	f.Pass(time.Hour + store.MaxCodeLife)
	f.expireAndCheck(t, time.Hour, 10, 1)
	_, _, err := f.VerificationRow(t.Context(), old.Verification.ID)
	Is(t, err, fault.NotFound)
	Is(t, Err(f.SendDetails(t.Context(), old.Send.ID)), fault.NotFound)
	_, newest, _ := Must3(f.Verification(t.Context(), kept.Verification.ID))(t)
	Equal(t, "its send", newest.ID, inFlight.Send.ID)
	f.Pass(time.Minute)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "of the resend in flight", Must(f.SendDetails(t.Context(), inFlight.Send.ID))(t).Verification.ID, kept.Verification.ID)
}

// expiresAtOnce makes eight calls on two replicas at once. They must delete every row, and count
// each row once.
func expiresAtOnce(t *testing.T, f *Fixture) {
	f.endAll(t, f.admitAll(t, 40, func(i int) store.Intent { return f.Intent(i) }), func(int) store.Outcome { return Sent })
	f.Pass(time.Hour + store.MaxCodeLife + time.Second)
	var gone atomic.Int32
	for before := int32(-1); gone.Load() < 40 && before < gone.Load(); {
		before = gone.Load()
		f.atOnce(t, 8, func(db *sqldb.DB, _ int) (bool, error) {
			expired, err := db.DeleteAged(t.Context(), time.Hour, 3)
			gone.Add(int32(expired.Rows))
			return true, err
		})
	}
	Equal(t, "expired", gone.Load(), 40)
	Equal(t, "left", len(f.All(t)), 0)
	f.expireAndCheck(t, time.Hour, 10, 0)
}

func sorted(list []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(list), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
