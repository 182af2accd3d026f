package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/audit"
)

// Checked is what a check came to. A wrong, used or expired code is a value, not an error.
type Checked struct {
	View
	Valid bool
}

// Check compares a code with a verification's. The try is counted, durably, before anything is compared (SEC-6), and
// exactly one of several right answers is approved (SEC-5). Errors: *InvalidError, ErrNotFound, ErrUnavailable.
func (s *Service) Check(ctx context.Context, c Caller, id, typed string) (Checked, error) {
	code, err := normalise(typed)
	if err != nil {
		return Checked{}, err
	}
	if _, _, _, err := s.lookup(ctx, c, id); err != nil {
		return Checked{}, err
	}
	// From here the try counts, whether or not the client waits for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	v, counted, now, err := s.Log.Attempt(ctx, id)
	if err != nil {
		return Checked{}, s.unreadable(err)
	}
	if !counted {
		return s.checked(v, now, "ended", false), nil
	}
	right, err := s.code(v)
	if err != nil { // a key that left the ring: not the person's mistake (SEC-10)
		s.Logger.Error("code could not be derived", "error", err)
		return Checked{}, ErrUnavailable
	}
	if !equal(code, right) {
		return s.checked(v, now, "wrong", false), nil
	}
	return s.approve(ctx, v, now)
}

func (s *Service) approve(ctx context.Context, v audit.Verification, now time.Time) (Checked, error) {
	won, err := s.Log.Approve(ctx, v.ID)
	if err != nil {
		return Checked{}, s.unreadable(err)
	}
	if won {
		v.ApprovedAt = now
		return s.checked(v, now, "approved", true), nil
	}
	again, _, now, err := s.Log.Verification(ctx, v.ID)
	if err != nil {
		return Checked{}, s.unreadable(err)
	}
	return s.checked(again, now, "ended", false), nil
}

func (s *Service) checked(v audit.Verification, now time.Time, outcome string, valid bool) Checked {
	s.Observer.Checked(v.Channel, v.App, outcome)
	return Checked{View: view(v, audit.Send{}, now), Valid: valid}
}

func (s *Service) unreadable(err error) error {
	if errors.Is(err, audit.ErrNotFound) {
		return ErrNotFound
	}
	s.Logger.Error("log could not end a verification", "error", err)
	return ErrUnavailable
}
