// Package fault has the errors that packages pass to each other. The database and the use cases
// return these errors, and package server maps each error to an HTTP status. An error of this
// package may be wrapped in another error that adds the cause, so compare with errors.Is and
// errors.AsType.
package fault

import "fmt"

// Kind is the kind of a failure. A Kind is an error itself.
type Kind string

// The kinds of errors.
const (
	// NotFound means that there is no such row, or that the row belongs to another app. The answer
	// must not show which of the two reasons is true.
	NotFound Kind = "not found"
	// Unavailable means that the database or the limiter did not answer or cannot serve now. Unless
	// the error is also Uncertain, nothing was written, and counted events are refunded.
	Unavailable Kind = "unavailable"
	// Uncertain is an Unavailable error with an unknown outcome. The database may have committed
	// the write, so a message or an attempt may have been counted.
	Uncertain Kind = "unavailable, and the outcome is not known"
)

func (k Kind) Error() string { return string(k) }

// Is makes errors.Is treat Uncertain as Unavailable, too.
func (k Kind) Is(target error) bool { return k == Uncertain && target == Unavailable }

// Wrap returns an error of this kind with err as its cause. Its text begins with the kind. err must
// not be nil.
func (k Kind) Wrap(err error) error { return fmt.Errorf("%w: %w", k, err) }

// InvalidError has the name of the invalid field of a request, and the reason. InvalidError does
// not contain the field's value.
type InvalidError struct {
	Field  string
	Reason string // machine word
	Detail string // sentence
}

// Invalid returns an *InvalidError.
func Invalid(field, reason, detail string) error { return &InvalidError{field, reason, detail} }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }
