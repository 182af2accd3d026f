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

// Failed checks have three bounds. Of the recipient: in the log, together with the attempt (gate.FailureLimit), separately for codes that
// browsers and that secret keys requested. Of the client's networks: in the limiter, before the comparison. Of the app: it refuses no
// check, but while it is exceeded, an alarm is logged and new codes of browsers are longer. A check is counted as failed
// before the comparison; after a right code that is refunded.

// reservation are the buckets in which a check was counted as failed before the comparison.
type reservation struct {
	id      string
	buckets map[quota.Scope]string
}

// takeCheck counts a check as failed before the comparison. Beyond the app's bound it admits the check and counts an alarm. Errors:
// *TooManyChecksError, ErrUnavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (reservation, error) {
	id, err := s.newID()
	if err != nil {
		return reservation{}, err
	}
	checks := s.Policy.Get().ChecksOrDefault()
	p := reservation{string(id[:]), policy.CheckBuckets(c.App, c.IP, ch)}
	rules := slices.DeleteFunc([]quota.Rule{checks.Network, checks.WideNetwork}, func(r quota.Rule) bool { return p.buckets[r.Scope] == "" })
	d, err := s.countCheck(ctx, p, append(rules, checks.App))
	over := err == nil && appBoundExceeded(d)
	if over {
		delete(p.buckets, quota.App) // keeps the app's bucket from growing beyond its bound
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

// appBoundExceeded reports whether the app's bound refused the check.
func appBoundExceeded(d quota.Decision) bool {
	return slices.ContainsFunc(d.Rules, func(r quota.State) bool { return r.Scope.Base() == quota.App && !d.Admitted && r.Used >= r.Limit })
}

// refundCheck refunds a reservation: the code was right, or not compared.
func (s *Service) refundCheck(p reservation) {
	if len(p.buckets) > 0 {
		s.Outbox.RefundLater(p.id, p.buckets)
	}
}

// lockout returns the error of an attempt that the log refused since the recipient is locked out: *TooManyChecksError, or ErrUnavailable.
// It remembers and records the lockout.
func (s *Service) lockout(ctx context.Context, v store.Verification) error {
	out, err := s.Store.LockedOut(ctx, v)
	if err != nil {
		return s.mapStoreError(ctx, err)
	}
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	if out.Wait > 0 {
		s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.ByBrowser}, out, s.Now())
		s.Refusals.Add(store.Send{
			App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale, VerificationID: v.ID,
			Status: store.Refused, BlockedBy: ChecksRule, RetryAfter: out.Wait, Count: 1,
		}, quota.Recipient)
	}
	return &TooManyChecksError{RetryAfter: max(out.Wait, time.Second)} // the lockout may have ended meanwhile
}

// Lockouts returns a recipient's current lockouts, at most one for each kind of caller, for administrators. Error: ErrUnavailable.
func (s *Service) Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) (all []store.Lockout, err error) {
	for _, byBrowser := range []bool{true, false} {
		out, err := s.Store.LockedOut(ctx, store.Verification{App: app, Channel: ch, Recipient: h, ByBrowser: byBrowser})
		if err != nil {
			return nil, s.mapStoreError(ctx, err)
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
