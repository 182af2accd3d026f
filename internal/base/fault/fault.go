// Package fault has the errors that the database and the use cases return. Package server maps each
// to an HTTP status. They may be wrapped in an error that adds the cause, so compare with errors.Is
// and errors.AsType.
package fault

import "fmt"

// Kind is a kind of failure, and is itself an error.
type Kind string

const (
	// NotFound means that there is no such row, or that it belongs to another app. The answer must
	// not show which of the two it is.
	NotFound Kind = "not found"
	// Unavailable: the database or the limiter didn't answer or can't serve now. Unless the error
	// is also Uncertain, nothing was written, and counted events are refunded.
	Unavailable Kind = "unavailable"
	// Uncertain is an Unavailable error with an unknown outcome. The write may be committed, so a
	// message or an attempt may have been counted.
	Uncertain Kind = "unavailable, and the outcome is not known"
)

func (k Kind) Error() string { return string(k) }

// Is makes errors.Is report an Uncertain error as Unavailable, too.
func (k Kind) Is(target error) bool { return k == Uncertain && target == Unavailable }

// Wrap returns an error of this kind with the cause err, which must not be nil. Its text begins
// with the kind.
func (k Kind) Wrap(err error) error { return fmt.Errorf("%w: %w", k, err) }

// InvalidError names the invalid field of a request, without its value.
type InvalidError struct {
	Field  string
	Reason string // for programs, such as "not_allowed"
	Detail string // for people: a whole sentence
}

// Invalid returns an *InvalidError.
func Invalid(field, reason, detail string) error { return &InvalidError{field, reason, detail} }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }
