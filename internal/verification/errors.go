package verification

import (
	"errors"
	"fmt"
	"time"
)

// What a caller can tell apart; package server maps each to a status.
var (
	// ErrNotFound: unknown verification, or another app's: the same answer for both.
	ErrNotFound = errors.New("verification: not found")
	// ErrUnavailable: a part that decides is away; nothing was sent by this request as far as is known.
	ErrUnavailable = errors.New("verification: unavailable")
	// ErrBusy: another request with the same idempotency key is being worked on.
	ErrBusy = errors.New("verification: the same request is being worked on")
	// ErrOtherRequest: the idempotency key was used with another request.
	ErrOtherRequest = errors.New("verification: the key belongs to another request")
)

// ErrUncertain is ErrUnavailable of a request that may count all the same: the log may have taken the send or the try.
var ErrUncertain = fmt.Errorf("%w: the log may have taken the request", ErrUnavailable)

// TooManyChecksError says that a recipient or a network is over its limit of failed checks. Nothing was compared or sent, and
// nothing was counted.
type TooManyChecksError struct {
	RetryAfter time.Duration // positive
	Send       bool          // a send was refused: its code could not be checked
}

func (e *TooManyChecksError) Error() string { return "verification: too many failed checks" }

// InvalidError says which field of a request is wrong, and why, without repeating its value.
type InvalidError struct {
	Field  string
	Reason string // machine word
	Detail string // sentence
}

func (e *InvalidError) Error() string { return fmt.Sprintf("verification: %s: %s", e.Field, e.Reason) }

func invalid(field, reason, detail string) error {
	return &InvalidError{Field: field, Reason: reason, Detail: detail}
}
