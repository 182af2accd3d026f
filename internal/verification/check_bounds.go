package verification

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/buckets"
	"sendcode/internal/fault"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Failed checks have three bounds. Of the recipient: in the database, together with the check (gate.FailureLimit), separately for each
// class of callers. Of the client's networks: in the limiter, before the comparison, and refunded unless the code was wrong. Of the app: in
// the limiter, after a wrong code. It refuses no check, but while it is exceeded, an alarm is logged and new codes of browsers are longer.

// takeNetworks counts a check as failed for the client's networks, before the comparison, and returns the request, for a refund. It counts
// nothing for a caller without an address, and for a check that will not be counted. Errors: *fault.InvalidError, *TooManyChecksError,
// fault.Unavailable.
func (s *Service) takeNetworks(ctx context.Context, c Caller, id, typed string) (r quota.Request, err error) {
	if !c.IP.IsValid() {
		return r, nil
	}
	v, _, now, err := s.Store.Verification(ctx, id)
	if err == nil {
		_, err = s.normalize(c, v, typed)
	}
	if errors.Is(err, fault.NotFound) {
		v = store.Verification{Channel: recipient.Email}
	}
	checks := s.Policy.Get().Checks
	r.Rules = []quota.Rule{checks.Network, checks.WideNetwork}
	r.Buckets = buckets.Checks(c.App, c.IP, v.Channel)
	switch {
	case errors.Is(err, fault.NotFound): // asks as for a known one, and counts nothing
		_, _, _ = s.Gates.PeekOrLocal(ctx, r)
		return quota.Request{}, nil
	case err != nil || StateOf(v, now) != Pending:
		return quota.Request{}, err
	}
	d, err := s.takeAsNew(ctx, &r)
	if err == nil && !d.Admitted {
		worst, _ := d.Blocking()
		s.countRefusedCheck(v.Channel, c.App, worst.Name)
		err = tooManyChecks(c, worst.Rule, worst.RetryAfter, d.At)
	}
	return r, err
}

// takeAsNew counts an event under a new ID, which it sets in the request. It may decide in this process; see gates.Gates.TakeOrLocal.
func (s *Service) takeAsNew(ctx context.Context, r *quota.Request) (quota.Decision, error) {
	id, err := s.newID()
	if err != nil {
		return quota.Decision{}, err
	}
	r.ID = string(id[:])
	d, _, err := s.Gates.TakeOrLocal(ctx, *r)
	return d, err
}

// wrongCode returns the request that counts a wrong code for an app, without an ID.
func (s *Service) wrongCode(app string, ch recipient.Channel) quota.Request {
	return quota.Request{Buckets: map[quota.Scope]string{quota.App: buckets.AppChecks(app, ch)},
		Rules: []quota.Rule{s.Policy.Get().Checks.App}}
}

// countWrongCode counts a wrong code for its app, and an alarm if that has too many.
func (s *Service) countWrongCode(ctx context.Context, app string, ch recipient.Channel) {
	r := s.wrongCode(app, ch)
	switch d, err := s.takeAsNew(ctx, &r); {
	case err != nil: // the check is counted in the database, and its result is known
		s.Logger.Error("could not count wrong code for app", "error", err)
	case !d.Admitted:
		s.countCheckOverBound(ch, app)
	}
}

// lockoutError returns the *TooManyChecksError for a check that the database refused because of a lockout. It caches and records the
// lockout.
func (s *Service) lockoutError(c Caller, checked store.Checked) error {
	v, wait := checked.Verification, checked.Lockout.Wait
	s.Observer.Checked(v.Channel, v.App, "locked_out")
	s.lockouts.remember(lockoutKey{v.App, v.Channel, v.Recipient, v.Class}, wait, s.Now())
	s.Refusals.Add(store.Send{
		App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To, Locale: v.Locale, VerificationID: v.ID,
		Status: store.Refused, BlockedBy: ChecksRule, RetryAfter: wait, Count: 1,
	}, quota.Recipient)
	return tooManyChecks(c, lockoutRule, wait, s.Now())
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
	s.overload.log(s, slog.LevelWarn, "requests refused at once: more than can be served in time", "requests")
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
