package explain

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// Tone is the colour that goes with a state's sign and word.
type Tone string

const (
	Good    Tone = "good"
	Warn    Tone = "warn"
	Bad     Tone = "bad"
	Neutral Tone = "still" // neither good nor bad, for example a send that is under way
)

// StateLabel is a state as a page shows it: a sign and a word, in a colour.
type StateLabel struct {
	Sign, Word string
	Tone       Tone
}

// ToneOf returns the tone of a status. It is Warn for a refusal, and for a message that may not
// have arrived.
func ToneOf(s store.Status) Tone {
	switch s {
	case store.Sent, store.Delivered:
		return Good
	case store.Failed:
		return Bad
	case store.Queued, store.Sending:
		return Neutral
	}
	return Warn
}

// NotDelivered reports whether a send failed, or whether a carrier or mail provider reported that
// the message was not delivered.
func NotDelivered(s store.SendOrRefusal) bool {
	return s.Status == store.Failed || s.Status == store.Undelivered || s.WorstEvent == store.ProviderBounced
}

// RequestedLocale returns the language that the caller requested. The values "*" and "mul" mean any
// language, and for them the result is "".
func RequestedLocale(s store.SendOrRefusal) string {
	if s.Locale == "*" || s.Locale == "mul" {
		return ""
	}
	return s.Locale
}

// codeStates maps the state of a verification to the state of its code. Lists show the state of the
// code.
var codeStates = map[verification.State]store.CodeState{
	verification.Approved: store.CodeEntered, verification.Canceled: store.CodeCanceled,
	verification.MaxAttemptsReached: store.CodeUsedUp,
	verification.Expired:            store.CodeExpired, verification.Pending: store.CodeWaiting,
}

// CodeStateOf returns the state of a code; now is on the database's clock.
func CodeStateOf(v store.Verification, now time.Time) store.CodeState {
	if v.CallerChecks && v.ApprovedAt.IsZero() && v.CanceledAt.IsZero() {
		return store.CodeOfCaller
	}
	return codeStates[verification.StateOf(v, now)]
}

// CodeEndedAt returns when a code ended. If the code can still be entered, or if the time is
// unknown, the result is zero.
func CodeEndedAt(v store.Verification, now time.Time) time.Time {
	if v.CallerChecks && v.ApprovedAt.IsZero() {
		return v.CanceledAt
	}
	return map[verification.State]time.Time{
		verification.Approved: v.ApprovedAt, verification.Canceled: v.CanceledAt, verification.Expired: v.ExpiresAt,
		verification.MaxAttemptsReached: lastWrongCheckAt(v),
	}[verification.StateOf(v, now)]
}
