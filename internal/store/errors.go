package store

import (
	"errors"
	"fmt"

	"sendcode/internal/base/fault"
)

// WrapUnavailable wraps err in fault.Unavailable. nil and the store's own errors are returned as
// they are.
func WrapUnavailable(err error) error {
	if err == nil || IsStoreError(err) {
		return err
	}
	return fault.Unavailable.Wrap(err)
}

// WrapUncertain wraps err in fault.Unavailable and fault.Uncertain: the database failed, and the
// write may have been committed.
func WrapUncertain(err error) error {
	return fault.Uncertain.Wrap(err)
}

// IsStoreError reports whether err is one of the store's own errors (fault.Unavailable,
// fault.NotFound, ErrBadRequest, *OtherKeysError), or a *fault.InvalidError such as
// CheckRequest.Judge returns. Callers return all these errors unchanged.
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
	// ErrNoPermission: the login lacks a right on a table, or may not see its rows.
	ErrNoPermission = errors.New("store: a right on the tables is missing")
	// ErrStandbyAway: a commit waits for synchronous standbys, but too few of them answer.
	ErrStandbyAway = errors.New("store: each commit waits for a synchronous standby that does not answer")
	// ErrSchema: the database does not have the schema of this program.
	ErrSchema = errors.New("store: the database has a schema other than this program")
	// ErrLaterSchema: a later version of the program has migrated the database. This version can
	// still serve from the database; no write fails. ErrLaterSchema wraps ErrSchema.
	ErrLaterSchema = fmt.Errorf("%w, a later one", ErrSchema)
)
