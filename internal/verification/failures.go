package verification

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks are limited three times. For the recipient in the log, which decides with the try itself and forgets nothing
// (gate.FailureLimit), apart for codes that browsers and that secret keys asked for. For the client's networks by the limiter,
// before anything is compared. And for the app, which refuses nobody: while its bound is passed, people are alarmed and browsers'
// new codes are longer. A failure is counted beforehand; a right code takes its own count back.

// Checks bound the failed checks of a client's networks and of an app.
type Checks struct {
	Network     quota.Rule // scope IP
	WideNetwork quota.Rule // scope Network
	App         quota.Rule // scope App; refuses nobody
}

// DefaultChecks are wide enough for an office behind one address and for a busy app, and stop a machine.
func DefaultChecks() Checks {
	return Checks{
		Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
		WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 300, Window: time.Hour},
		App:         quota.Rule{Name: "app", Scope: quota.App, Limit: 10_000, Window: time.Hour},
	}
}

// checks are the bounds that hold now.
func (t Terms) checks() Checks {
	c := t.Checks
	if c == (Checks{}) {
		c = DefaultChecks()
	}
	return c
}

// place is where a check was counted as a failure beforehand.
type place struct {
	id      string
	buckets map[quota.Scope]string
}

func appChecks(app string, ch recipient.Channel) string {
	return quota.Bucket(app, string(ch), "checks", string(quota.App))
}

// checkBuckets are those of a check. A caller whose client is not known has no networks: a back end's own address is that of all
// its users.
func checkBuckets(c Caller, ch recipient.Channel) map[quota.Scope]string {
	all := map[quota.Scope]string{quota.App: appChecks(c.App, ch)}
	for scope, subject := range map[quota.Scope]string{quota.IP: network(c.IP, 32, 64), quota.Network: network(c.IP, 24, 48)} {
		if subject != "" {
			all[scope] = quota.Bucket(c.App, string(ch), "checks", string(scope), subject)
		}
	}
	return all
}

// takeCheck counts a check as a failure before it is compared. Error: *TooManyChecksError, ErrUnavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (place, error) {
	id, err := s.newID()
	if err != nil {
		return place{}, err
	}
	checks := s.Terms().checks()
	p := place{string(id[:]), checkBuckets(c, ch)}
	rules := slices.DeleteFunc([]quota.Rule{checks.Network, checks.WideNetwork}, func(r quota.Rule) bool { return p.buckets[r.Scope] == "" })
	d, err := s.countCheck(ctx, p, append(rules, checks.App))
	over := err == nil && passed(d)
	if over {
		delete(p.buckets, quota.App) // so its bucket holds no more events than the bound
		d, err = s.countCheck(ctx, p, rules)
	}
	switch {
	case err != nil:
		s.Logger.Error("a check could not be counted", "error", err)
		return p, ErrUnavailable
	case !d.Admitted:
		worst, _ := d.Blocking()
		s.checkAlarms.network(s, ch, c.App, worst.Name)
		return p, &TooManyChecksError{RetryAfter: worst.RetryAfter}
	case over:
		s.checkAlarms.app(s, ch, c.App)
	}
	return p, nil
}

// countCheck asks the limiter, or this process while that is away. Without a rule there is nothing to ask.
func (s *Service) countCheck(ctx context.Context, p place, rules []quota.Rule) (quota.Decision, error) {
	if len(rules) == 0 {
		return quota.Decision{Admitted: true}, nil
	}
	r := quota.Request{ID: p.id, Rules: rules, Buckets: p.buckets}
	d, err := s.limits.Take(ctx, r)
	if errors.Is(err, errAway) {
		return s.limits.takeAlone(ctx, r)
	}
	return d, err
}

// passed says that an app's bound is.
func passed(d quota.Decision) bool {
	return slices.ContainsFunc(d.Rules, func(r quota.State) bool { return r.Scope.Base() == quota.App && !d.Admitted && r.Used >= r.Limit })
}

// noFailure takes the count back: nothing was compared, or the code was right.
func (s *Service) noFailure(p place) {
	if len(p.buckets) > 0 {
		s.outbox.giveBack(p.id, p.buckets)
	}
}

// lockout is the answer to a try that the log did not count, though v is pending: its recipient is at the bound.
func (s *Service) lockout(ctx context.Context, v store.Verification) error {
	out, err := s.Log.LockedOut(ctx, v)
	if err != nil {
		return s.unreadable(err)
	}
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	if out.Wait > 0 {
		s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.ByBrowser}, out, s.Now())
		s.refusals.add(store.Send{
			App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale, VerificationID: v.ID,
			Status: store.Refused, BlockedBy: ChecksRule, RetryAfter: out.Wait, Count: 1,
		}, quota.Recipient, s.Now())
	}
	return &TooManyChecksError{RetryAfter: max(out.Wait, time.Second)} // it may have ended since
}

// Lockouts are the kinds of callers whose codes for a recipient cannot be checked now, for the administrator. Error: ErrUnavailable.
func (s *Service) Lockouts(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash) (all []store.Lockout, err error) {
	for _, byBrowser := range []bool{true, false} {
		out, err := s.Log.LockedOut(ctx, store.Verification{App: app, Channel: ch, Recipient: h, ByBrowser: byBrowser})
		if err != nil {
			return nil, s.unavailable(err)
		}
		if out.Wait > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}
