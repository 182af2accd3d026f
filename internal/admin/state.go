package admin

import (
	"time"

	"sendcode/internal/audit"
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

func toneOf(s audit.Status) tone {
	switch s {
	case audit.Sent, audit.Delivered:
		return good
	case audit.Failed:
		return bad
	case audit.Queued, audit.Sending:
		return still
	}
	return warn
}

// signs stand beside the words, so that a list can be read at speed without its colours.
var signs = map[audit.Status]string{
	audit.Sent: "✓", audit.Delivered: "✓", audit.Undelivered: "✕", audit.Failed: "✕", audit.Refused: "⏸\ufe0e", audit.Unknown: "?", audit.Queued: "…", audit.Sending: "→",
}

// stateOf is where a verification stands, by the log's clock.
func stateOf(v audit.Verification, now time.Time) verification.State {
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
