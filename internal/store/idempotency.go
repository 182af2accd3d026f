package store

import (
	"time"

	"github.com/google/uuid"
)

// IdempotencyClaim claims an Idempotency-Key for a request
// (draft-ietf-httpapi-idempotency-key-header). All requests with the same key lead to one send. The
// claim fixes the send's ID before the limiter and the database decide about the send. The limiter
// and the database recognize a repeated ID. So if a process dies, the next request with the key
// finds the send of the dead process. The claim is complete when the send has a row.
type IdempotencyClaim struct {
	// keyed hash of the Idempotency-Key and its caller, so that two callers never share a claim
	Key         [32]byte
	Fingerprint [32]byte  // keyed hash of the request's content
	SendID      uuid.UUID // ID for the send; used only if the claim is new
}

// IdempotencyKeyLife is how long the claim of an Idempotency-Key is kept.
const IdempotencyKeyLife = 24 * time.Hour

// IdempotencyClaimLease is how long other requests with the key of a claim get
// IdempotencyClaimBusy. It is longer than both gates may take together.
func IdempotencyClaimLease() time.Duration { return 3 * CallTimeout }

// IdempotencyClaimState is the result of a claim.
type IdempotencyClaimState int

// The states of a claim.
const (
	IdempotencyClaimGranted    IdempotencyClaimState = iota // the caller holds the claim, and must use Claimed.SendID
	IdempotencyClaimBusy                                    // another request holds the claim
	IdempotencyClaimMismatched                              // the key was used for a request with another fingerprint
	IdempotencyClaimDone                                    // the claim's send is in the database
)

// IdempotencyClaimAnswer is the answer to a claim.
type IdempotencyClaimAnswer struct {
	State        IdempotencyClaimState
	SendID       uuid.UUID    // with IdempotencyClaimGranted: the SendID of the claim, or of the claim's earlier holder
	Send         Send         // with IdempotencyClaimDone: the send as it is now
	Verification Verification // with IdempotencyClaimDone: the verification as it is now; zero if it was deleted
	Now          time.Time    // on the database's clock
}

// IdempotencyClaimRow is a claim as it is stored.
type IdempotencyClaimRow struct {
	Fingerprint []byte
	SendID      uuid.UUID
}

// Answer returns the answer to the claim c. The receiver r is the stored row for c.Key. The
// parameter s is the send with the ID r.SendID, or the zero value if there is none. The parameter v
// is the verification of s. If held is true, the request that made c now holds the claim.
func (r IdempotencyClaimRow) Answer(c IdempotencyClaim, held bool, s Send, v Verification, now time.Time) IdempotencyClaimAnswer {
	out := IdempotencyClaimAnswer{State: IdempotencyClaimBusy, Now: now}
	switch {
	case string(r.Fingerprint) != string(c.Fingerprint[:]):
		out.State = IdempotencyClaimMismatched
	case s.ID != uuid.Nil && s.Status != Refused:
		out.State, out.Send, out.Verification = IdempotencyClaimDone, s, v
	case held:
		out.State, out.SendID = IdempotencyClaimGranted, r.SendID
	}
	return out
}
