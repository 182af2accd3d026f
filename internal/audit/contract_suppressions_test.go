package audit

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// address is the very address of spelling n.
func address(n byte) recipient.Hash { return recipient.Hash{0: 0xad, 15: n} }

func to(n byte) func(*Intent) { return func(in *Intent) { in.Address = address(n) } }

// suppress adds a suppression by hand.
func (f *fixture) suppress(t *testing.T, n byte, lasts time.Duration, changes ...func(*Suppression)) Suppression {
	t.Helper()
	f.serial++
	s := Suppression{
		ID: uuid.UUID{5: byte(f.serial), 6: 0x70, 8: 0x80}, Channel: recipient.Email, Address: address(n), Recipient: recipient.Hash{15: n},
		To: "a•••@example.com", Cause: Manual, Detail: "asked by telephone", By: "ops",
	}
	for _, change := range changes {
		change(&s)
	}
	got, added, err := f.Suppress(t.Context(), s, lasts, nil)
	ok(t, err)
	equal(t, "added", added, true)
	s.Since, s.Until = f.now, f.now.Add(lasts)
	equal(t, "suppression", got, s)
	return got
}

func (f *fixture) suppressions(t *testing.T, filter SuppressionFilter) []Suppression {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = maxPage
	}
	list, now, err := f.Suppressions(t.Context(), filter)
	ok(t, err)
	equal(t, "clock", now, f.now)
	return list
}

// meets begins a send, which is let in whatever it meets.
func (f *fixture) meets(t *testing.T, want uuid.UUID, changes ...func(*Intent)) Send {
	t.Helper()
	begun := f.admit(t, f.intent(1, changes...))
	equal(t, "suppression met", begun.Send.Suppression, want)
	equal(t, "row", f.row(t, begun.Send.ID), begun.Send)
	return begun.Send
}

func suppressed(t *testing.T, f *fixture) {
	f.meets(t, uuid.Nil, to(1))
	s := f.suppress(t, 1, time.Hour)
	row := f.meets(t, s.ID, to(1))
	f.meets(t, uuid.Nil, to(2))
	f.meets(t, uuid.Nil) // no address is known
	f.meets(t, uuid.Nil, to(1), func(in *Intent) { in.Send.Channel = recipient.SMS })
	f.meets(t, s.ID, to(1), func(in *Intent) { in.Send.App = "desk" })
	f.meets(t, s.ID, to(1), func(in *Intent) { in.Send.Purpose = "signup" })

	again, err := f.Story(t.Context(), row.ID)
	ok(t, err)
	equal(t, "story", again.Suppressions, []Suppression{s})

	f.pass(time.Hour - time.Microsecond)
	f.meets(t, s.ID, to(1))
	f.pass(time.Microsecond)
	f.meets(t, uuid.Nil, to(1))
}

func suppressedForAnApp(t *testing.T, f *fixture) {
	shop := f.suppress(t, 1, time.Hour, func(s *Suppression) { s.App = "shop" })
	f.meets(t, shop.ID, to(1))
	f.meets(t, uuid.Nil, to(1), func(in *Intent) { in.Send.App = "desk" })
	longer := f.suppress(t, 1, 2*time.Hour) // of every app: the one that lasts longest is named
	f.suppress(t, 1, time.Minute)
	f.meets(t, longer.ID, to(1))
	equal(t, "lifted", f.lift(t, Lifting{Channel: recipient.Email, Address: address(1), App: "shop"}), 1)
	f.meets(t, longer.ID, to(1))
	equal(t, "lifted", f.lift(t, Lifting{Channel: recipient.Email, Address: address(1)}), 2)
	f.meets(t, uuid.Nil, to(1))
}

func (f *fixture) lift(t *testing.T, l Lifting) int {
	t.Helper()
	list, err := f.Lift(t.Context(), l, nil)
	ok(t, err)
	for _, s := range list {
		equal(t, "lifted at", s.LiftedAt, f.now)
	}
	return len(list)
}

// What Begin met stays with the send, whoever takes it over and whatever is lifted meanwhile.
func suppressedTakenOver(t *testing.T, f *fixture) {
	s := f.suppress(t, 1, time.Hour)
	in := f.intent(1, to(1))
	first := f.admit(t, in)
	_, err := f.Postpone(t.Context(), Postponement{Held: Held{first.Send.ID, 1}, Reason: "backlog"})
	ok(t, err)
	f.lift(t, Lifting{Channel: recipient.Email, Address: address(1)})
	work := f.takeOver(t, 10)
	equal(t, "taken over", work[0].Send.Suppression, s.ID)
	f.finish(t, Outcome{Held: Held{first.Send.ID, 2}, Status: Failed, Reason: ReasonSuppressed, Refund: true}, true)
	again := f.admit(t, in)
	equal(t, "repeated", again.Repeated, true)
	equal(t, "as it was written", again.Send, first.Send)
}

// A failure that shows that there is no such mailbox suppresses, in the statement that ends the send.
func bounceSuppresses(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(7, to(1)))
	f.pass(time.Second)
	o := Outcome{
		Held: Held{begun.Send.ID, 2}, Status: Failed, Reason: ReasonRejected, Refund: true, Provider: "mx", ProviderCode: "550 5.1.1",
		Bar: Bar{HardBounce, address(1), 2*time.Hour + 3},
	}
	f.finish(t, o, false) // another attempt holds it
	equal(t, "suppressions", len(f.suppressions(t, SuppressionFilter{})), 0)
	o.Attempt = 1
	f.finish(t, o, true)
	want := Suppression{
		ID: SuppressionID(begun.Send.ID, HardBounce), App: "shop", Channel: recipient.Email, Address: address(1), Recipient: begun.Send.Recipient,
		To: "a•••@example.com", Cause: HardBounce, Detail: "550 5.1.1", Send: begun.Send.ID, Since: f.now, Until: f.now.Add(2 * time.Hour),
	}
	equal(t, "suppressions", f.suppressions(t, SuppressionFilter{}), []Suppression{want})
	equal(t, "ended", f.row(t, begun.Send.ID).Status, Failed)
	story, err := f.Story(t.Context(), begun.Send.ID)
	ok(t, err)
	equal(t, "story", story.Suppressions, []Suppression{want})
	f.meets(t, want.ID, to(1))
	f.meets(t, uuid.Nil, to(2)) // another spelling of what may be one mailbox
	f.finish(t, o, false)

	// The same again, from an event: it is one row, and stays lifted.
	f.lift(t, Lifting{Channel: recipient.Email, Address: address(1), By: "ops", Why: "mended"})
	got, added, err := f.Suppress(t.Context(), Suppression{ID: want.ID, Channel: recipient.Email, Address: address(1), Cause: HardBounce}, time.Hour, nil)
	ok(t, err)
	want.LiftedAt, want.LiftedBy, want.LiftedWhy = f.now, "ops", "mended"
	equal(t, "added", added, false)
	equal(t, "as it is", got, want)
	f.meets(t, uuid.Nil, to(1))
}

// Several outcomes share a statement; each bars its own address, or nobody's.
func bouncesTogether(t *testing.T, f *fixture) {
	var sends []Send
	for n := range 12 {
		sends = append(sends, f.admit(t, f.intent(n+1, to(byte(n+1)))).Send)
	}
	together(len(sends), func(i int) {
		o := Outcome{Held: Held{sends[i].ID, 1}, Status: Sent}
		if i%2 == 0 {
			o.Status, o.Bar = Failed, Bar{OptOut, address(byte(i + 1)), time.Hour}
		}
		if done, err := f.Finish(t.Context(), o); err != nil || !done {
			t.Error(done, err)
		}
	})
	list := f.suppressions(t, SuppressionFilter{Active: true})
	equal(t, "suppressions", len(list), 6)
	for _, s := range list {
		if s.Cause != OptOut || s.ID != SuppressionID(s.Send, OptOut) || s.Address != address(s.Recipient[15]) || s.Recipient[15]%2 != 1 {
			t.Errorf("%s of %s", s.Address, s.Recipient)
		}
	}
}

func suppressionList(t *testing.T, f *fixture) {
	old := f.suppress(t, 1, time.Minute)
	f.pass(time.Minute)
	a := f.suppress(t, 1, time.Hour)
	b := f.suppress(t, 2, time.Hour)
	f.pass(time.Second)
	c := f.suppress(t, 3, time.Hour)
	one, who := address(1), recipient.Hash{15: 1}
	for name, x := range map[string]struct {
		filter SuppressionFilter
		want   []Suppression
	}{
		"all":           {SuppressionFilter{}, []Suppression{c, b, a, old}},
		"active":        {SuppressionFilter{Active: true}, []Suppression{c, b, a}},
		"one recipient": {SuppressionFilter{Recipient: &who}, []Suppression{a, old}},
		"first page":    {SuppressionFilter{Limit: 2}, []Suppression{c, b}},
		"second page":   {SuppressionFilter{Limit: 2, Before: &Mark{At: b.Since, ID: b.ID}}, []Suppression{a, old}},
		"both":          {SuppressionFilter{Active: true, Recipient: &who}, []Suppression{a}},
	} {
		equal(t, name, f.suppressions(t, x.filter), x.want)
	}
	equal(t, "lifted", f.lift(t, Lifting{Channel: recipient.Email, Address: one, By: "ops\x00", Why: "x"}), 1)
	a.LiftedAt, a.LiftedBy, a.LiftedWhy = f.now, "ops\uFFFD", "x"
	equal(t, "afterwards", f.suppressions(t, SuppressionFilter{Recipient: &who}), []Suppression{a, old})
	equal(t, "active afterwards", f.suppressions(t, SuppressionFilter{Active: true}), []Suppression{c, b})
	for _, none := range []Lifting{{Channel: recipient.Email, Address: one}, {Channel: recipient.SMS, Address: b.Address}, {Channel: recipient.Email, Address: b.Address, App: "shop"}} {
		equal(t, "nothing to lift", f.lift(t, none), 0)
	}
	equal(t, "as it was lifted first", f.suppressions(t, SuppressionFilter{Recipient: &who})[0], a)
}

func badSuppressions(t *testing.T, f *fixture) {
	good := Suppression{ID: uuid.UUID{1}, Channel: recipient.Email, Address: address(1), Cause: Complaint}
	for _, change := range []func(*Suppression){
		func(s *Suppression) { s.ID = uuid.Nil }, func(s *Suppression) { s.Channel = "" }, func(s *Suppression) { s.Address = recipient.Hash{} },
		func(s *Suppression) { s.Cause = "mood" }, func(s *Suppression) { s.To = "a\x00" },
	} {
		s := good
		change(&s)
		_, _, err := f.Suppress(t.Context(), s, time.Hour, nil)
		is(t, err, ErrBadRequest)
	}
	_, _, err := f.Suppress(t.Context(), good, 0, nil)
	is(t, err, ErrBadRequest)
	for _, limit := range []int{0, maxPage + 1} {
		_, _, err = f.Suppressions(t.Context(), SuppressionFilter{Limit: limit})
		is(t, err, ErrBadRequest)
	}
	_, err = f.Lift(t.Context(), Lifting{Channel: recipient.Email}, nil)
	is(t, err, ErrBadRequest)
	held := Held{f.admit(t, f.intent(1)).Send.ID, 1}
	for _, o := range []Outcome{
		{Held: held, Status: Sent, Bar: Bar{HardBounce, address(1), time.Hour}}, {Held: held, Status: Failed, Bar: Bar{Cause: HardBounce, For: time.Hour}},
		{Held: held, Status: Failed, Bar: Bar{Address: address(1), For: time.Hour}},
	} {
		_, err := f.Finish(t.Context(), o)
		is(t, err, ErrBadRequest)
	}
}

// What was not even tried costs nothing, and is bounded with what was refused for good.
func untriedAreFailures(t *testing.T, f *fixture) {
	three := withRejections(3, time.Hour)
	for _, reason := range []string{ReasonRejected, ReasonSuppressed, ReasonPaused} {
		f.finish(t, Outcome{Held: Held{f.admit(t, f.intent(1, three)).Send.ID, 1}, Status: Failed, Reason: reason, Refund: true}, true)
	}
	equal(t, "failures", len(f.refuse(t, f.intent(1, three)).Rejected), 3)
	got, _, err := f.Rejected(t.Context(), Bucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1}, Purposes: []string{"login"}}, time.Hour)
	ok(t, err)
	equal(t, "read", len(got), 3)
}

// An act is written with what it changed, or neither.
func suppressionActs(t *testing.T, f *fixture) {
	act := func(n byte, what string) *Act {
		return &Act{ID: uuid.UUID{1, n, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: what, Channel: recipient.Email, Reason: "asked", Outcome: ActDone}
	}
	add := act(1, "suppression.add")
	add.Recipient, add.To = recipient.Hash{15: 1}, "a•••@example.com"
	s := Suppression{ID: uuid.UUID{1}, Channel: recipient.Email, Address: address(1), Recipient: recipient.Hash{15: 1}, To: "a•••@example.com", Cause: Manual, By: "mei"}
	_, _, err := f.Suppress(t.Context(), s, time.Hour, add)
	ok(t, err)
	f.pass(time.Second)
	lifted, err := f.Lift(t.Context(), Lifting{Channel: recipient.Email, Address: address(1), By: "mei", Why: "asked"}, act(2, "suppression.lift"))
	ok(t, err)
	equal(t, "lifted", len(lifted), 1)
	f.pass(time.Second)
	_, err = f.Lift(t.Context(), Lifting{Channel: recipient.Email, Address: address(1)}, act(3, "suppression.lift"))
	ok(t, err)

	list, err := f.Acts(t.Context(), ActFilter{Limit: 10})
	ok(t, err)
	none, lift := *act(3, "suppression.lift"), *act(2, "suppression.lift")
	none.At, none.Detail = f.now, "0"
	lift.At, lift.Detail, lift.Recipient, lift.To = f.now.Add(-time.Second), "1", recipient.Hash{15: 1}, "a•••@example.com"
	add.At = f.now.Add(-2 * time.Second)
	equal(t, "acts", list, []Act{none, lift, *add})

	bad := act(4, "")
	_, _, err = f.Suppress(t.Context(), Suppression{ID: uuid.UUID{2}, Channel: recipient.Email, Address: address(2), Cause: Manual}, time.Hour, bad)
	is(t, err, ErrBadRequest)
	_, err = f.Lift(t.Context(), Lifting{Channel: recipient.Email, Address: address(1)}, bad)
	is(t, err, ErrBadRequest)
	equal(t, "suppressions", len(f.suppressions(t, SuppressionFilter{})), 1)
}
