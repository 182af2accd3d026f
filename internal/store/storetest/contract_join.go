package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// joinRows are the conditions of a resend, one each, on top of a verification of recipient 1 that holder s:1 may resend.
var joinRows = []struct {
	name   string
	before func(t *testing.T, f *Fixture, v store.Verification)
	change func(*store.Intent)
	joins  bool
}{
	{name: "all as it should be", joins: true},
	{name: "another app", change: func(in *store.Intent) { in.Send.App = "other" }},
	{name: "another channel", change: func(in *store.Intent) { in.Send.Channel = recipient.SMS }},
	{name: "another recipient", change: func(in *store.Intent) { in.Send.Recipient[0] = 9 }},
	{name: "another purpose", change: func(in *store.Intent) { in.Send.Purpose = "signup" }},
	{name: "approved", before: func(t *testing.T, f *Fixture, v store.Verification) {
		f.approve(t, v.ID)
	}},
	{name: "canceled", before: func(t *testing.T, f *Fixture, v store.Verification) { cancel(t, f, v.ID) }},
	{name: "one try left", joins: true, before: func(t *testing.T, f *Fixture, v store.Verification) { useTries(t, f, v.ID, 4) }},
	{name: "no try left", before: func(t *testing.T, f *Fixture, v store.Verification) { useTries(t, f, v.ID, 5) }},
	{name: "just enough life", joins: true, before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(8 * time.Minute) }},
	{name: "1 µs too little life", before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(8*time.Minute + time.Microsecond) }},
	{name: "expired, no life asked for", change: func(in *store.Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(10 * time.Minute) }},
	{name: "last instant, no life asked for", joins: true, change: func(in *store.Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(10*time.Minute - time.Microsecond) }},
	{name: "refunded sends do not matter", joins: true, before: func(t *testing.T, f *Fixture, v store.Verification) {
		_, s, _ := Must3(f.Verification(t.Context(), v.ID))(t)
		Must(f.Finish(t.Context(), store.Outcome{Held: Held(s.ID, 1), Status: store.Failed, Refund: true}))(t)
	}},
}

func cancel(t *testing.T, f *Fixture, id string) {
	t.Helper()
	Equal(t, "canceled", Must(f.Cancel(t.Context(), id))(t), true)
}

func useTries(t *testing.T, f *Fixture, id string, n int) {
	t.Helper()
	for range n {
		_, counted, _ := Must3(f.Attempt(t.Context(), id))(t)
		Equal(t, "counted", counted, true)
	}
}

func joinByID(t *testing.T, f *Fixture) { joinCases(t, f, true) }

func joinByHolder(t *testing.T, f *Fixture) { joinCases(t, f, false) }

func joinCases(t *testing.T, f *Fixture, byID bool) {
	for n, c := range joinRows {
		held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
		first := f.Admit(t, f.Intent(n, held))
		if c.before != nil {
			c.before(t, f, first.Verification)
		}
		in := f.Intent(n, held)
		if byID {
			in.Join, in.Verification.Holder = first.Verification.ID, ""
		}
		if c.change != nil {
			c.change(&in)
		}
		got := f.Admit(t, in)
		checkJoin(t, c.name, c.joins, first, got, in)
	}
}

func checkJoin(t *testing.T, name string, joins bool, first, got store.Begun, in store.Intent) {
	t.Helper()
	v := got.Verification
	switch {
	case joins && (v.ID != first.Verification.ID || got.Send.Number != 2 || v.Sends != 2 || got.Send.VerificationID != v.ID):
		t.Errorf("%s: not joined: %s", name, Show(got))
	case joins && (!v.ExpiresAt.Equal(first.Verification.ExpiresAt) || string(v.Nonce) != string(first.Verification.Nonce)):
		t.Errorf("%s: joined, but another life or code: %s", name, Show(v))
	case !joins && (v.ID != in.Verification.ID || got.Send.Number != 1 || v.Sends != 1 || v.App != in.Send.App):
		t.Errorf("%s: joined, wanted a new one: %s", name, Show(got))
	}
}

func joinNewest(t *testing.T, f *Fixture) {
	held := func(holder string) func(*store.Intent) {
		return func(in *store.Intent) { in.Verification.Holder = holder }
	}
	older := f.Admit(t, f.Intent(1, held("s:1"), func(in *store.Intent) { in.TTL = time.Hour }))
	f.Pass(time.Second)
	// A second one of the same holder exists only once the first can't be joined.
	newer := f.Admit(t, f.Intent(1, held("s:1"), func(in *store.Intent) { in.MinLife = 2 * time.Hour }))
	f.Pass(time.Second)
	f.Admit(t, f.Intent(1, held("s:2")))
	f.Admit(t, f.Intent(1, held("")))
	Equal(t, "newest", f.Admit(t, f.Intent(1, held("s:1"))).Verification.ID, newer.Verification.ID)
	useTries(t, f, newer.Verification.ID, 5)
	Equal(t, "newest that can be joined", f.Admit(t, f.Intent(1, held("s:1"))).Verification.ID, older.Verification.ID)

	// The ID named decides alone, and an ID that can't be joined is not replaced by a holder's.
	named := f.Admit(t, f.Intent(1, held("s:1"), func(in *store.Intent) { in.Join = newer.Verification.ID }))
	Equal(t, "number of a new one", named.Send.Number, 1)
}

func joinOpens(t *testing.T, f *Fixture) {
	first := f.Admit(t, f.Intent(1))
	second := f.Admit(t, f.Intent(1)) // the first has no holder
	if first.Verification.ID == second.Verification.ID {
		t.Error("an empty holder joined")
	}
	third := f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Join = "no such id" }))
	Equal(t, "number", third.Send.Number, 1)
}
