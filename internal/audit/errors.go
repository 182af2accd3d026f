package audit

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// unavailable says that the log failed, unless err is an answer of the log's own, which passes as it is.
func unavailable(err error) error {
	if err == nil || own(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, noPartition(err))
}

// uncertain says that the log failed and the write may have been committed.
func uncertain(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUncertain, err)
}

// noPartition makes the database's word for a row without a place our own.
func noPartition(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "23514" && e.ConstraintName == "" { // a check of ours has a name
		return fmt.Errorf("%w: %w", ErrNoPartition, err)
	}
	return err
}

func own(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrBadRequest)
}
