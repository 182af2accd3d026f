package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Address is the very address of spelling n.
func Address(n byte) recipient.Hash { return recipient.Hash{0: 0xad, 15: n} }

func to(n byte) func(*store.Intent) { return func(in *store.Intent) { in.Address = Address(n) } }

// suppress adds a suppression by hand.
func (f *Fixture) suppress(t *testing.T, n byte, lasts time.Duration,
	changes ...func(*store.Suppression)) store.Suppression {
	t.Helper()
	f.Serial++
	s := store.Suppression{
		ID: uuid.UUID{5: byte(f.Serial), 6: 0x70, 8: 0x80}, Channel: recipient.Email, Address: Address(n),
		Recipient: recipient.Hash{15: n},
		To:        "a•••@example.com", Cause: store.CauseManual, Detail: "asked by telephone", By: "ops",
	}
	for _, change := range changes {
		change(&s)
	}
	got, added := must2(f.Suppress(t.Context(), s, lasts, nil))(t)
	Equal(t, "added", added, true)
	s.Since, s.Until = f.Now, f.Now.Add(lasts)
	Equal(t, "suppression", got, s)
	return got
}

func (f *Fixture) suppressions(t *testing.T, filter store.SuppressionFilter) []store.Suppression {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = store.MaxPageRows
	}
	list, now := must2(f.Suppressions(t.Context(), filter))(t)
	Equal(t, "clock", now, f.Now)
	return list
}

// admitSuppressed begins a send, which is let in whatever it meets.
func (f *Fixture) admitSuppressed(t *testing.T, want uuid.UUID, changes ...func(*store.Intent)) store.Send {
	t.Helper()
	begun := f.Admit(t, f.Intent(1, changes...))
	Equal(t, "suppression met", begun.Send.Suppression, want)
	Equal(t, "row", f.Row(t, begun.Send.ID), RowOf(begun.Send))
	return begun.Send
}

// A failure that shows that there is no such mailbox suppresses, in the statement that ends the
// send.
func bounceSuppresses(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(7, to(1)))
	f.Pass(time.Second)
	o := store.Outcome{
		AttemptID: Held(begun.Send.ID, 2), Status: store.Failed, Reason: store.ReasonRejected, Refund: true, Provider: "mx",
		ProviderCode: "550 5.1.1",
		Suppress:     store.NewSuppression{Cause: store.CauseHardBounce, Address: Address(1), For: 2*time.Hour + 3},
	}
	f.MustFinish(t, o, false) // another attempt holds it
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 0)
	o.Attempt = 1
	f.MustFinish(t, o, true)
	want := store.Suppression{
		ID: store.SuppressionID(begun.Send.ID, store.CauseHardBounce), App: "shop", Channel: recipient.Email,
		Address:   Address(1),
		Recipient: begun.Send.Recipient,
		To:        "a•••@example.com", Cause: store.CauseHardBounce, Detail: "550 5.1.1", Send: begun.Send.ID, Since: f.Now,
		Until: f.Now.Add(2 * time.Hour), Server: "mx",
	}
	Equal(t, "suppressions", f.suppressions(t, store.SuppressionFilter{}), []store.Suppression{want})
	Equal(t, "ended", f.Row(t, begun.Send.ID).Status, store.Failed)
	Equal(t, "story", Must(f.SendDetails(t.Context(), begun.Send.ID))(t).Suppressions, []store.Suppression{want})
	f.admitSuppressed(t, want.ID, to(1))
	f.admitSuppressed(t, uuid.Nil, to(2)) // another spelling of what may be one mailbox
	f.admitSuppressed(t, uuid.Nil, to(1), func(in *store.Intent) { in.Send.App = "desk" })
	f.MustFinish(t, o, false)

	// The same again, from an event: it is one row, and stays lifted.
	lifted := Must(f.LiftSuppressions(t.Context(),
		store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1), By: "ops", Why: "mended"}, nil))(t)
	got, added := must2(f.Suppress(t.Context(),
		store.Suppression{ID: want.ID, Channel: recipient.Email, Address: Address(1),
			Cause: store.CauseHardBounce}, time.Hour, nil))(t)
	want.LiftedAt, want.LiftedBy, want.LiftedWhy = f.Now, "ops", "mended"
	Equal(t, "added", added, false)
	Equal(t, "lifted, and as it is", append(lifted, got), []store.Suppression{want, want})
	f.admitSuppressed(t, uuid.Nil, to(1))
}

func suppressionList(t *testing.T, f *Fixture) {
	old := f.suppress(t, 1, time.Minute)
	f.Pass(time.Minute)
	a, b := f.suppress(t, 1, time.Hour), f.suppress(t, 2, time.Hour)
	for name, x := range map[string]struct {
		filter store.SuppressionFilter
		want   []store.Suppression
	}{
		"all":           {store.SuppressionFilter{}, []store.Suppression{b, a, old}},
		"active":        {store.SuppressionFilter{ActiveOrHeld: true}, []store.Suppression{b, a}},
		"one recipient": {store.SuppressionFilter{Recipient: &recipient.Hash{15: 1}}, []store.Suppression{a, old}},
		"second page": {store.SuppressionFilter{Limit: 2, Before: &store.Cursor{At: b.Since, ID: b.ID}},
			[]store.Suppression{a, old}},
	} {
		Equal(t, name, f.suppressions(t, x.filter), x.want)
	}
	for _, app := range []string{"shop", ""} { // those of this app alone, or all that hold now
		lifted := Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: a.Address, App: app},
			nil))(t)
		Equal(t, "lifted", len(lifted), map[string]int{"": 1}[app])
	}
}

// An act is written with what it changed, or neither.
func suppressionActs(t *testing.T, f *Fixture) {
	act := func(n byte, what string) *store.AuditEntry {
		return &store.AuditEntry{ID: uuid.UUID{1, n, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: what,
			Channel: recipient.Email,
			Reason:  "asked", Outcome: store.AuditDone}
	}
	add := act(1, "suppression.add")
	add.Recipient, add.To = recipient.Hash{15: 1}, "a•••@example.com"
	s := store.Suppression{ID: uuid.UUID{1}, Channel: recipient.Email, Address: Address(1),
		Recipient: recipient.Hash{15: 1},
		To:        "a•••@example.com", Cause: store.CauseManual, By: "mei"}
	must2(f.Suppress(t.Context(), s, time.Hour, add))(t)
	f.Pass(time.Second)
	lifted := Must(f.LiftSuppressions(t.Context(),
		store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1), By: "mei", Why: "asked"},
		act(2, "suppression.lift")))(t)
	Equal(t, "lifted", len(lifted), 1)
	f.Pass(time.Second)
	Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1)},
		act(3, "suppression.lift")))(t)

	list := Must(f.AuditEntries(t.Context(), store.AuditFilter{Limit: 10}))(t)
	none, lift := *act(3, "suppression.lift"), *act(2, "suppression.lift")
	none.At, none.Detail = f.Now, "0"
	lift.At, lift.Detail, lift.Recipient, lift.To = f.Now.Add(-time.Second), "1", recipient.Hash{15: 1},
		"a•••@example.com"
	add.At = f.Now.Add(-2 * time.Second)
	Equal(t, "acts", list, []store.AuditEntry{none, lift, *add})

	bad := act(4, "")
	_, _, err := f.Suppress(t.Context(),
		store.Suppression{ID: uuid.UUID{2}, Channel: recipient.Email, Address: Address(2),
			Cause: store.CauseManual}, time.Hour, bad)
	Is(t, err, store.ErrBadRequest)
	Is(t, Err(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1)}, bad)),
		store.ErrBadRequest)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
}
