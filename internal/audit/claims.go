package audit

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Claim is a caller's word that several requests are one (draft-ietf-httpapi-idempotency-key-header). The claim fixes the ID of
// the one send that may come of them before any gate is asked. Both gates know an ID again, so whoever goes on with a
// claim that a dead process left behind can at most find its send there, and the send's own row is the mark of completion:
// there is nothing to be written twice and no moment in between.
type Claim struct {
	Key         [32]byte      // keyed hash of the caller's key and of whose it is: nobody else's requests share it
	Fingerprint [32]byte      // keyed hash of what was asked
	SendID      uuid.UUID     // of the send that may come of it, if the claim is new
	Lease       time.Duration // how long others wait for the answer before they go on themselves
	Life        time.Duration // how long the key is remembered
}

// ClaimState says what became of a claim.
type ClaimState int

// The states of a claim.
const (
	ClaimHeld  ClaimState = iota // the caller works on it, with Claimed.SendID
	ClaimBusy                    // somebody else does
	ClaimOther                   // the key was used with another request
	ClaimDone                    // its send is in the log
)

// Claimed is the answer to a claim.
type Claimed struct {
	State        ClaimState
	SendID       uuid.UUID    // with ClaimHeld: the claim's own, or that of an earlier holder
	Send         Send         // with ClaimDone, as it is now
	Verification Verification // with ClaimDone, as it is now; zero if it is gone
	Now          time.Time    // on the log's clock
}

// forgotten is how many claims that are past their life go with each new one: so there are never many more than a
// life's worth, and no claim waits for a sweep.
const forgotten = 2

// claimRow is a claim as it is stored.
type claimRow struct {
	fingerprint []byte
	sendID      uuid.UUID
}

// claimed is the answer, where the send of the claim is in the log or not.
func (r claimRow) claimed(c Claim, held bool, s Send, v Verification, now time.Time) Claimed {
	out := Claimed{State: ClaimBusy, Now: now}
	switch {
	case string(r.fingerprint) != string(c.Fingerprint[:]):
		out.State = ClaimOther
	case s.ID != uuid.Nil && s.Status != Refused:
		out.State, out.Send, out.Verification = ClaimDone, s, v
	case held:
		out.State, out.SendID = ClaimHeld, r.sendID
	}
	return out
}

func (c Claim) check() error {
	if c.SendID == uuid.Nil || c.Lease < time.Microsecond || c.Life < c.Lease {
		return bad("a claim names its send, and lives at least as long as its lease")
	}
	return nil
}

type memoryClaim struct {
	claimRow
	madeAt, heldUntil time.Time
}

// Claim implements Log.
func (m *Memory) Claim(ctx context.Context, c Claim) (out Claimed, err error) {
	if err := c.check(); err != nil {
		return Claimed{}, err
	}
	now, lost, err := m.enter(ctx, "Claim")
	if err != nil {
		return Claimed{}, err
	}
	defer m.leave(lost, &err)
	m.forget(now.Add(-c.Life))
	k, ok := m.claims[c.Key]
	held := !ok
	if !ok {
		k = &memoryClaim{claimRow: claimRow{c.Fingerprint[:], c.SendID}, madeAt: now}
		m.claims[c.Key] = k
	} else if !k.heldUntil.After(now) && string(k.fingerprint) == string(c.Fingerprint[:]) {
		held = true
	}
	if held {
		k.heldUntil = now.Add(c.Lease)
	}
	var s Send
	var v Verification
	if row, ok := m.rows[k.sendID]; ok {
		s, v = row.Send, m.verification(row.VerificationID)
	}
	return k.claimed(c, held, s, v, now), nil
}

func (m *Memory) forget(before time.Time) {
	for key, k := range m.claims {
		if !k.madeAt.After(before) {
			delete(m.claims, key)
		}
	}
}

// Release implements Log.
func (m *Memory) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) (err error) {
	now, lost, err := m.enter(ctx, "Release")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if k, ok := m.claims[key]; ok && k.sendID == id {
		k.heldUntil = now
		if forget {
			delete(m.claims, key)
		}
	}
	return nil
}
