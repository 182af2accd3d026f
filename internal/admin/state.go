package admin

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// tone is the colour that goes with a state's sign and word.
type tone string

const (
	good  tone = "good"
	warn  tone = "warn"
	bad   tone = "bad"
	still tone = "still" // under way
)

func toneOf(s store.Status) tone {
	switch s {
	case store.Sent, store.Delivered:
		return good
	case store.Failed:
		return bad
	case store.Queued, store.Sending:
		return still
	}
	return warn
}

// signs stand beside the words, so that a list can be read at speed without its colours.
var signs = map[store.Status]string{
	store.Sent: "✓", store.Delivered: "✓", store.Undelivered: "✕", store.Failed: "✕", store.Refused: "⏸\ufe0e", store.Unknown: "?", store.Queued: "…", store.Sending: "→",
}

// stateOf is where a verification stands, by the log's clock.
func stateOf(v store.Verification, now time.Time) verification.State {
	switch {
	case !v.ApprovedAt.IsZero():
		return verification.Approved
	case !v.CanceledAt.IsZero():
		return verification.Canceled
	case v.Attempts >= v.MaxAttempts:
		return verification.MaxAttemptsReached
	case !now.Before(v.ExpiresAt):
		return verification.Expired
	}
	return verification.Pending
}
