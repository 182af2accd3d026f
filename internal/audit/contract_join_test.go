package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
)

// joinRows are the conditions of a resend, one each, on top of a verification of recipient 1 that holder s:1 may resend.
var joinRows = []struct {
	name   string
	before func(t *testing.T, f *fixture, v Verification)
	change func(*Intent)
	joins  bool
}{
	{name: "all as it should be", joins: true},
	{name: "another app", change: func(in *Intent) { in.Send.App = "other" }},
	{name: "another channel", change: func(in *Intent) { in.Send.Channel = recipient.SMS }},
	{name: "another recipient", change: func(in *Intent) { in.Send.Recipient[0] = 9 }},
	{name: "another purpose", change: func(in *Intent) { in.Send.Purpose = "signup" }},
	{name: "approved", before: func(t *testing.T, f *fixture, v Verification) {
		won, err := f.Approve(t.Context(), v.ID, Tell{})
		ok(t, err)
		equal(t, "approved", won, true)
	}},
	{name: "canceled", before: func(t *testing.T, f *fixture, v Verification) { cancel(t, f, v.ID) }},
	{name: "one try left", joins: true, before: func(t *testing.T, f *fixture, v Verification) { tries(t, f, v.ID, 4) }},
	{name: "no try left", before: func(t *testing.T, f *fixture, v Verification) { tries(t, f, v.ID, 5) }},
	{name: "just enough life", joins: true, before: func(_ *testing.T, f *fixture, _ Verification) { f.pass(8 * time.Minute) }},
	{name: "1 µs too little life", before: func(_ *testing.T, f *fixture, _ Verification) { f.pass(8*time.Minute + time.Microsecond) }},
	{name: "expired, no life asked for", change: func(in *Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *fixture, _ Verification) { f.pass(10 * time.Minute) }},
	{name: "last instant, no life asked for", joins: true, change: func(in *Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *fixture, _ Verification) { f.pass(10*time.Minute - time.Microsecond) }},
	{name: "refunded sends do not matter", joins: true, before: func(t *testing.T, f *fixture, v Verification) {
		_, s, _, err := f.Verification(t.Context(), v.ID)
		ok(t, err)
		_, err = f.Finish(t.Context(), Outcome{Held: Held{s.ID, 1}, Status: Failed, Refund: true})
		ok(t, err)
	}},
}

func cancel(t *testing.T, f *fixture, id string) {
	t.Helper()
	done, err := f.Cancel(t.Context(), id)
	ok(t, err)
	equal(t, "canceled", done, true)
}

func tries(t *testing.T, f *fixture, id string, n int) {
	t.Helper()
	for range n {
		_, counted, _, err := f.Attempt(t.Context(), id)
		ok(t, err)
		equal(t, "counted", counted, true)
	}
}

func joinByID(t *testing.T, f *fixture)     { joinCases(t, f, true) }
func joinByHolder(t *testing.T, f *fixture) { joinCases(t, f, false) }

func joinCases(t *testing.T, f *fixture, byID bool) {
	for n, c := range joinRows {
		held := func(in *Intent) { in.Verification.Holder = "s:1" }
		first := f.admit(t, f.intent(n, held))
		if c.before != nil {
			c.before(t, f, first.Verification)
		}
		in := f.intent(n, held)
		if byID {
			in.Join, in.Verification.Holder = first.Verification.ID, ""
		}
		if c.change != nil {
			c.change(&in)
		}
		got := f.admit(t, in)
		checkJoin(t, c.name, c.joins, first, got, in)
	}
}

func checkJoin(t *testing.T, name string, joins bool, first, got Begun, in Intent) {
	t.Helper()
	v := got.Verification
	switch {
	case joins && (v.ID != first.Verification.ID || got.Send.Number != 2 || v.Sends != 2 || got.Send.VerificationID != v.ID):
		t.Errorf("%s: not joined: %s", name, show(got))
	case joins && (!v.ExpiresAt.Equal(first.Verification.ExpiresAt) || string(v.Nonce) != string(first.Verification.Nonce)):
		t.Errorf("%s: joined, but another life or code: %s", name, show(v))
	case !joins && (v.ID != in.Verification.ID || got.Send.Number != 1 || v.Sends != 1 || v.App != in.Send.App):
		t.Errorf("%s: joined, wanted a new one: %s", name, show(got))
	}
}

func joinNewest(t *testing.T, f *fixture) {
	held := func(holder string) func(*Intent) {
		return func(in *Intent) { in.Verification.Holder = holder }
	}
	older := f.admit(t, f.intent(1, held("s:1"), func(in *Intent) { in.Life = time.Hour }))
	f.pass(time.Second)
	// A second one of the same holder exists only once the first can't be joined.
	newer := f.admit(t, f.intent(1, held("s:1"), func(in *Intent) { in.MinLife = 2 * time.Hour }))
	f.pass(time.Second)
	f.admit(t, f.intent(1, held("s:2")))
	f.admit(t, f.intent(1, held("")))
	equal(t, "newest", f.admit(t, f.intent(1, held("s:1"))).Verification.ID, newer.Verification.ID)
	tries(t, f, newer.Verification.ID, 5)
	equal(t, "newest that can be joined", f.admit(t, f.intent(1, held("s:1"))).Verification.ID, older.Verification.ID)

	// The ID named decides alone, and an ID that can't be joined is not replaced by a holder's.
	named := f.admit(t, f.intent(1, held("s:1"), func(in *Intent) { in.Join = newer.Verification.ID }))
	equal(t, "number of a new one", named.Send.Number, 1)
}

func joinOpens(t *testing.T, f *fixture) {
	first := f.admit(t, f.intent(1))
	second := f.admit(t, f.intent(1)) // nobody holds the first
	if first.Verification.ID == second.Verification.ID {
		t.Error("an empty holder joined")
	}
	third := f.admit(t, f.intent(1, func(in *Intent) { in.Join = "no such id" }))
	equal(t, "number", third.Send.Number, 1)
}
