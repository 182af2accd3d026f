package store

import (
	"errors"
)

// Why the log can't be written, as far as the database tells. Each goes with ErrUnavailable.
var (
	// ErrFull: the database has no room left on its disk, or no memory.
	ErrFull = errors.New("store: no room to write")
	// ErrReadOnly: the database, or its file, can only be read.
	ErrReadOnly = errors.New("store: the database is read-only")
)
