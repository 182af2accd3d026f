package verification

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks are limited three times. For the recipient in the log, which decides with the try itself and forgets nothing
// (gate.FailureLimit), apart for codes that browsers and that secret keys asked for. For the client's networks by the limiter,
// before anything is compared. And for the app, which refuses no check: while its bound is passed, an alarm is logged and browsers'
// new codes are longer. A failure is counted beforehand; a right code takes its own count back.

// reservation is where a check was counted as a failure beforehand.
type reservation struct {
	id      string
	buckets map[quota.Scope]string
}

// takeCheck counts a check as a failure before it is compared. Error: *TooManyChecksError, ErrUnavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (reservation, error) {
	id, err := s.newID()
	if err != nil {
		return reservation{}, err
	}
	checks := s.Policy.Get().ChecksOrDefault()
	p := reservation{string(id[:]), policy.CheckBuckets(c.App, c.IP, ch)}
	rules := slices.DeleteFunc([]quota.Rule{checks.Network, checks.WideNetwork}, func(r quota.Rule) bool { return p.buckets[r.Scope] == "" })
	d, err := s.countCheck(ctx, p, append(rules, checks.App))
	over := err == nil && passed(d)
	if over {
		delete(p.buckets, quota.App) // so its bucket holds no more events than the bound
		d, err = s.countCheck(ctx, p, rules)
	}
	switch {
	case err != nil:
		s.Logger.ErrorContext(ctx, "a check could not be counted", "error", err)
		return p, ErrUnavailable
	case !d.Admitted:
		worst, _ := d.Blocking()
		s.checks.network(s, ch, c.App, worst.Name)
		return p, &TooManyChecksError{RetryAfter: worst.RetryAfter}
	case over:
		s.checks.app(s, ch, c.App)
	}
	return p, nil
}

func (s *Service) countCheck(ctx context.Context, p reservation, rules []quota.Rule) (quota.Decision, error) {
	return s.Gate.TakeCheck(ctx, quota.Request{ID: p.id, Rules: rules, Buckets: p.buckets})
}

// passed says that an app's bound is.
func passed(d quota.Decision) bool {
	return slices.ContainsFunc(d.Rules, func(r quota.State) bool { return r.Scope.Base() == quota.App && !d.Admitted && r.Used >= r.Limit })
}

// noFailure takes the count back: nothing was compared, or the code was right.
func (s *Service) noFailure(p reservation) {
	if len(p.buckets) > 0 {
		s.Outbox.RefundLater(p.id, p.buckets)
	}
}

// lockout is the answer to a try that the log did not count, though v is pending: its recipient is at the bound.
func (s *Service) lockout(ctx context.Context, v store.Verification) error {
	out, err := s.Store.LockedOut(ctx, v)
	if err != nil {
		return s.failed(ctx, err)
	}
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	if out.Wait > 0 {
		s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.ByBrowser}, out, s.Now())
		s.Refusals.Add(store.Send{
			App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale, VerificationID: v.ID,
			Status: store.Refused, BlockedBy: ChecksRule, RetryAfter: out.Wait, Count: 1,
		}, quota.Recipient)
	}
	return &TooManyChecksError{RetryAfter: max(out.Wait, time.Second)} // it may have ended since
}

// Lockouts are the kinds of callers whose codes for a recipient cannot be checked now, for the administrator. Error: ErrUnavailable.
func (s *Service) Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) (all []store.Lockout, err error) {
	for _, byBrowser := range []bool{true, false} {
		out, err := s.Store.LockedOut(ctx, store.Verification{App: app, Channel: ch, Recipient: h, ByBrowser: byBrowser})
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
