package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Failed checks are limited three times: for the recipient in the log, which decides with the try itself and forgets
// nothing (audit.FailureLimit); and, against who guesses at many recipients, for the client's network and for the app
// by the limiter, before anything is compared. A failure is counted beforehand; a right code takes its own count back.

// wholeApp is the scope of all checks of an app.
const wholeApp quota.Scope = "app"

// checkRules are wide enough for an office behind one address and for a busy app, and stop a machine.
func checkRules() []quota.Rule {
	return []quota.Rule{
		{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
		{Name: "app", Scope: wholeApp, Limit: 10_000, Window: time.Hour},
	}
}

// place is where a check was counted as a failure beforehand.
type place struct {
	id      string
	buckets map[quota.Scope]string
}

// takeCheck counts a check as a failure before it is compared. Error: *TooManyChecksError, ErrUnavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (place, error) {
	id, err := newSendID()
	if err != nil {
		return place{}, err
	}
	p := place{string(id[:]), map[quota.Scope]string{wholeApp: quota.Bucket(c.App, string(ch), "checks", string(wholeApp))}}
	rules := checkRules()
	if c.IP.IsValid() {
		p.buckets[quota.IP] = quota.Bucket(c.App, string(ch), "checks", string(quota.IP), network(c.IP, 32, 64))
	} else {
		rules = rules[1:]
	}
	r := quota.Request{ID: p.id, Rules: rules, Buckets: p.buckets}
	d, err := s.limits.Take(ctx, r)
	if errors.Is(err, errAway) {
		d, err = s.limits.takeAlone(ctx, r)
	}
	switch {
	case err != nil:
		s.Logger.Error("a check could not be counted", "error", err)
		return p, ErrUnavailable
	case !d.Admitted:
		return p, &TooManyChecksError{d.RetryAfter()}
	}
	return p, nil
}

// noFailure takes the count back: nothing was compared, or the code was right.
func (s *Service) noFailure(p place) { s.outbox.giveBack(p.id, p.buckets) }

// barred is the answer to a try that the log did not count, though v is pending: its recipient is at the bound.
func (s *Service) barred(ctx context.Context, v audit.Verification) error {
	wait, err := s.Log.Barred(ctx, v)
	if err != nil {
		return s.unreadable(err)
	}
	s.Observer.Checked(v.Channel, v.App, "barred")
	return &TooManyChecksError{max(wait, time.Second)} // it may have ended since
}
