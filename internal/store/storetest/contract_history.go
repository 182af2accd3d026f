package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// bucketHistory: what counts for a recipient under a policy, on the log's clock, whatever clock it was taken on.
func bucketHistory(t *testing.T, f *Fixture) {
	first := f.Admit(t, f.Intent(1, TakenAt("redis", Epoch.Add(-time.Hour))))
	f.Pass(time.Second)
	second := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Purpose = in.Purposes[len(in.Purposes)-1] }))
	f.Admit(t, f.Intent(2))
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Refund: true})
	OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(1, nil)}))
	f.Pass(time.Second)

	in := f.Intent(1)
	b := store.Bucket{App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, Purposes: in.Purposes}
	read := func(within time.Duration) []quota.Event {
		t.Helper()
		events, now := Must2(f.History(t.Context(), b, within))(t)
		Equal(t, "now", now, second.Send.LoggedAt.Add(time.Second))
		return events
	}
	event := func(s store.Send) quota.Event { return quota.Event{ID: string(s.ID[:]), At: s.LoggedAt} }
	Equal(t, "all", read(time.Hour), []quota.Event{event(first.Send), event(second.Send)})
	Equal(t, "younger than 2 s", read(2*time.Second), []quota.Event{event(second.Send)})
	other := b
	for what, change := range map[string]func(){
		"app": func() { b.App = "another" }, "channel": func() { b.Channel = recipient.SMS },
		"recipient": func() { b.Recipient[0] = 9 }, "purpose": func() { b.Purposes = []string{"gift"} },
	} {
		b = other
		change()
		Equal(t, "another "+what, len(read(time.Hour)), 0)
	}
	at := f.Now.Add(5 * time.Second) // of a limiter whose clock is ahead
	events, _ := Must2(f.HistoryAt(t.Context(), other, 2*time.Hour, "redis", at))(t)
	Equal(t, "on the limiter's clock", events, []quota.Event{
		{ID: string(first.Send.ID[:]), At: at.Add(-2*time.Second - gate.MaxClockSkew)}, {ID: string(second.Send.ID[:]), At: at.Add(-time.Second)},
	})
	at = first.Send.TakenAt.Add(time.Second)
	events, _ = Must2(f.HistoryAt(t.Context(), other, 2*time.Hour, "redis", at))(t)
	Equal(t, "on a limiter's clock that went back", events[0], quota.Event{ID: string(first.Send.ID[:]), At: first.Send.TakenAt})
}
