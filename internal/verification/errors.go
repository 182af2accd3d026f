package verification

import (
	"errors"
	"fmt"
	"time"
)

// Errors of the use cases. Package server maps each to a status.
var (
	// ErrNotFound: unknown verification, or another app's: the same answer for both.
	ErrNotFound = errors.New("verification: not found")
	// ErrUnavailable: the limiter or the log failed, and this request sent and counted nothing, unless it is ErrUncertain.
	ErrUnavailable = errors.New("verification: unavailable")
	// ErrBusy: another request with the same idempotency key is being worked on.
	ErrBusy = errors.New("verification: the same request is being worked on")
	// ErrOtherRequest: the idempotency key was used with another request.
	ErrOtherRequest = errors.New("verification: the key belongs to another request")
)

// ErrUncertain is an ErrUnavailable of a request that may count: the log may have written the send or the attempt.
var ErrUncertain = fmt.Errorf("%w: the log may have taken the request", ErrUnavailable)

// TooManyChecksError says that a recipient or a network has too many failed checks. Nothing was compared, sent or counted.
type TooManyChecksError struct {
	RetryAfter time.Duration // positive
	Send       bool          // a send was refused, since its code could not be checked
}

func (e *TooManyChecksError) Error() string { return "verification: too many failed checks" }

// InvalidError says which field of a request is wrong and why, without its value.
type InvalidError struct {
	Field  string
	Reason string // machine word
	Detail string // sentence
}

func (e *InvalidError) Error() string { return fmt.Sprintf("verification: %s: %s", e.Field, e.Reason) }

func invalid(field, reason, detail string) error {
	return &InvalidError{Field: field, Reason: reason, Detail: detail}
}
