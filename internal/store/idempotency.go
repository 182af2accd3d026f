package store

import (
	"time"

	"github.com/google/uuid"
)

// Claim is the use of an Idempotency-Key by a request (draft-ietf-httpapi-idempotency-key-header).
// All requests with one key lead to one send. The claim fixes the send's ID before any gate
// decides. Both gates recognize an ID; so if a process dies, the next request with the key finds
// that process's send. The claim is complete when the send has a row.
type Claim struct {
	// keyed hash of the Idempotency-Key and its caller, so that two callers never share a claim
	Key         [32]byte
	Fingerprint [32]byte      // keyed hash of the request's content
	SendID      uuid.UUID     // ID for the send; used only if the claim is new
	Lease       time.Duration // until its end, other requests with the key get ClaimBusy
	Life        time.Duration // the key is kept for this time
}

// ClaimState is the result of a claim.
type ClaimState int

// The states of a claim.
const (
	ClaimGranted    ClaimState = iota // the caller holds the claim, and must use Claimed.SendID
	ClaimBusy                         // another request holds the claim
	ClaimMismatched                   // the key was used for a request with another fingerprint
	ClaimDone                         // the claim's send is in the database
)

// ClaimAnswer is the answer to a claim.
type ClaimAnswer struct {
	State        ClaimState
	SendID       uuid.UUID    // with ClaimGranted: Claim.SendID, or the one of an earlier holder of the claim
	Send         Send         // with ClaimDone, as it is now
	Verification Verification // with ClaimDone, as it is now; zero if it was deleted
	Now          time.Time    // on the database's clock
}

// ClaimsDeletedPerCall is the number of claims past their life that each call of Claim deletes. So
// old claims need no background job.
const ClaimsDeletedPerCall = 2

// KeyClaimRow is a claim as it is stored.
type KeyClaimRow struct {
	Fingerprint []byte
	SendID      uuid.UUID
}

// ClaimAnswer returns the answer to c. r is the stored row of c's key; s is the send with r.SendID, or
// zero if there is none; v is that send's verification. held: the caller holds the claim now.
func (r KeyClaimRow) Answer(c Claim, held bool, s Send, v Verification, now time.Time) ClaimAnswer {
	out := ClaimAnswer{State: ClaimBusy, Now: now}
	switch {
	case string(r.Fingerprint) != string(c.Fingerprint[:]):
		out.State = ClaimMismatched
	case s.ID != uuid.Nil && s.Status != Refused:
		out.State, out.Send, out.Verification = ClaimDone, s, v
	case held:
		out.State, out.SendID = ClaimGranted, r.SendID
	}
	return out
}
