package store

import (
	"errors"
	"fmt"

	"sendcode/internal/base/fault"
)

// WrapUnavailable wraps err in fault.Unavailable. If err is nil or one of the store's own errors,
// WrapUnavailable returns err unchanged.
func WrapUnavailable(err error) error {
	if err == nil || IsStoreError(err) {
		return err
	}
	return fault.Unavailable.Wrap(err)
}

// WrapUncertain wraps err in fault.Unavailable and fault.Uncertain. This means that the database
// failed, and that the write may or may not be committed.
func WrapUncertain(err error) error {
	return fault.Uncertain.Wrap(err)
}

// IsStoreError reports whether err is one of the store's own errors or a *fault.InvalidError. The
// store's own errors are fault.Unavailable, fault.NotFound, ErrBadRequest and *OtherKeysError.
// CheckRequest.Judge may return a *fault.InvalidError. Callers return all these errors unchanged.
func IsStoreError(err error) bool {
	if _, invalid := errors.AsType[*fault.InvalidError](err); invalid {
		return true
	}
	if _, other := errors.AsType[*OtherKeysError](err); other {
		return true
	}
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.NotFound) || errors.Is(err, ErrBadRequest)
}

// Causes of a failed write. An error that wraps one of them also wraps fault.Unavailable.
var (
	// ErrNoSpace: the database's disk or memory is full.
	ErrNoSpace = errors.New("store: no room to write")
	// ErrReadOnly: the database or its file is read-only.
	ErrReadOnly = errors.New("store: the database is read-only")
	// ErrNoPermission: the database login lacks a right on a table, or row security hides the
	// table's rows from the login.
	ErrNoPermission = errors.New("store: a right on the tables is missing")
	// ErrStandbyAway: a commit waits for synchronous standbys, but too few of them answer.
	ErrStandbyAway = errors.New("store: each commit waits for a synchronous standby that does not answer")
	// ErrSchema: the database does not have the schema of this program.
	ErrSchema = errors.New("store: the database has a schema other than this program")
	// ErrLaterSchema: a later version of the program has migrated the database. ErrLaterSchema does
	// not mean that writes fail, because this version can still work with the database.
	// ErrLaterSchema wraps ErrSchema.
	ErrLaterSchema = fmt.Errorf("%w, a later one", ErrSchema)
)
