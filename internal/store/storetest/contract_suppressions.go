package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Address is the very address of spelling n.
func Address(n byte) recipient.Hash { return recipient.Hash{0: 0xad, 15: n} }

func to(n byte) func(*store.Intent) { return func(in *store.Intent) { in.Address = Address(n) } }

// suppress adds a suppression by hand.
func (f *Fixture) suppress(t *testing.T, n byte, lasts time.Duration, changes ...func(*store.Suppression)) store.Suppression {
	t.Helper()
	f.Serial++
	s := store.Suppression{
		ID: uuid.UUID{5: byte(f.Serial), 6: 0x70, 8: 0x80}, Channel: recipient.Email, Address: Address(n), Recipient: recipient.Hash{15: n},
		To: "a•••@example.com", Cause: store.CauseManual, Detail: "asked by telephone", By: "ops",
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
		ID: store.SuppressionID(begun.Send.ID, store.CauseHardBounce), App: "shop", Channel: recipient.Email, Address: Address(1),
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
		store.Suppression{ID: want.ID, Channel: recipient.Email, Address: Address(1), Cause: store.CauseHardBounce}, time.Hour, nil))(t)
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
		"second page":   {store.SuppressionFilter{Limit: 2, Before: &store.Cursor{At: b.Since, ID: b.ID}}, []store.Suppression{a, old}},
	} {
		Equal(t, name, f.suppressions(t, x.filter), x.want)
	}
	for _, app := range []string{"shop", ""} { // those of this app alone, or all that hold now
		lifted := Must(f.LiftSuppressions(t.Context(),
			store.LiftSuppressionsRequest{Channel: recipient.Email, Address: a.Address, App: app},
			nil))(t)
		Equal(t, "lifted", len(lifted), map[string]int{"": 1}[app])
	}
}

// An act is written with what it changed, or neither.
func suppressionActs(t *testing.T, f *Fixture) {
	act := func(n byte, what string) *store.AuditEntry {
		return &store.AuditEntry{
			ID: uuid.UUID{1, n, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: what, Channel: recipient.Email,
			Reason: "asked", Outcome: store.AuditDone,
		}
	}
	add := act(1, "suppression.add")
	add.Recipient, add.To = recipient.Hash{15: 1}, "a•••@example.com"
	s := store.Suppression{
		ID: uuid.UUID{1}, Channel: recipient.Email, Address: Address(1), Recipient: recipient.Hash{15: 1},
		To: "a•••@example.com", Cause: store.CauseManual, By: "mei",
	}
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
	lift.At, lift.Detail, lift.Recipient, lift.To = f.Now.Add(-time.Second), "1", recipient.Hash{15: 1}, "a•••@example.com"
	add.At = f.Now.Add(-2 * time.Second)
	Equal(t, "acts", list, []store.AuditEntry{none, lift, *add})

	bad := act(4, "")
	Is(t, err2(f.Suppress(t.Context(), store.Suppression{
		ID: uuid.UUID{2}, Channel: recipient.Email, Address: Address(2),
		Cause: store.CauseManual,
	}, time.Hour, bad)), store.ErrBadRequest)
	Is(t, Err(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1)}, bad)),
		store.ErrBadRequest)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
}

// person is the intent of a mail to person n, whose address has one spelling.
func (f *Fixture) person(n int) store.Intent {
	in := f.Intent(n)
	in.Address = recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)}
	return in
}

// refusedAs is the outcome of a mail to recipient n that the server refused with words: there is no
// such mailbox.
func refusedAs(n int, words string) store.Outcome {
	return store.Outcome{
		Status: store.Failed, Reason: store.ReasonRejected, Refund: true, Provider: "mx", ProviderCode: "550 5.1.1",
		Suppress: store.NewSuppression{
			Cause: store.CauseHardBounce, For: 30 * 24 * time.Hour, Words: words,
			Address: recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)},
		},
	}
}

var acceptedByMX = store.Outcome{Status: store.Sent, Provider: "mx", ProviderCode: "250"}

// refuse sends a mail to each of n persons from first on, on both replicas at once, which the
// server refuses.
func (f *Fixture) refuse(t *testing.T, first, n int, words string, changes ...func(*store.Intent)) {
	t.Helper()
	begun := f.admitAll(t, n, func(i int) store.Intent {
		in := f.person(first + i)
		for _, change := range changes {
			change(&in)
		}
		return in
	})
	f.endAll(t, begun, func(i int) store.Outcome { return refusedAs(first+i, words) })
}

// inForce counts the suppressions that stop messages now.
func (f *Fixture) inForce(t *testing.T) (n int) {
	t.Helper()
	for before := (*store.Cursor)(nil); ; {
		list := f.suppressions(t, store.SuppressionFilter{ActiveOrHeld: true, Before: before})
		for _, s := range list {
			if s.Active(f.Now) {
				n++
			}
		}
		if len(list) < store.MaxPageRows {
			return n
		}
		before = &store.Cursor{At: list[len(list)-1].Since, ID: list[len(list)-1].ID}
	}
}

// settle settles the bursts. As the job does, it tries again if the database takes too long, as it
// may beside other tests.
func (f *Fixture) settle(t *testing.T, lifts bool) {
	t.Helper()
	lifted, err := f.SettleBursts(t.Context())
	for tries := 1; errors.Is(err, fault.Unavailable) && tries < 10; tries++ {
		lifted, err = f.SettleBursts(t.Context())
	}
	Equal(t, "lifted", Must(lifted, err)(t), lifts)
}

// A server's bad hour: recipients that it refuses are sent to as before, and nothing is left of it
// once the server accepts a mail for one of them. One of them has entered a code, so it pages.
func burstOfAServer(t *testing.T, f *Fixture) {
	f.approve(t, f.Ended(t, f.person(3), acceptedByMX).Verification.ID)
	f.refuse(t, 1, 5, "550 5.1.1 unknown")
	Equal(t, "in force", f.inForce(t), 5)
	f.settle(t, false)
	f.refuse(t, 6, 495, "550 5.1.1 unknown")
	Equal(t, "in force", f.inForce(t), 0)
	Equal(t, "told", Must(f.HeldBursts(t.Context()))(t), []store.HeldBurst{{Server: "mx", Words: "550 5.1.1 unknown", Recipients: 500}})
	f.settle(t, false)
	f.Ended(t, f.person(501), acceptedByMX) // of none of them
	other := acceptedByMX
	other.Provider = "other"
	f.Pass(time.Minute)
	f.Ended(t, f.person(7), other) // not by that server
	f.settle(t, false)
	begun := f.Ended(t, f.person(7), acceptedByMX)
	Equal(t, "suppression met", begun.Send.Suppression, uuid.Nil)
	f.settle(t, true)
	f.Pass(time.Hour)
	Equal(t, "in force", f.inForce(t), 0)
	Equal(t, "told", len(Must(f.HeldBursts(t.Context()))(t)), 0)
	lifted := f.suppressions(t, store.SuppressionFilter{Limit: 1})[0]
	Equal(t, "why", lifted.LiftedWhy, store.LiftedAccepted)
}

// Mailboxes that are missing take effect after the hour, though the server accepts all other mails.
// It pages no administrator, since they are strangers' addresses.
func burstOfMissing(t *testing.T, f *Fixture) { BurstOfMissing(t, f, 50) }

// BurstOfMissing is burstOfMissing with this number of mails that the server accepts.
func BurstOfMissing(t *testing.T, f *Fixture, good int) {
	const missing = 500
	f.refuse(t, 1000, 1, "550 5.1.1 unknown")
	f.Pass(store.BurstWindow)
	f.refuse(t, 1001, 1, "550 5.1.1 no such user")
	f.refuse(t, 1, missing, "550 5.1.1 unknown")
	Equal(t, "in force: another's words, and one before", f.inForce(t), 2)
	for n := range good {
		f.Ended(t, f.person(2000+n), acceptedByMX)
	}
	Equal(t, "told", len(Must(f.HeldBursts(t.Context()))(t)), 0)
	f.Pass(store.BurstHold)
	f.settle(t, false)
	Equal(t, "in force", f.inForce(t), missing+2)
	Equal(t, "stopped", f.Admit(t, f.person(9)).Send.Suppression == uuid.Nil, false)
	f.Pass(time.Hour)
	f.refuse(t, 1002, 1, "550 5.1.1 unknown")
	Equal(t, "in force", f.inForce(t), missing+3)
}

// Six dead addresses that a stranger types within minutes page no administrator and change nothing
// for others: two older suppressions stay in force, one of a recipient with an approved code and
// one that an administrator added, and the server's other mails are sent.
func burstOfAStranger(t *testing.T, f *Fixture) {
	f.approve(t, f.Ended(t, f.person(100), acceptedByMX).Verification.ID)
	f.refuse(t, 100, 1, "550 5.1.1 unknown")
	f.Pass(store.BurstWindow)
	f.suppress(t, 101, 24*time.Hour)
	for n := 1; n <= 6; n++ {
		f.refuse(t, n, 1, "550 5.1.1 unknown")
		f.Pass(time.Minute)
	}
	Equal(t, "told", len(Must(f.HeldBursts(t.Context()))(t)), 0)
	Equal(t, "in force", f.inForce(t), 2)
	for n, stopped := range map[int]bool{100: true, 101: true, 102: false} {
		Equal(t, "stopped", f.Ended(t, f.person(n), acceptedByMX).Send.Suppression != uuid.Nil, stopped)
	}
	f.settle(t, false)
	f.Pass(store.BurstHold)
	Equal(t, "in force", f.inForce(t), 2+6)
}

// Callers of each class have bursts of their own: six dead addresses of a stranger, with the words
// of others' suppressions, hold and lift no other's. What a secret key's mail proves lifts all. A
// suppression that was lifted, or held before, is not held again.
func burstsByClass(t *testing.T, f *Fixture) {
	const words = "550 5.1.1 unknown"
	stranger := func(in *store.Intent) { in.Verification.Class = store.UnknownBrowser }
	accept := func(n int, changes ...func(*store.Intent)) {
		in := f.person(n)
		for _, change := range changes {
			change(&in)
		}
		f.Ended(t, in, acceptedByMX)
	}
	f.refuse(t, 100, 3, words)
	f.refuse(t, 1, 6, words, stranger)
	Equal(t, "in force: others'", f.inForce(t), 3)
	f.Pass(time.Minute)
	accept(1, stranger)
	f.settle(t, true)
	f.Pass(store.BurstHold)
	Equal(t, "in force once a stranger's mail was taken", f.inForce(t), 3)

	f.refuse(t, 200, 6, words)
	f.refuse(t, 11, 6, words, stranger)
	Equal(t, "in force, of two bursts", f.inForce(t), 3)
	f.Pass(time.Minute)
	accept(200, stranger)
	f.settle(t, true)
	accept(201)
	f.settle(t, true)
	f.Pass(store.BurstHold)
	Equal(t, "in force: those of no burst", f.inForce(t), 3)

	f.refuse(t, 300, 1, words)
	OK(t, Err(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{
		Channel: recipient.Email, Address: f.person(300).Address,
		By: "ops", Why: "asked",
	}, nil)))
	f.refuse(t, 301, 6, words)
	first := f.Now.Add(store.BurstHold)
	f.Pass(time.Minute)
	f.refuse(t, 307, 1, words)
	for n, until := range map[int]time.Time{300: {}, 301: first, 307: f.Now.Add(store.BurstHold)} {
		of := f.person(n).Send.Recipient
		Equal(t, "held until", f.suppressions(t, store.SuppressionFilter{Recipient: &of})[0].HeldUntil, until)
	}
}

// A person who lifts one suppression of a burst lifts all of it. A provider's bounces are a burst
// too; there only a delivery lifts it, since the server has accepted those mails as well.
func burstIsLifted(t *testing.T, f *Fixture) {
	f.refuse(t, 1, 6, "550 5.1.1 unknown")
	lifted := Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{
		Channel: recipient.Email,
		Address: f.person(2).Address, By: "ops", Why: "asked",
	}, nil))(t)
	Equal(t, "lifted", len(lifted), 6)

	var last uuid.UUID
	for n := 11; n <= 16; n++ {
		begun := f.Ended(t, f.person(n), acceptedByMX)
		f.ingest(t, true, store.ProviderEvent{Send: begun.Send.ID, Kind: store.ProviderBounced, Provider: "p"},
			refusedAs(n, "bounce").Suppress)
	}
	Equal(t, "in force", f.inForce(t), 0)
	f.Pass(time.Minute)
	last = f.Ended(t, f.person(12), acceptedByMX).Send.ID
	f.settle(t, false)
	f.ingest(t, true, store.ProviderEvent{Send: last, Kind: store.ProviderDelivered, Provider: "p"})
	f.settle(t, true)
}
