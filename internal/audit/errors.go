package audit

import (
	"errors"
	"fmt"
)

// unavailable says that the log failed, unless err is an answer of the log's own, which passes as it is.
func unavailable(err error) error {
	if err == nil || own(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// uncertain says that the log failed and the write may have been committed.
func uncertain(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUncertain, err)
}

func own(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrBadRequest)
}
