package store

import (
	"time"

	"github.com/google/uuid"
)

// IdempotencyClaim claims an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) for a
// request, so that all requests with the key lead to one send. It fixes the send's ID before the
// limiter and the database decide, as both recognize a repeated ID: if the process dies, the next
// request with the key finds its send. The claim is complete once the send has a row.
type IdempotencyClaim struct {
	// keyed hash of the Idempotency-Key and its caller, so that callers never share a claim
	Key         [32]byte
	Fingerprint [32]byte  // keyed hash of the content
	SendID      uuid.UUID // only used if the claim is new
}

// IdempotencyKeyLife is how long a claim is kept.
const IdempotencyKeyLife = 24 * time.Hour

// IdempotencyClaimLease returns how long other requests with the key get IdempotencyClaimBusy. It
// is longer than both gates may take together.
func IdempotencyClaimLease() time.Duration { return 3 * CallTimeout }

type IdempotencyClaimState int

// These are the results of a claim.
const (
	IdempotencyClaimGranted    IdempotencyClaimState = iota // use IdempotencyClaimAnswer.SendID
	IdempotencyClaimBusy                                    // another request holds the claim
	IdempotencyClaimMismatched                              // the key came with another fingerprint before
	IdempotencyClaimDone                                    // the send is in the database
)

type IdempotencyClaimAnswer struct {
	State        IdempotencyClaimState
	SendID       uuid.UUID    // with IdempotencyClaimGranted: the claim's own, or that of its earlier holder
	Send         Send         // with IdempotencyClaimDone: as it is now
	Verification Verification // with IdempotencyClaimDone: as it is now; zero if deleted
	Now          time.Time    // on the database's clock
}

type IdempotencyClaimRow struct {
	Fingerprint []byte
	SendID      uuid.UUID
}

// Answer decides c by the row of its key. s is the send r.SendID and v its verification, or both
// are zero. held says whether c holds the claim now.
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
