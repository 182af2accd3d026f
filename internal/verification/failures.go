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

// Checks bound the failed checks of a client's network and of an app.
type Checks struct {
	Network quota.Rule // scope IP
	App     quota.Rule // scope App
}

// DefaultChecks are wide enough for an office behind one address and for a busy app, and stop a machine.
func DefaultChecks() Checks {
	return Checks{
		Network: quota.Rule{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
		App:     quota.Rule{Name: "app", Scope: quota.App, Limit: 10_000, Window: time.Hour},
	}
}

// checkRules are those that hold now.
func (t Terms) checkRules() []quota.Rule {
	c := t.Checks
	if c == (Checks{}) {
		c = DefaultChecks()
	}
	return []quota.Rule{c.Network, c.App}
}

// place is where a check was counted as a failure beforehand.
type place struct {
	id      string
	buckets map[quota.Scope]string
}

// takeCheck counts a check as a failure before it is compared. Error: *TooManyChecksError, ErrUnavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (place, error) {
	id, err := s.newID()
	if err != nil {
		return place{}, err
	}
	p := place{string(id[:]), map[quota.Scope]string{quota.App: quota.Bucket(c.App, string(ch), "checks", string(quota.App))}}
	rules := s.Terms().checkRules()
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
