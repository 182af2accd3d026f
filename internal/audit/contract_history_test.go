package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// bucketHistory: what counts for a recipient under a policy, on the log's clock, whatever clock it was taken on.
func bucketHistory(t *testing.T, f *fixture) {
	first := f.admit(t, f.intent(1, takenAt("redis", epoch.Add(-time.Hour))))
	f.pass(time.Second)
	second := f.admit(t, f.intent(1, func(in *Intent) { in.Send.Purpose = in.Purposes[len(in.Purposes)-1] }))
	f.admit(t, f.intent(2))
	gone := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{gone.Send.ID, 1}, Status: Failed, Refund: true}, true)
	ok(t, f.Refused(t.Context(), []Send{f.refusal(1, nil)}))
	f.pass(time.Second)

	in := f.intent(1)
	b := Bucket{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purposes: in.Purposes}
	read := func(within time.Duration) []quota.Event {
		t.Helper()
		events, now, err := f.History(t.Context(), b, within)
		ok(t, err)
		equal(t, "now", now, second.Send.LoggedAt.Add(time.Second))
		return events
	}
	event := func(s Send) quota.Event { return quota.Event{ID: string(s.ID[:]), At: s.LoggedAt} }
	equal(t, "all", read(time.Hour), []quota.Event{event(first.Send), event(second.Send)})
	equal(t, "younger than 2 s", read(2*time.Second), []quota.Event{event(second.Send)})
	other := b
	for what, change := range map[string]func(){
		"app": func() { b.App = "another" }, "channel": func() { b.Channel = recipient.SMS },
		"recipient": func() { b.Recipient[0] = 9 }, "purpose": func() { b.Purposes = []string{"gift"} },
	} {
		b = other
		change()
		equal(t, "another "+what, len(read(time.Hour)), 0)
	}
	at := f.now.Add(5 * time.Second) // of a limiter whose clock is ahead
	events, _, err := f.HistoryAt(t.Context(), other, 2*time.Hour, "redis", at)
	ok(t, err)
	equal(t, "on the limiter's clock", events, []quota.Event{
		{ID: string(first.Send.ID[:]), At: at.Add(-2*time.Second - lead)}, {ID: string(second.Send.ID[:]), At: at.Add(-time.Second)},
	})
	at = first.Send.TakenAt.Add(time.Second)
	events, _, err = f.HistoryAt(t.Context(), other, 2*time.Hour, "redis", at)
	ok(t, err)
	equal(t, "on a limiter's clock that went back", events[0], quota.Event{ID: string(first.Send.ID[:]), At: first.Send.TakenAt})
	for _, bad := range []Bucket{{}, {App: "a", Channel: "b"}, {Purposes: []string{"\x00"}}} {
		_, _, err := f.History(t.Context(), bad, time.Hour)
		is(t, err, ErrBadRequest)
	}
}
