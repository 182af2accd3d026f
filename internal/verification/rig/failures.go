package rig

import (
	"errors"
	"time"

	"sendcode/internal/verification"
)

// try checks once, and says whether a code was compared.
func (r *Rig) Try(c verification.Caller, id, code string) (checked verification.Checked, compared bool, wait time.Duration) {
	r.Helper()
	checked, err := r.Svc.Check(r.Context(), c, id, code)
	var many *verification.TooManyChecksError
	switch {
	case errors.As(err, &many):
		return checked, false, many.RetryAfter
	case err != nil:
		r.Fatalf("Check: %v", err)
	}
	return checked, checked.Compared() && (checked.State == verification.Pending || checked.State == verification.MaxAttemptsReached ||
		checked.Valid), 0
}
