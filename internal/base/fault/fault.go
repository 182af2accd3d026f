// Package fault has the errors that packages pass to each other: the database and the use cases
// return them, and package server maps each to a status. Another error may wrap one of them and add
// the cause, so compare with errors.Is and errors.AsType.
package fault

import "fmt"

// Kind is the kind of a failure. A Kind is an error itself.
type Kind string

// The kinds of errors.
const (
	// NotFound: there is no such row, or the row belongs to another app. The answer must not show
	// which of the two is true.
	NotFound Kind = "not found"
	// Unavailable: the database or the limiter did not answer, or cannot serve now. Nothing was
	// written, and counted events are refunded, unless the error is also Uncertain.
	Unavailable Kind = "unavailable"
	// Uncertain is an Unavailable error with an unknown outcome: the write may have been committed,
	// so a send or an attempt may count.
	Uncertain Kind = "unavailable, and the outcome is not known"
)

func (k Kind) Error() string { return string(k) }

// Is makes errors.Is treat Uncertain as Unavailable, too.
func (k Kind) Is(target error) bool { return k == Uncertain && target == Unavailable }

// Wrap returns an error of this kind with err as its cause. Its text begins with the kind. err must
// not be nil.
func (k Kind) Wrap(err error) error { return fmt.Errorf("%w: %w", k, err) }

// InvalidError names the invalid field of a request and the reason. It does not contain the field's
// value.
type InvalidError struct {
	Field  string
	Reason string // machine word
	Detail string // sentence
}

// Invalid returns an *InvalidError.
func Invalid(field, reason, detail string) error { return &InvalidError{field, reason, detail} }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }
