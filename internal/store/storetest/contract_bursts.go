package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// person is the intent of a mail to person n, whose address has one spelling.
func (f *Fixture) person(n int) store.Intent {
	in := f.Intent(n)
	in.Address = recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)}
	return in
}

// refusedAs is the outcome of a mail to recipient n that the server refused with words: there is no
// such mailbox.
func refusedAs(n int, words string) store.Outcome {
	return store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, Provider: "mx", ProviderCode: "550 5.1.1",
		Suppress: store.NewSuppression{Cause: store.CauseHardBounce, For: 30 * 24 * time.Hour, Words: words,
			Address: recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)}}}
}

var acceptedByMX = store.Outcome{Status: store.Sent, Provider: "mx", ProviderCode: "250"}

// refuse sends a mail to each of n persons from first on, on both replicas at once, which the server
// refuses.
func (f *Fixture) refuse(t *testing.T, first, n int, words string) {
	t.Helper()
	intents := make([]store.Intent, n)
	for i := range intents {
		intents[i] = f.person(first + i)
	}
	Equal(t, "refused", f.atOnce(t, n, func(db *sqldb.DB, i int) (bool, error) {
		begun, err := db.Begin(t.Context(), intents[i])
		if err != nil {
			return false, err
		}
		o := refusedAs(first+i, words)
		o.AttemptID = Held(begun.Send.ID, 1)
		return db.Finish(t.Context(), o)
	}), n)
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

// settle settles the bursts. As the job does, it tries again if the database takes too long, as it may beside
// other tests.
func (f *Fixture) settle(t *testing.T, lifts bool) {
	t.Helper()
	lifted, err := f.SettleBursts(t.Context())
	for tries := 1; errors.Is(err, fault.Unavailable) && tries < 10; tries++ {
		lifted, err = f.SettleBursts(t.Context())
	}
	Equal(t, "lifted", Must(lifted, err)(t), lifts)
}

// A server's bad hour: recipients that it refuses are sent to as before, and nothing is left of it once the
// server accepts a mail for one of them. One of them has entered a code, so it pages.
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

// Six dead addresses that a stranger types within minutes page no administrator and change nothing for others:
// the older suppression of a person who has entered a code and one by hand stay in force, and the
// server's other mails are sent.
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

// A person who lifts one suppression of a burst lifts all of it. A provider's bounces are a burst too;
// there only a delivery lifts it, since the server has accepted those mails as well.
func burstIsLifted(t *testing.T, f *Fixture) {
	f.refuse(t, 1, 6, "550 5.1.1 unknown")
	lifted := Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email,
		Address: f.person(2).Address, By: "ops", Why: "asked"}, nil))(t)
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
