package store

import (
	"time"

	"github.com/google/uuid"
)

// Claim is the use of an Idempotency-Key by a request (draft-ietf-httpapi-idempotency-key-header). The claim fixes the ID of the one
// send of all requests with that key before any gate is asked. Both gates recognise an ID, so a process that continues the claim of a
// dead process finds that process's send. The row of the send marks the claim as completed: no second write is needed.
type Claim struct {
	Key         [32]byte      // keyed hash of the caller's key and of whose it is: no other caller's requests share it
	Fingerprint [32]byte      // keyed hash of what was asked
	SendID      uuid.UUID     // of the send that may come of it, if the claim is new
	Lease       time.Duration // how long others wait for the answer before they go on themselves
	Life        time.Duration // how long the key is remembered
}

// ClaimState is the result of a claim.
type ClaimState int

// The states of a claim.
const (
	ClaimHeld  ClaimState = iota // the caller works on it, with Claimed.SendID
	ClaimBusy                    // another request does
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

// ClaimsForgotten is how many claims that are past their life go with each new one: so there are never many more than a
// life's worth, and no claim waits for a sweep.
const ClaimsForgotten = 2

// ClaimRow is a claim as it is stored.
type ClaimRow struct {
	Fingerprint []byte
	SendID      uuid.UUID
}

// Claimed returns the answer to c, whose key has this row. s is the send with the row's SendID, or zero if there is none; held says
// that the claim is now the caller's.
func (r ClaimRow) Claimed(c Claim, held bool, s Send, v Verification, now time.Time) Claimed {
	out := Claimed{State: ClaimBusy, Now: now}
	switch {
	case string(r.Fingerprint) != string(c.Fingerprint[:]):
		out.State = ClaimOther
	case s.ID != uuid.Nil && s.Status != Refused:
		out.State, out.Send, out.Verification = ClaimDone, s, v
	case held:
		out.State, out.SendID = ClaimHeld, r.SendID
	}
	return out
}
