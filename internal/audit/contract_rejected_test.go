package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

func failedAtMost(limit int, window time.Duration) quota.Rule {
	return quota.Rule{Name: "failures", Scope: quota.Failures, Limit: limit, Window: window}
}

func withRejections(limit int, window time.Duration) func(*Intent) {
	return func(in *Intent) { in.Rejections = failedAtMost(limit, window) }
}

// reject begins a send and has the mail server refuse it for good.
func (f *fixture) reject(t *testing.T, in Intent) {
	t.Helper()
	begun := f.admit(t, in)
	f.pass(time.Second) // it counts from its end
	f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
}

func rejectionsOfARecipient(t *testing.T, f *fixture) {
	two := withRejections(2, time.Hour)
	f.reject(t, f.intent(1, two))
	f.pass(10 * time.Minute)
	f.reject(t, f.intent(1, two, withRules(rule(1, 30*time.Hour)))) // its place was given back
	f.pass(time.Minute)
	in := f.intent(1, two, takenAt("redis", epoch))
	got := f.refuse(t, in)
	equal(t, "rejected", got.Rejected, []quota.Event{
		{ID: got.Rejected[0].ID, At: epoch.Add(-11*time.Minute - time.Second)}, {ID: got.Rejected[1].ID, At: epoch.Add(-time.Minute)},
	})
	equal(t, "history", len(got.History), 0)
	d := quota.Evaluate([]quota.Rule{in.Rejections}, map[quota.Scope][]quota.Event{quota.Failures: got.Rejected}, got.Now)
	equal(t, "wait", d.RetryAfter(), 49*time.Minute-time.Second)
	in = f.intent(1, withRejections(3, time.Hour), takenAt("redis", epoch)) // read with each request
	let := f.admit(t, in)
	equal(t, "rejected, told to the one that is let in", let.Rejected, got.Rejected)
	equal(t, "before", let.At, got.At)
	f.admit(t, f.intent(1)) // no rule
	f.pass(49*time.Minute - time.Second - time.Microsecond)
	f.refuse(t, f.intent(1, two))
	f.pass(time.Microsecond)
	f.admit(t, f.intent(1, two))
}

// Of every purpose of the recipient, and of nothing else.
func whoseRejectionsCount(t *testing.T, f *fixture) {
	one := withRejections(1, time.Hour)
	f.reject(t, f.intent(1))
	f.refuse(t, f.intent(1, one, func(in *Intent) { in.Send.Purpose = "gift"; in.Purposes = []string{"gift"} }))
	f.admit(t, f.intent(2, one))
	f.admit(t, f.intent(1, one, func(in *Intent) { in.Send.App = "desk" }))
	f.admit(t, f.intent(1, one, func(in *Intent) { in.Send.Channel = recipient.SMS }))
}

// Only what certainly was refused for good: not what is under way, unknown, sent, or failed of our own accord.
func whatIsNoRejection(t *testing.T, f *fixture) {
	one := withRejections(1, time.Hour)
	for _, o := range []Outcome{
		{Status: Sent, Reason: ReasonRejected}, {Status: Unknown, Reason: ReasonRejected}, {Status: Failed, Reason: "expired", Refund: true},
	} {
		o.Held = Held{f.admit(t, f.intent(1, one)).Send.ID, 1}
		f.finish(t, o, true)
	}
	waiting := f.admit(t, f.intent(1, one))
	_, err := f.Postpone(t.Context(), Postponement{Held: Held{waiting.Send.ID, 1}, Reason: ReasonRejected})
	ok(t, err)
	f.admit(t, f.intent(1, one))
	// A rejection in doubt keeps its place, and counts here all the same.
	f.takeOver(t, 1)
	f.pass(10 * time.Second)
	f.takeOver(t, 10)
	f.finish(t, Outcome{Held: Held{waiting.Send.ID, 3}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
	equal(t, "in doubt", f.row(t, waiting.Send.ID).InDoubt, true)
	f.refuse(t, f.intent(1, one))
}

// A clock that goes back frees nothing, and brings back what had left.
func rejectionsAndTheClock(t *testing.T, f *fixture) {
	one := withRejections(1, time.Hour)
	f.reject(t, f.intent(1))
	f.pass(-2 * time.Hour)
	got := f.refuse(t, f.intent(1, one))
	equal(t, "ahead", got.Rejected[0].At, f.now.Add(2*time.Hour))
	f.pass(3 * time.Hour)
	f.admit(t, f.intent(1, one))
}

func readRejected(t *testing.T, f *fixture) {
	one := f.intent(1)
	f.reject(t, one)
	f.pass(time.Minute)
	two := f.intent(1, func(in *Intent) { in.Send.Purpose = "gift"; in.Purposes = []string{"gift"} })
	f.reject(t, two)
	f.reject(t, f.intent(2))
	f.admit(t, f.intent(1))
	f.pass(time.Minute - time.Second)
	b := Bucket{App: "shop", Channel: recipient.Email, Recipient: one.Send.Recipient, Purposes: []string{"login"}}
	want := []quota.Event{{ID: string(one.Send.ID[:]), At: f.now.Add(-2*time.Minute - time.Second)}, {ID: string(two.Send.ID[:]), At: f.now.Add(-time.Minute)}}
	for within, n := range map[time.Duration]int{2*time.Minute + time.Second + time.Microsecond: 2, 2*time.Minute + time.Second: 1, 59 * time.Second: 0} {
		got, now, err := f.Rejected(t.Context(), b, within)
		ok(t, err)
		equal(t, "rejected", got, want[2-n:])
		equal(t, "clock", now, f.now)
		var all []Counting
		ok(t, f.AllRejected(t.Context(), within, func(c Counting) error { all = append(all, c); return nil }))
		equal(t, "all", len(all), []int{0, 2, 3}[n])
		if n == 2 {
			equal(t, "the first", all[0], Counting{
				App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: one.Send.Recipient, Event: want[0], Clock: LogClock,
			})
		}
	}
	_, _, err := f.Rejected(t.Context(), Bucket{}, time.Hour)
	is(t, err, ErrBadRequest)
	is(t, f.AllRejected(t.Context(), time.Hour, func(Counting) error { return ErrNotFound }), ErrNotFound)
}
