package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
)

func beginWrites(t *testing.T, f *Fixture) {
	in := f.Intent(1, WithRules(DefaultRules))
	in.Send.Observed = []string{"office", "stricter"}
	in.Verification.Alphabet, in.Verification.Holder = "unambiguous", "s:1"
	in.TTL, in.Lease = in.TTL+999, in.Lease+999 // both databases have whole microseconds
	// Begin overwrites these fields, whatever the caller sets.
	in.Verification.Locale, in.Verification.App, in.Verification.Attempts, in.Verification.Sends = "ignored", "ignored", 3, 3
	in.Verification.ApprovedAt, in.Verification.CanceledAt, in.Verification.AttemptsReset = f.Now, f.Now, 3
	in.Send.Status, in.Send.Attempt, in.Send.Reason = store.Failed, 7, "ignored"
	got := f.Admit(t, in)

	v := store.Verification{
		ID: in.Verification.ID, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: in.Send.Recipient,
		To: "a•••@example.com", Sealed: []byte{0, 1, 255}, Holder: "s:1", Nonce: []byte("0123456789abcdef"), KeyID: "k1",
		CodeLength: 6, Alphabet: "unambiguous", Locale: "en", Labels: store.Labels{Reference: "order 7"}, CreatedAt: f.Now,
		ExpiresAt: f.Now.Add(10 * time.Minute), MaxAttempts: 5, Sends: 1,
	}
	s := store.Send{
		ID: in.Send.ID, VerificationID: v.ID, Number: 1, App: "shop", Channel: recipient.Email, Purpose: "login",
		Recipient: in.Send.Recipient, To: "a•••@example.com", Locale: "en", Labels: store.Labels{Reference: "order 7"},
		Network: "192.0.2.0/24",
		Status:  store.Sending, Attempt: 1, Counts: true, LoggedAt: f.Now,
		DueAt: f.Now.Add(8 * time.Second), Observed: []string{"office", "stricter"},
	}
	Equal(t, "begun", got, store.BeginAnswer{Admitted: true, Verification: v, Send: s, Now: f.Now})
	Equal(t, "row", f.Row(t, s.ID), RowOf(s))
	read, newest, now := Must3(f.Verification(t.Context(), v.ID))(t)
	Equal(t, "verification, newest send, clock", []any{read, newest, now}, []any{v, s, f.Now})
	read, now = must2(f.VerificationRow(t.Context(), v.ID))(t)
	Equal(t, "verification alone, clock", []any{read, now}, []any{v, f.Now})
}

func onlyBucketsSendsCount(t *testing.T, f *Fixture) {
	one := WithRules(Rule(1, time.Hour))
	f.Admit(t, f.Intent(1, one))
	other := func(change func(*store.Intent)) { t.Helper(); f.Admit(t, f.Intent(1, one, change)) }
	other(func(in *store.Intent) { in.Send.App = "other" })
	other(func(in *store.Intent) { in.Send.Channel = recipient.SMS })
	other(func(in *store.Intent) { in.Send.Recipient[0] = 1 })
	other(func(in *store.Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift", "gifts", "log"} })
	f.Refuse(t, f.Intent(1, one, func(in *store.Intent) { in.Send.Purpose = "signup" })) // shares login's policy
	f.Refuse(t, f.Intent(1, one, func(in *store.Intent) { in.Send.Purpose, in.Purposes = "new", []string{"gift", "new"} }))
	f.Admit(t, f.Intent(1, one, func(in *store.Intent) { in.Send.Purpose, in.Purposes = "new", []string{"new"} }))
}

func repeatedBegin(t *testing.T, f *Fixture) {
	in := f.Intent(1, WithRules(DefaultRules))
	in.Send.Observed = []string{"office"}
	first := f.Admit(t, in)
	f.Pass(time.Second)
	again := f.MustBegin(t, in)
	Equal(t, "told to be so", again.Repeated && !first.Repeated, true)
	again.Repeated = false
	Equal(t, "repeated", again, first)
	Equal(t, "rows", len(f.All(t)), 1)

	f.End(t, in.Send.ID, store.Outcome{Status: store.Failed, Reason: "rejected", Provider: "mx", ProviderCode: "550", Refund: true})
	Equal(t, "repeated after its end", f.MustBegin(t, in).Send, first.Send)

	in.Send.Recipient[0] ^= 1
	Is(t, Err(f.Begin(t.Context(), in)), store.ErrBadRequest)
}

// badIntents tries texts and purposes that a request could contain, but that a database cannot
// store or would confuse with others. It also tries callers' codes and holders that do not fit
// their verification.
func badIntents(t *testing.T, f *Fixture) {
	for name, change := range map[string]func(*store.Intent){
		"foreign purpose":  func(in *store.Intent) { in.Send.Purpose = "gift" },
		"NUL":              func(in *store.Intent) { in.Send.Reference = "a\x00b" },
		"not UTF-8":        func(in *store.Intent) { in.Send.Locale = "\xff" },
		"joined purposes":  func(in *store.Intent) { in.Purposes = append(in.Purposes, "a"+store.PurposeSeparator+"b") },
		"NUL in a purpose": func(in *store.Intent) { in.Purposes = append(in.Purposes, "a\x00") },
		"browser's holder": func(in *store.Intent) { in.Verification.Class, in.Verification.Holder = store.KnownBrowser, "s:1" },
		"code of nobody":   func(in *store.Intent) { in.Code = []byte("sealed") },
		"caller's no code": func(in *store.Intent) { in.Verification.CallerChecks = true },
		"code of another": func(in *store.Intent) {
			in.Verification.CallerChecks, in.Code, in.Join = true, []byte("sealed"), "v"
		},
		"long":            func(in *store.Intent) { in.Verification.Holder = strings.Repeat("x", store.MaxTextBytes+1) },
		"NUL in the join": func(in *store.Intent) { in.Join = "\x00" },
		"observed comma":  func(in *store.Intent) { in.Send.Observed = []string{"a,b"} },
		"observed NUL":    func(in *store.Intent) { in.Send.Observed = []string{"a", "b\x00"} },
	} {
		_, err := f.Begin(t.Context(), f.Intent(1, change))
		if !errors.Is(err, store.ErrBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	Equal(t, "rows", len(f.All(t)), 0)
}

// Both returns the fixture's database for even i, and the replica for odd i.
func (f *Fixture) Both(i int) *sqldb.DB { return []*sqldb.DB{f.DB, f.Replica}[i%2] }

// mixedRecipients begins sends of many recipients at once. Each recipient gets as many sends as its
// limit allows.
func mixedRecipients(t *testing.T, f *Fixture) {
	const recipients, each = 19, 12 // recipients is odd, so that each has sends on both replicas
	begun, _ := f.BeginAll(t, recipients*each, func(i int) store.Intent {
		in := f.Intent(i%recipients, WithRules(Rule(7, time.Hour)))
		in.Verification.Holder = fmt.Sprint("s:", i/recipients%2) // joins and openings race too
		return in
	})
	for _, b := range begun {
		Equal(t, "events told to one that is refused", !b.Admitted && len(b.History) != 7, false)
	}
	count, numbers := map[recipient.Hash]int{}, map[string][]int{}
	for _, s := range f.All(t) {
		count[s.Recipient]++
		numbers[s.VerificationID] = append(numbers[s.VerificationID], s.Number)
	}
	for i := range recipients {
		Equal(t, fmt.Sprint("sends of recipient ", i), count[recipient.Hash{15: byte(i)}], 7)
	}
	for id, list := range numbers {
		slices.Sort(list)
		Equal(t, "numbers of "+id, list, []int{1, 2, 3, 4, 5, 6, 7}[:len(list)])
	}
	if len(numbers) != recipients*2 { // 7 of 12 sends are admitted, and each holder has 6, so both holders have a send
		t.Errorf("%d verifications, wanted one for each recipient and holder", len(numbers))
	}
}

// joinRows vary the conditions under which a send of holder s:1 joins a verification.
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
	{name: "approved", before: func(t *testing.T, f *Fixture, v store.Verification) { f.approve(t, v.ID) }},
	{name: "canceled", before: func(t *testing.T, f *Fixture, v store.Verification) { cancel(t, f, v.ID) }},
	{name: "one try left", joins: true, before: func(t *testing.T, f *Fixture, v store.Verification) { useTries(t, f, v.ID, 4) }},
	{name: "no try left", before: func(t *testing.T, f *Fixture, v store.Verification) { useTries(t, f, v.ID, 5) }},
	{name: "just enough life", joins: true, before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(8 * time.Minute) }},
	{name: "by a rule of more than a day", joins: true, change: WithRules(Rule(2, 30*time.Hour))},
	{
		name:   "1 µs too little life",
		before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(8*time.Minute + time.Microsecond) },
	},
	{
		name: "expired, no life asked for", change: func(in *store.Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(10 * time.Minute) },
	},
	{
		name: "last instant, no life asked for", joins: true, change: func(in *store.Intent) { in.MinLife = 0 },
		before: func(_ *testing.T, f *Fixture, _ store.Verification) { f.Pass(10*time.Minute - time.Microsecond) },
	},
	{name: "other details", change: func(in *store.Intent) { in.Verification.Details = "Pay 40.00 EUR" }},
	{name: "refunded sends do not matter", joins: true, before: func(t *testing.T, f *Fixture, v store.Verification) {
		_, s, _ := Must3(f.Verification(t.Context(), v.ID))(t)
		Must(f.Finish(t.Context(), store.Outcome{AttemptID: Held(s.ID, 1), Status: store.Failed, Refund: true}))(t)
	}},
}

func heldBy(holder string) func(*store.Intent) {
	return func(in *store.Intent) { in.Verification.Holder = holder }
}

// strangersJoinNone checks that a send for a back end's stranger opens a verification of its own,
// unless the send names a verification or has the same session.
func strangersJoinNone(t *testing.T, f *Fixture) {
	first := f.Admit(t, f.Intent(1, heldBy("s:1"), byBrowser))
	for _, change := range []func(*store.Intent){heldBy("s:2"), heldBy("random"), heldBy("random")} {
		in := f.Intent(1, change, byBrowser)
		Equal(t, "opened", f.Admit(t, in).Verification.ID, in.Verification.ID)
	}
	in := f.Intent(1, heldBy("s:2"), byBrowser, Joining(first.Verification.ID))
	Equal(t, "named", f.Admit(t, in).Verification.ID, first.Verification.ID)
	in = f.Intent(1, heldBy("s:1"), byBrowser)
	Equal(t, "of the session", f.Admit(t, in).Verification.ID, first.Verification.ID)
}

// holdersSendsCount checks that a holder's send counts for a rule until the rule's window ends or
// the send is refunded, even if the window is longer than rowrules.ResendWithin.
func holdersSendsCount(t *testing.T, f *Fixture) {
	for n, window := range []time.Duration{time.Hour, rowrules.ResendWithin + time.Hour} {
		intent := func() store.Intent { return f.Intent(n, WithRules(Rule(1, window)), heldBy("s:1")) }
		first := f.Admit(t, intent()).Send.ID
		f.Refuse(t, intent())
		f.MustFinish(t, store.Outcome{AttemptID: Held(first, 1), Status: store.Failed, Refund: true}, true)
		f.Admit(t, intent())
		f.Pass(window - time.Microsecond)
		f.Refuse(t, intent())
		f.Pass(time.Microsecond)
		f.Admit(t, intent())
	}
}

func cancel(t *testing.T, f *Fixture, id string) {
	t.Helper()
	Equal(t, "canceled", Must(f.Cancel(t.Context(), id))(t), true)
}

func useTries(t *testing.T, f *Fixture, id string, n int) {
	t.Helper()
	for range n {
		Equal(t, "counted", Must(f.Check(t.Context(), Wrong(id)))(t).Counted, true)
	}
}

// joins tries each case of joinRows twice: with the verification's ID, and with the holder. The
// second send must get the code and the life of the first send, or a verification of its own.
func joins(t *testing.T, f *Fixture) {
	held := heldBy("s:1")
	for n, c := range append(joinRows, joinRows...) {
		first := f.Admit(t, f.Intent(n, held))
		if c.before != nil {
			c.before(t, f, first.Verification)
		}
		in := f.Intent(n, held)
		if n < len(joinRows) {
			in.Join, in.Verification.Holder = first.Verification.ID, ""
		}
		if c.change != nil {
			c.change(&in)
		}
		got := f.Admit(t, in)
		v, id, number := got.Verification, in.Verification.ID, 1
		if c.joins {
			id, number = first.Verification.ID, 2
			Equal(t, c.name+": life and code", []any{v.ExpiresAt, v.Nonce}, []any{first.Verification.ExpiresAt, first.Verification.Nonce})
		}
		Equal(t, c.name+": joined", []any{v.ID, got.Send.VerificationID, got.Send.Number, v.Sends, v.App},
			[]any{id, id, number, number, in.Send.App})
	}
}
