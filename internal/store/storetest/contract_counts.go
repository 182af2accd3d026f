package storetest

import (
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// failures equals policy.FailuresScope. This package must not import policy.
const failures quota.Scope = "failures"

// FailedAtMost returns the rule on rejected sends.
func FailedAtMost(limit int, window time.Duration) quota.Rule {
	return quota.Rule{Name: "failures", Scope: failures, Limit: limit, Window: window}
}

func withRejections(limit int, window time.Duration) func(*store.Intent) {
	return func(in *store.Intent) { in.RejectionRules = []quota.Rule{FailedAtMost(limit, window)} }
}

// reject begins a send and lets it fail because its address takes no messages. The reason is
// ReasonRejected unless another one is given.
func (f *Fixture) reject(t *testing.T, in store.Intent, reason ...string) {
	t.Helper()
	f.fail(t, in, store.Outcome{Reason: append(reason, store.ReasonRejected)[0], BadAddress: true})
}

// fail begins a send and, a second later, lets it fail with a refund.
func (f *Fixture) fail(t *testing.T, in store.Intent, out store.Outcome) store.BeginAnswer {
	t.Helper()
	begun := f.Admit(t, in)
	f.Pass(time.Second) // a failed send counts from its end
	out.Status, out.Refund = store.Failed, true
	f.End(t, begun.Send.ID, out)
	return begun
}

func rejectionsOfARecipient(t *testing.T, f *Fixture) {
	two := withRejections(2, time.Hour)
	f.reject(t, f.Intent(1, two))
	f.Pass(10 * time.Minute)
	// the first send gave its place back
	f.reject(t, f.Intent(1, two, WithRules(Rule(1, 30*time.Hour))), store.ReasonSuppressed)
	f.Pass(time.Minute)
	in := f.Intent(1, two)
	got := f.Refuse(t, in)
	Equal(t, "rejected", got.Rejected, []quota.Event{
		{ID: got.Rejected[0].ID, At: f.Now.Add(-11*time.Minute - time.Second)},
		{ID: got.Rejected[1].ID, At: f.Now.Add(-time.Minute)},
	})
	Equal(t, "history", len(got.History), 0)
	d := quota.Evaluate(in.RejectionRules, map[quota.Scope][]quota.Event{failures: got.Rejected}, got.Now)
	Equal(t, "wait", d.RetryAfter(), 49*time.Minute-time.Second)
	in = f.Intent(1, withRejections(3, time.Hour)) // each intent has its own rules
	let := f.Admit(t, in)
	Equal(t, "rejected, told to the one that is let in", let.Rejected, got.Rejected)
	Equal(t, "at", let.Now, f.Now)
	observing := FailedAtMost(2, time.Hour)
	observing.Observe = true
	tried := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.RejectionRules = []quota.Rule{observing} }))
	Equal(t, "observed", f.Row(t, tried.Send.ID).Observed, []string{"failures"})
	f.Admit(t, f.Intent(1)) // without a rule
	f.Pass(49*time.Minute - time.Second - time.Microsecond)
	f.Refuse(t, f.Intent(1, two))
	f.Pass(time.Microsecond)
	f.Admit(t, f.Intent(1, two))
}

// onlyRecipientsRejectionsCount checks that rejected sends of all purposes of the recipient count,
// and no other sends.
func onlyRecipientsRejectionsCount(t *testing.T, f *Fixture) {
	one := withRejections(1, time.Hour)
	// sends that don't count: sent, perhaps sent, or failed for a reason other than their address
	for _, o := range []store.Outcome{
		{Status: store.Sent, Reason: store.ReasonRejected, BadAddress: true},
		{Status: store.Unknown, Reason: store.ReasonRejected, BadAddress: true},
		{Status: store.Failed, Reason: "expired", Refund: true},
		{Status: store.Failed, Reason: store.ReasonRejected, Refund: true},
		{Status: store.Failed, Reason: store.ReasonPaused, Refund: true},
	} {
		f.Ended(t, f.Intent(1, one), o)
	}
	f.reject(t, f.Intent(1))
	f.Refuse(t, f.Intent(1, one, func(in *store.Intent) { in.Send.Purpose = "gift"; in.Purposes = []string{"gift"} }))
	f.Admit(t, f.Intent(2, one))
	f.Admit(t, f.Intent(1, one, func(in *store.Intent) { in.Send.App = "desk" }))
	f.Admit(t, f.Intent(1, one, func(in *store.Intent) { in.Send.Channel = recipient.SMS }))
}

// readFailedSends checks that FailedSends returns the sends of a class that failed for a reason
// other than their address. For each send it says whether the send still counts, which it does
// until a message is sent after it or the quota is reset, and whether a pause of its prefix and
// class is in force.
func readFailedSends(t *testing.T, f *Fixture) {
	number := text("+49151", "DE")
	q := store.FailedSendsQuery{App: "shop", Channel: recipient.SMS, Recipient: f.Intent(1).Send.Recipient, Within: time.Hour}
	expect := func(class store.Class, what string, want ...store.FailedSend) {
		t.Helper()
		q.Class = class
		got, now := must2(f.FailedSends(t.Context(), q))(t)
		if class == store.StrangerClass && q.Within == time.Hour {
			Equal(t, what+": all", len(got) >= 2, true) // also the sends that never counted
		}
		got = slices.DeleteFunc(got, func(s store.FailedSend) bool { return !s.CountsTowardBackoffRule })
		Equal(t, what, got, want)
		Equal(t, "now", now, f.Now)
	}
	failed := func(out store.Outcome, changes ...func(*store.Intent)) store.FailedSend {
		t.Helper()
		begun := f.fail(t, f.Intent(1, append(changes, number)...), out)
		return store.FailedSend{
			ID: begun.Send.ID, EndedAt: f.Now, Purpose: begun.Send.Purpose, CountsTowardBackoffRule: true,
			Paused: out.Reason == store.ReasonPaused,
		}
	}
	stranger, rejected := byBrowser, store.Outcome{Reason: store.ReasonRejected}
	f.fail(t, f.Intent(1, number, stranger), store.Outcome{Reason: store.ReasonEnded})
	f.fail(t, f.Intent(1, number, stranger), store.Outcome{Reason: store.ReasonErased})
	f.fail(t, f.Intent(1, number, stranger), store.Outcome{Reason: store.ReasonRejected, BadAddress: true})
	f.fail(t, f.Intent(2, number, stranger), rejected)
	f.fail(t, f.Intent(1, stranger), rejected)
	f.fail(t, f.Intent(1, number, stranger, inApp("gym")), rejected)
	f.Ended(t, f.Intent(1, number, stranger), store.Outcome{Status: store.Unknown})
	expect(store.StrangerClass, "none")
	known := failed(rejected, byKnown)
	one, two := failed(rejected, stranger), failed(store.Outcome{Reason: store.ReasonPaused}, stranger)
	expect(store.StrangerClass, "of strangers", one, two)
	expect(store.KnownBrowser, "of known browsers", known)
	expect(store.SecretKeyClass, "of secret keys")

	// A pause of the prefix for strangers starts, and is later lifted.
	for n := range 10 {
		f.Ended(t, f.Intent(100+n, number, stranger), store.Outcome{Status: store.Sent, Provider: "carrier"})
	}
	f.Pass(10 * time.Minute)
	pause := f.onePause(t, prefixWatch)
	one.PauseInForce, two.PauseInForce = true, true
	expect(store.StrangerClass, "while the prefix is paused", one, two)
	expect(store.KnownBrowser, "of known browsers, for whom it is not", known)
	list, _ := must2(f.PrefixPauses(t.Context(), store.PrefixPauseFilter{Active: true, Limit: 2}))(t)
	Equal(t, "paused for", pause.Class, store.StrangerClass)
	must2(f.LiftPrefixPause(t.Context(), store.LiftPauseRequest{ID: list[0].ID, By: "mei", Why: "ours"}, nil))(t)
	one.PauseInForce, two.PauseInForce = false, false
	expect(store.StrangerClass, "after it was lifted", one, two)

	q.Within = f.Now.Sub(one.EndedAt)
	expect(store.StrangerClass, "that ended less than so long ago", two)
	q.Within = time.Hour
	f.Ended(t, f.Intent(1, number, stranger, inApp("gym")), Sent)
	expect(store.StrangerClass, "after another app's message was sent", one, two)
	f.Ended(t, f.Intent(1, number), Sent) // a send of any class
	expect(store.StrangerClass, "after a message was sent")
	again := failed(rejected, stranger)
	expect(store.StrangerClass, "later", again)
	sms := ana
	sms.Channel = recipient.SMS
	f.reset(t, sms)
	expect(store.StrangerClass, "after a reset")
}

// historyOfVerifications checks that a history has the counted sends of a bucket, and can select
// the sends of given verifications.
func historyOfVerifications(t *testing.T, f *Fixture) {
	bucket := func(in store.Intent) store.SendBucket {
		return store.SendBucket{App: "shop", Channel: recipient.Email, Recipient: in.Send.Recipient, Purposes: in.Purposes}
	}
	one := f.Intent(1)
	first := f.Admit(t, one)
	f.Pass(time.Minute)
	second := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Verification.Replaces = []string{first.Verification.ID, "older"} }))
	f.Pass(time.Minute)
	f.Admit(t, f.Intent(1))
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Refund: true})
	v := f.Code(t, second.Verification.ID)
	Equal(t, "the chain", v.IDsWithReplaced(), []string{v.ID, first.Verification.ID, "older"})
	for _, c := range []struct {
		of       []string
		all, own int
		within   time.Duration
	}{
		{v.IDsWithReplaced(), 3, 2, time.Hour},
		{v.IDsWithReplaced()[:1], 3, 1, time.Hour},
		{nil, 3, 0, time.Hour},
		{v.IDsWithReplaced(), 2, 1, 2 * time.Minute},
	} {
		h := Must(f.History(t.Context(), bucket(one), time.Hour))(t)
		all, own := h.Sends(c.within), h.SendsOfVerifications(c.of, c.within)
		Equal(t, "all", len(all), c.all)
		Equal(t, "own", len(own), c.own)
		if c.own == 2 {
			Equal(t, "the first", own[0], quota.Event{ID: string(first.Send.ID[:]), At: first.Now})
		}
	}
	one = f.Intent(2, func(in *store.Intent) { in.Verification.Replaces = make([]string, store.MaxReplacedIDs+1) })
	Is(t, Err(f.Begin(t.Context(), one)), store.ErrBadRequest)
}
