package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (f *fixture) hear(t *testing.T, want bool, e ProviderEvent, bar ...Bar) {
	t.Helper()
	got, err := f.Heard(t.Context(), e, append(bar, Bar{})[0])
	ok(t, err)
	equal(t, "recorded", got, want)
}

// Each kind is kept once, in whatever order they come; the worst is what lists say; no state moves, and nothing is given back.
func providerEvents(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1, withRules(rule(1, time.Hour))))
	id := begun.Send.ID
	f.finish(t, Outcome{Held: Held{id, 1}, Status: Sent, Provider: "mx", ProviderCode: "250"}, true)
	before := f.row(t, id)
	f.pass(time.Hour - time.Second)
	bounced := ProviderEvent{Send: id, Kind: ToldBounced, At: epoch.Add(time.Minute + 7), Provider: "postmark", Detail: "550 5.1.1\x00"}
	f.hear(t, true, bounced)
	f.hear(t, false, bounced)
	delivered := ProviderEvent{Send: id, Kind: ToldDelivered, At: epoch.Add(time.Second), Provider: "postmark"} // late
	f.hear(t, true, delivered)
	later := delivered
	later.At, later.Detail = epoch.Add(time.Hour), "again"
	f.hear(t, false, later)
	f.pass(time.Millisecond)
	ahead := ProviderEvent{Send: id, Kind: ToldComplained, At: f.now.Add(time.Hour), Provider: "other"} // its clock is wrong
	f.hear(t, true, ahead)
	silent := ProviderEvent{Send: id, Kind: ToldOptedOut, Provider: "other"} // tells no time
	f.hear(t, true, silent)

	story, err := f.Story(t.Context(), id)
	ok(t, err)
	at := f.now.Add(-time.Millisecond)
	bounced.At, bounced.HeardAt, bounced.Detail = epoch.Add(time.Minute), at, "550 5.1.1\uFFFD"
	delivered.HeardAt, ahead.At, ahead.HeardAt, silent.At, silent.HeardAt = at, f.now, f.now, f.now, f.now
	equal(t, "events", story.Events, []ProviderEvent{delivered, bounced, ahead, silent})
	before.Afterwards = ToldComplained
	equal(t, "row", story.Send, before)
	equal(t, "suppressions", len(story.Suppressions), 0)
	f.refuse(t, f.intent(1, withRules(rule(1, time.Hour)))) // its place stays spent
	again, err := f.Begin(t.Context(), f.intent(1, func(in *Intent) { in.Send.ID = id }))
	ok(t, err)
	equal(t, "as it was written", again.Send, begun.Send)

	refusal := f.refusal(1, nil)
	ok(t, f.Refused(t.Context(), []Send{refusal}))
	for _, none := range []uuid.UUID{{1}, refusal.ID} {
		_, err := f.Heard(t.Context(), ProviderEvent{Send: none, Kind: ToldDelivered}, Bar{})
		is(t, err, ErrNotFound)
	}
	for _, bad := range []ProviderEvent{{Kind: ToldDelivered}, {Send: id}, {Send: id, Kind: "opened"}} {
		_, err := f.Heard(t.Context(), bad, Bar{})
		is(t, err, ErrBadRequest)
	}
	for _, bad := range []Bar{{Cause: Complaint, For: 1000}, {Address: address(1), For: 1000}} {
		_, err := f.Heard(t.Context(), delivered, bad)
		is(t, err, ErrBadRequest)
	}
}

func eventsSuppress(t *testing.T, f *fixture) {
	id := f.admit(t, f.intent(1, to(1))).Send.ID
	bar := Bar{Cause: Complaint, Address: address(1), For: time.Hour}
	e := ProviderEvent{Send: id, Kind: ToldComplained, Provider: "postmark", Detail: "abuse"}
	f.hear(t, true, e, bar) // while it is still in flight
	want := Suppression{
		ID: SuppressionID(id, Complaint), App: "shop", Channel: "email", Address: address(1), Recipient: f.row(t, id).Recipient, To: "a•••@example.com",
		Cause: Complaint, Detail: "abuse", Send: id, Since: f.now, Until: f.now.Add(time.Hour),
	}
	equal(t, "suppressions", f.suppressions(t, SuppressionFilter{}), []Suppression{want})
	f.meets(t, want.ID, to(1))
	f.lift(t, Lifting{Channel: "email", Address: address(1)})
	f.pass(time.Second)
	f.hear(t, false, e, bar)
	f.meets(t, uuid.Nil, to(1))
	f.finish(t, Outcome{Held: Held{id, 1}, Status: Sent}, true)
	equal(t, "afterwards", f.row(t, id).Afterwards, ToldComplained)
}

// A provider that repeats itself on all replicas at once is heard once.
func eventsAtOnce(t *testing.T, f *fixture) {
	id := f.admit(t, f.intent(1, to(1))).Send.ID
	var recorded [24]bool
	kinds := toldKinds[1:]
	together(len(recorded), func(i int) {
		var err error
		e := ProviderEvent{Send: id, Kind: kinds[i%len(kinds)], Provider: "p"}
		if recorded[i], err = f.both(i).Heard(t.Context(), e, Bar{Cause: Complaint, Address: address(1), For: time.Hour}); err != nil {
			t.Error(err)
		}
	})
	n := len(slices.DeleteFunc(recorded[:], func(b bool) bool { return !b }))
	equal(t, "recorded", n, len(kinds))
	equal(t, "afterwards", f.row(t, id).Afterwards, ToldComplained)
	equal(t, "suppressions", len(f.suppressions(t, SuppressionFilter{})), 1)
}

// What was told goes with its send; a suppression goes once it has been over for as long.
func eventsExpire(t *testing.T, f *fixture) {
	id := f.admit(t, f.intent(1, to(1))).Send.ID
	f.finish(t, Outcome{Held: Held{id, 1}, Status: Sent}, true)
	f.hear(t, true, ProviderEvent{Send: id, Kind: ToldComplained, Provider: "p"}, Bar{Complaint, address(1), time.Minute})
	f.suppress(t, 2, 24*time.Hour)
	f.pass(time.Hour + maxLife + time.Second)
	f.expire(t, time.Hour, 10, 1)
	equal(t, "not yet: it held for a minute", len(f.suppressions(t, SuppressionFilter{})), 2)
	f.pass(time.Minute)
	f.expire(t, time.Hour, 10, 0)
	equal(t, "suppressions", len(f.suppressions(t, SuppressionFilter{})), 1)
	again := f.intent(1)
	again.Send.ID = id // as if it were another send: nothing of the old one is left
	f.admit(t, again)
	f.finish(t, Outcome{Held: Held{id, 1}, Status: Sent}, true)
	f.hear(t, true, ProviderEvent{Send: id, Kind: ToldComplained, Provider: "p"})
	f.pass(48 * time.Hour)
	f.expire(t, time.Hour, 10, 1)
	equal(t, "suppressions", len(f.suppressions(t, SuppressionFilter{})), 0)
}
