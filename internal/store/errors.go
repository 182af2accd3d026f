package store

import (
	"errors"
	"fmt"

	"sendcode/internal/base/fault"
)

// WrapUnavailable wraps err in fault.Unavailable, unless err is nil or one of the store's own (see
// IsStoreError).
func WrapUnavailable(err error) error {
	if err == nil || IsStoreError(err) {
		return err
	}
	return fault.Unavailable.Wrap(err)
}

// WrapUncertain is for the error of a write that may have been committed. It wraps err in
// fault.Uncertain, and so in fault.Unavailable.
func WrapUncertain(err error) error {
	return fault.Uncertain.Wrap(err)
}

// IsStoreError reports whether callers return err unchanged: fault.Unavailable, fault.NotFound,
// ErrBadRequest, *OtherKeysError, or the *fault.InvalidError of a CheckRequest.Judge.
func IsStoreError(err error) bool {
	if _, invalid := errors.AsType[*fault.InvalidError](err); invalid {
		return true
	}
	if _, other := errors.AsType[*OtherKeysError](err); other {
		return true
	}
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.NotFound) || errors.Is(err, ErrBadRequest)
}

// These are causes of a failed write. An error that wraps one also wraps fault.Unavailable.
var (
	// ErrNoSpace: disk or memory is full.
	ErrNoSpace = errors.New("store: no room to write")
	// ErrReadOnly: the database or its file is read-only.
	ErrReadOnly = errors.New("store: the database is read-only")
	// ErrNoPermission: the login lacks a right on a table, or row security hides the table's rows
	// from it.
	ErrNoPermission = errors.New("store: a right on the tables is missing")
	// ErrStandbyAway: a commit waits for synchronous standbys, of which too few answer.
	ErrStandbyAway = errors.New("store: each commit waits for a synchronous standby that does not answer")
	// ErrSchema: the schema isn't this program's.
	ErrSchema = errors.New("store: the database has another schema than this program")
	// ErrLaterSchema wraps ErrSchema: a later version has migrated the database. Writes may still
	// work.
	ErrLaterSchema = fmt.Errorf("%w, a later one", ErrSchema)
)
