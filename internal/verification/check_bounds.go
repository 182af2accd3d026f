package verification

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks have three bounds. Of the recipient: in the log, together with the attempt (gate.FailureLimit), separately for each class
// of callers. Of the client's networks: in the limiter, before the comparison. Of the app: it refuses no check, but while it is exceeded,
// an alarm is logged and new codes of browsers are longer. A check is counted as failed before the comparison, and refunded in the limiter
// if the code was right or was not compared.

// takeCheck counts a check as failed before the comparison, and returns the request with the buckets that count it, for a refund. If only
// the app's bound is exceeded, it admits the check and counts an alarm. Errors: *TooManyChecksError, fault.Unavailable.
func (s *Service) takeCheck(ctx context.Context, c Caller, ch recipient.Channel) (quota.Request, error) {
	r := s.checkRequest(c, ch)
	d, err := s.takeAsNew(ctx, &r)
	over := err == nil && appBoundExceeded(d)
	if over {
		delete(r.Buckets, quota.App) // keeps the app's bucket from growing beyond its bound
		r.Rules = r.Rules[:len(r.Rules)-1]
		d, err = s.takeAsNew(ctx, &r) // the refused event may have been refunded
	}
	switch {
	case err != nil:
		return r, err
	case !d.Admitted:
		worst, _ := d.Blocking()
		s.countRefusedCheck(ch, c.App, worst.Name)
		return r, tooManyChecks(c, worst.Rule, worst.RetryAfter, d.At)
	case over:
		s.countCheckOverBound(ch, c.App)
	}
	return r, nil
}

// takeAsNew counts an event under a new ID, which it sets in the request. It may decide in this process; see gates.Gate.TakeOrLocal.
func (s *Service) takeAsNew(ctx context.Context, r *quota.Request) (quota.Decision, error) {
	id, err := s.newID()
	if err != nil {
		return quota.Decision{}, err
	}
	r.ID = string(id[:])
	d, _, err := s.Gate.TakeOrLocal(ctx, *r)
	return d, err
}

// checkRequest returns the request that counts a failed check, without an ID. The app's bound is the last rule.
func (s *Service) checkRequest(c Caller, ch recipient.Channel) quota.Request {
	checks := s.Policy.Get().Checks
	r := quota.Request{Buckets: policy.CheckBuckets(c.App, c.IP, ch), Rules: []quota.Rule{checks.Network, checks.WideNetwork, checks.App}}
	r.Rules = slices.DeleteFunc(r.Rules, func(rule quota.Rule) bool { return r.Buckets[rule.Scope] == "" })
	return r
}

// appBoundExceeded reports whether the app's bound refused the check.
func appBoundExceeded(d quota.Decision) bool {
	return slices.ContainsFunc(d.Rules, func(r quota.State) bool { return r.Scope == quota.App && !d.Admitted && r.Used >= r.Limit })
}

// lockoutError returns the error for an attempt that the log refused because of a lockout: *TooManyChecksError, or fault.Unavailable if the
// log does not answer. It caches and records the lockout.
func (s *Service) lockoutError(ctx context.Context, c Caller, v store.Verification) error {
	out, err := s.Store.LockedOut(ctx, v)
	if err != nil {
		return err
	}
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	if out.Wait > 0 {
		s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.Class}, out.Wait, s.Now())
		s.Refusals.Add(store.Send{
			App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale, VerificationID: v.ID,
			Status: store.Refused, BlockedBy: ChecksRule, RetryAfter: out.Wait, Count: 1,
		}, quota.Recipient)
	}
	if out.Wait <= 0 { // it ended meanwhile
		return &TooManyChecksError{RetryAfter: time.Second}
	}
	return tooManyChecks(c, lockoutRule, out.Wait, s.Now())
}

// alarm counts events by name, for a log line at most once every alarmEvery.
type alarm struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

const alarmEvery = time.Minute

// count counts an event. The names must be few: they come from the configuration.
func (a *alarm) count(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[name]++
}

// log writes a line with args and the counts, under the key what, and resets the counts. It does nothing if there are no counts, or if the
// last line is younger than alarmEvery.
func (a *alarm) log(s *Service, level slog.Level, text, what string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := s.Now(); len(a.counts) > 0 && now.Sub(a.last) >= alarmEvery {
		s.Logger.Log(context.Background(), level, text, append(args, what, a.counts)...)
		a.counts, a.last = nil, now
	}
}

// LogAlarms logs the counts of checks that exceeded a bound, if a line is due. Package jobs calls it.
func (s *Service) LogAlarms(context.Context) {
	bound := s.Policy.Get().Checks.App
	s.apps.log(s, slog.LevelError,
		"failed checks exceed the app's bound: codes are being guessed, browsers get codes of 8 characters", "checks",
		"limit", bound.Limit, "window", bound.Window.String())
	s.networks.log(s, slog.LevelWarn, "checks refused: too many failed from one network", "checks")
}

// countRefusedCheck counts a check that the bound of a network refused, for the metrics and the log.
func (s *Service) countRefusedCheck(ch recipient.Channel, app, rule string) {
	s.Observer.Checked(ch, app, "refused")
	s.Observer.CheckBound(ch, app, rule)
	s.networks.count(app + " " + string(ch) + " " + rule)
	s.LogAlarms(context.Background())
}

// countCheckOverBound counts a check beyond the bound of an app, for the metrics and the log. Such a check is not refused.
func (s *Service) countCheckOverBound(ch recipient.Channel, app string) {
	s.Observer.CheckBound(ch, app, s.Policy.Get().Checks.App.Name)
	s.apps.count(app + " " + string(ch))
	s.LogAlarms(context.Background())
}

// countBreakerRefusal counts an app's send that the breaker refused, and logs if a line is due, since an operator must act. It ignores
// other rules.
func (s *Service) countBreakerRefusal(app string, rule quota.State) {
	if rule.Scope == policy.Everything {
		s.breaker.count(app)
		s.breaker.log(s, slog.LevelError, "sends refused by breaker", "apps", "limit", rule.Limit, "window", rule.Window.String())
	}
}
