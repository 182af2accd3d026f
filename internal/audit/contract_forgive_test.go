package audit

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// ana is the bucket of recipient 1.
var ana = Bucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1}, Purposes: []string{"login", "signup"}}

func (f *fixture) forgive(t *testing.T, buckets ...Bucket) {
	t.Helper()
	ok(t, f.Forgive(t.Context(), buckets, f.act()))
}

func forgives(t *testing.T, f *fixture) {
	one, rejections := withRules(rule(1, time.Hour)), withRejections(1, time.Hour)
	sent := f.admit(t, f.intent(1, one))
	f.finish(t, Outcome{Held: Held{sent.Send.ID, 1}, Status: Sent}, true)
	f.reject(t, f.intent(1))
	f.refuse(t, f.intent(1, one))
	f.refuse(t, f.intent(1, rejections))
	fresh := f.admit(t, f.intent(1)).Verification
	spent := f.fail(t, 1, 4)
	f.lockedOut(t, fresh, spent[0].ExpiresAt.Add(FailureWindow).Sub(f.now))
	before := len(f.all(t))

	act := f.act()
	ok(t, f.Forgive(t.Context(), []Bucket{ana}, act))
	act.At = f.now
	equal(t, "acts", f.acts(t, ActFilter{}), []Act{act})
	equal(t, "rows", len(f.all(t)), before)
	events, _, err := f.History(t.Context(), ana, 24*time.Hour)
	ok(t, err)
	equal(t, "history", len(events), 0)
	failed, _, err := f.Rejected(t.Context(), ana, 24*time.Hour)
	ok(t, err)
	equal(t, "rejected", len(failed), 0)
	for name, all := range map[string]func(func(Counting) error) error{
		"counting": func(y func(Counting) error) error { return f.Counting(t.Context(), LogClock, 24*time.Hour, y) },
		"rejected": func(y func(Counting) error) error { return f.AllRejected(t.Context(), 24*time.Hour, y) },
	} {
		ok(t, all(func(c Counting) error { t.Errorf("%s: %v still counts", name, c); return nil }))
	}
	row := f.row(t, sent.Send.ID)
	equal(t, "the send can be read", []any{row.Status, row.Counts, row.Forgiven, row.To}, []any{Sent, false, true, "a•••@example.com"})
	f.lockedOut(t, fresh, 0)
	equal(t, "a try", tryOnce(t, f, fresh.ID), true)
	got, _, _, err := f.Verification(t.Context(), spent[3].ID)
	ok(t, err)
	equal(t, "tries of a code that was spent", got.Attempts, 5)

	// The row of a hundred, too.
	for range 5 {
		f.forgive(t, ana)
		f.fail(t, 1, 4)
		f.pass(FailureWindow + 10*time.Minute)
	}
	row100 := f.admit(t, f.intent(1)).Verification
	equal(t, "a try after five days of them, each forgiven but the last", tryOnce(t, f, row100.ID), true)
	fresh = f.admit(t, f.intent(1)).Verification
	f.forgive(t, ana)
	tries(t, f, fresh.ID, 1)

	// From here all counts again, what is tried at the same code too.
	f.admit(t, f.intent(1, one, rejections))
	f.refuse(t, f.intent(1, one))
	f.reject(t, f.intent(1))
	f.refuse(t, f.intent(1, rejections))
	tries(t, f, fresh.ID, 4)
	last := f.admit(t, f.intent(1)).Verification
	f.fail(t, 1, 3)
	equal(t, "the twenty-first", tryOnce(t, f, last.ID), false)
	f.forgive(t, ana)
	equal(t, "forgiven again", tryOnce(t, f, last.ID), true)
}

func forgivesNothingElse(t *testing.T, f *fixture) {
	one := withRules(rule(1, time.Hour))
	change := map[string]func(*Intent){
		"another recipient": func(in *Intent) { in.Send.Recipient = recipient.Hash{15: 2} },
		"another app":       func(in *Intent) { in.Send.App = "desk" },
		"another channel":   func(in *Intent) { in.Send.Channel = recipient.SMS },
		"another policy":    func(in *Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift"} },
	}
	for _, c := range change {
		f.admit(t, f.intent(1, c, one))
	}
	f.admit(t, f.intent(1, one))
	other := f.fail(t, 2, 4)
	f.forgive(t, ana)
	f.admit(t, f.intent(1, one))
	for what, c := range change {
		t.Log(what)
		f.refuse(t, f.intent(1, c, one))
	}
	f.lockedOut(t, other[0], other[0].ExpiresAt.Add(FailureWindow).Sub(f.now))
	gift, desk := ana, ana
	gift.Purposes, desk.App = []string{"gift"}, "desk"
	f.forgive(t, gift, desk) // several at once
	f.admit(t, f.intent(1, change["another policy"], one))
	f.admit(t, f.intent(1, change["another app"], one))
	f.refuse(t, f.intent(1, change["another channel"], one))
	for _, bad := range [][]Bucket{nil, {{App: "shop", Channel: recipient.Email}}} {
		is(t, f.Forgive(t.Context(), bad, f.act()), ErrBadRequest)
	}
	before := len(f.acts(t, ActFilter{}))
	is(t, f.Forgive(t.Context(), []Bucket{ana}, f.act(func(a *Act) { a.Who = "" })), ErrBadRequest)
	f.refuse(t, f.intent(1, one)) // and nothing was forgiven
	equal(t, "acts", len(f.acts(t, ActFilter{})), before)
}

// A send that is under way stops counting, ends as it ends, and is known again by its ID. A right code that comes later
// takes only its own try back.
func forgivesUnderWay(t *testing.T, f *fixture) {
	one := withRules(rule(1, time.Hour))
	in := f.intent(1, one)
	begun := f.admit(t, in)
	tries(t, f, begun.Verification.ID, 3)
	f.forgive(t, ana)
	again := f.begin(t, in)
	equal(t, "repeated", again.Send, begun.Send)
	f.admit(t, f.intent(1, one))
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
	f.admit(t, f.intent(1, withRejections(1, time.Hour))) // forgiven with its send
	row := f.row(t, begun.Send.ID)
	equal(t, "row", []any{row.Status, row.Counts, row.RefundDue}, []any{Failed, false, true})

	tries(t, f, begun.Verification.ID, 1)
	_, err := f.Approve(t.Context(), begun.Verification.ID, Tell{})
	ok(t, err)
	f.fail(t, 1, 3)
	last := f.admit(t, f.intent(1)).Verification
	tries(t, f, last.ID, 5) // 20 failures, none of the approved one among them
	f.lockedOut(t, last, last.CreatedAt.Add(10*time.Minute-3*time.Second+FailureWindow).Sub(f.now))
}

func (f *fixture) erase(t *testing.T, n int, keep time.Duration) Act {
	t.Helper()
	act := f.act(func(a *Act) { a.What, a.Recipient, a.To = "erase", recipient.Hash{}, "" })
	ok(t, f.Erase(t.Context(), recipient.Hash{15: byte(n)}, keep, act))
	act.At, act.Recipient, act.To = f.now, recipient.Hash{15: byte(n)}, Erased
	return act
}

func erases(t *testing.T, f *fixture) {
	named := func(in *Intent) {
		in.Send.Reference, in.Verification.Holder, in.Send.Locale = "order 7 of Ana", "s:1", "pt-BR"
	}
	mine := f.admit(t, f.intent(1, named))
	f.finish(t, Outcome{Held: Held{mine.Send.ID, 1}, Status: Sent, Provider: "mx", ProviderCode: "250", Took: time.Second}, true)
	approved := f.admit(t, f.intent(1)).Verification
	_, err := f.Approve(t.Context(), approved.ID, Tell{})
	ok(t, err)
	refusal := f.refusal(1, nil)
	ok(t, f.Refused(t.Context(), []Send{refusal}))
	desk := f.admit(t, f.intent(1, func(in *Intent) { in.Send.App = "desk" })) // whatever app
	other := f.admit(t, f.intent(2, named))
	before := f.act()
	ok(t, f.RecordAct(t.Context(), before))
	before.At = f.now
	f.pass(time.Second)
	rows := len(f.all(t))

	act := f.erase(t, 1, time.Hour)
	before.To = Erased
	equal(t, "acts", f.acts(t, ActFilter{}), []Act{act, before})
	equal(t, "rows", len(f.all(t)), rows)
	for what, id := range map[string]uuid.UUID{"send": mine.Send.ID, "refusal": refusal.ID, "other app": desk.Send.ID} {
		row := f.row(t, id)
		equal(t, what, []any{row.To, row.Reference, row.IP, row.Locale, row.Recipient}, []any{Erased, "", "", "", mine.Send.Recipient})
	}
	sent := f.row(t, mine.Send.ID)
	equal(t, "how it ended", []any{sent.Status, sent.Provider, sent.ProviderCode, sent.Took, sent.Counts}, []any{Sent, "mx", "250", time.Second, true})
	for _, id := range []string{mine.Verification.ID, approved.ID} {
		v, _, _, err := f.Verification(t.Context(), id)
		ok(t, err)
		equal(t, "verification", []any{v.To, len(v.Sealed), v.Holder, len(v.Nonce), v.Locale, v.Reference}, []any{Erased, 0, "", 0, "", ""})
		equal(t, "approved stays, open is canceled", v.ApprovedAt.IsZero(), !v.CanceledAt.IsZero())
	}
	equal(t, "another's row", f.row(t, other.Send.ID).Reference, "order 7 of Ana")
	v, _, _, err := f.Verification(t.Context(), other.Verification.ID)
	ok(t, err)
	equal(t, "another's verification", v, other.Verification)
	list, err := f.Sends(t.Context(), Filter{Recipient: &mine.Send.Recipient, Limit: 10})
	ok(t, err)
	equal(t, "found by the hash", len(list), 4)
}

func eraseFreesNothing(t *testing.T, f *fixture) {
	one := withRules(rule(1, time.Hour))
	f.admit(t, f.intent(1, one))
	fresh := f.admit(t, f.intent(1)).Verification
	f.reject(t, f.intent(1))
	spent := f.fail(t, 1, 4)
	f.erase(t, 1, RowWindow)
	f.refuse(t, f.intent(1, one))
	f.refuse(t, f.intent(1, withRejections(1, time.Hour)))
	f.lockedOut(t, fresh, spent[0].ExpiresAt.Add(FailureWindow).Sub(f.now))
	equal(t, "a send", f.begin(t, f.intent(1)).Admitted, false)
	f.pass(time.Hour)
	n, err := f.Forget(t.Context())
	ok(t, err)
	equal(t, "forgotten too early", n, 0)
}

func erasesUnderWay(t *testing.T, f *fixture) {
	held, waits := f.admit(t, f.intent(1)), f.admit(t, f.intent(1))
	put, err := f.Postpone(t.Context(), Postponement{Held: Held{waits.Send.ID, 1}, After: time.Second, Reason: "temporary_rcpt"})
	ok(t, err)
	equal(t, "postponed", put, true)
	f.pass(time.Millisecond)
	f.erase(t, 1, time.Hour)
	row := f.row(t, waits.Send.ID)
	equal(t, "what waited", []any{row.Status, row.Reason, row.Counts, row.RefundDue, row.FinishedAt, row.DueAt}, []any{Failed, ReasonErased, true, false, f.now, time.Time{}})
	equal(t, "what an attempt holds", f.row(t, held.Send.ID).Status, Sending)
	f.pass(time.Minute)
	work, err := f.TakeOver(t.Context(), recipient.Email, time.Second, 10)
	ok(t, err)
	equal(t, "taken over", len(work), 1)
	equal(t, "its address", len(work[0].Verification.Sealed), 0)
	f.finish(t, Outcome{Held: Held{held.Send.ID, 2}, Status: Failed, Reason: ReasonErased}, true)
	equal(t, "its place", f.row(t, held.Send.ID).Counts, true)
	_, err = f.Newest(t.Context(), Holding{App: "shop", Channel: recipient.Email, Recipient: held.Send.Recipient, Purpose: "login", Holder: "s:1"})
	is(t, err, ErrNotFound)
}

func forgets(t *testing.T, f *fixture) {
	old := f.admit(t, f.intent(1))
	f.admit(t, f.intent(2))
	ok(t, f.RecordAct(t.Context(), f.act()))
	f.erase(t, 1, time.Hour)
	f.erase(t, 2, 2*time.Hour)
	f.pass(30 * time.Minute)
	back := f.admit(t, f.intent(1)) // the person came back
	f.pass(30*time.Minute - time.Microsecond)
	forget := func(want int) {
		t.Helper()
		n, err := f.Forget(t.Context())
		ok(t, err)
		equal(t, "forgotten", n, want)
	}
	forget(0)
	f.pass(time.Microsecond)
	forget(1)
	forget(0)
	equal(t, "the old row", f.row(t, old.Send.ID).Recipient, recipient.Hash{})
	equal(t, "the new row", f.row(t, back.Send.ID), back.Send)
	v, _, _, err := f.Verification(t.Context(), old.Verification.ID)
	ok(t, err)
	equal(t, "the old verification", v.Recipient, recipient.Hash{})
	equal(t, "acts on them", f.acts(t, ActFilter{Recipient: &back.Send.Recipient}), nil)
	events, _, err := f.History(t.Context(), ana, 24*time.Hour)
	ok(t, err)
	equal(t, "history", events, []quota.Event{{ID: string(back.Send.ID[:]), At: back.Send.LoggedAt}})

	f.erase(t, 1, time.Hour) // again, of what came since
	f.pass(time.Hour)
	forget(2)
	for _, row := range f.all(t) {
		equal(t, "row", row.Recipient, recipient.Hash{})
	}
}

// Those who were forgotten share the hash of nobody; no story of one of them tells of another.
func forgottenApart(t *testing.T, f *fixture) {
	hers := f.admit(t, f.intent(1))
	f.pass(time.Second)
	his := f.refusal(2, nil)
	ok(t, f.Refused(t.Context(), []Send{his}))
	f.erase(t, 1, time.Hour)
	f.erase(t, 2, time.Hour)
	f.pass(time.Hour)
	n, err := f.Forget(t.Context())
	ok(t, err)
	equal(t, "forgotten", n, 2)
	story, err := f.Story(t.Context(), hers.Send.ID)
	ok(t, err)
	equal(t, "related", ids(story.Related), []uuid.UUID{hers.Send.ID})
}

func badErasures(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	is(t, f.Erase(t.Context(), recipient.Hash{}, time.Hour, f.act()), ErrBadRequest)
	is(t, f.Erase(t.Context(), begun.Send.Recipient, 0, f.act()), ErrBadRequest)
	is(t, f.Erase(t.Context(), begun.Send.Recipient, time.Hour, f.act(func(a *Act) { a.Who = "" })), ErrBadRequest)
	equal(t, "row", f.row(t, begun.Send.ID), begun.Send)
}

// Who was erased and wants no mail still gets none, for as long as that was to be.
func erasedAndSuppressed(t *testing.T, f *fixture) {
	who := recipient.Hash{15: 1}
	s, _, err := f.Suppress(t.Context(), Suppression{
		ID: uuid.UUID{9}, Channel: recipient.Email, Address: who, Recipient: who, To: "a•••@example.com", Cause: Complaint, Detail: "550 5.7.1",
	}, 3*time.Hour, nil)
	ok(t, err)
	f.erase(t, 1, time.Hour)
	list := func() []Suppression {
		t.Helper()
		all, _, err := f.Suppressions(t.Context(), SuppressionFilter{Limit: 10})
		ok(t, err)
		return all
	}
	s.To = Erased
	equal(t, "erased", list(), []Suppression{s})
	for _, after := range []time.Duration{time.Hour, 2*time.Hour - time.Microsecond} {
		f.pass(after)
		_, err = f.Forget(t.Context())
		ok(t, err)
		equal(t, "still held", list(), []Suppression{s})
	}
	f.pass(time.Microsecond)
	_, err = f.Forget(t.Context())
	ok(t, err)
	s.Address, s.Recipient = recipient.Hash{}, recipient.Hash{}
	equal(t, "run out", list(), []Suppression{s})
}
