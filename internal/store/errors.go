package store

import (
	"errors"
	"fmt"
)

// Unavailable says that the log failed, unless err is an answer of the log's own, which passes as it is.
func Unavailable(err error) error {
	if err == nil || Own(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Uncertain says that the log failed and the write may have been committed.
func Uncertain(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUncertain, err)
}

func Own(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrBadRequest)
}
