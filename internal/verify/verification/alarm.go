package verification

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/quota"
)

// alarm counts events by name, for a log line at most once every alarmInterval.
type alarm struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

// alarmInterval is the least time between two log lines of one alarm.
const alarmInterval = time.Minute

// count counts an event. The names must be few: they come from the configuration.
func (a *alarm) count(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[name]++
}

// logIfDue writes a log line with args, the counts under the key what, and the runbook section see.
// Then it resets the counts. It writes nothing if there are no counts, or if the last line is
// younger than alarmInterval.
func (a *alarm) logIfDue(s *Service, level slog.Level, text string, see slog.Attr, what string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := s.Now(); len(a.counts) > 0 && now.Sub(a.last) >= alarmInterval {
		s.Logger.Log(context.Background(), level, text, append(args, what, a.counts, see)...)
		a.counts, a.last = nil, now
	}
}

// LogAlarms logs the counts of exceeded bounds on checks, and of refusals by overload, if a line is
// due. Package jobs calls it.
func (s *Service) LogAlarms(context.Context) {
	bound := s.Policy.Get().Checks.App
	s.apps.logIfDue(s, slog.LevelError,
		"failed checks exceed the app's bound: codes are being guessed, browsers get codes of 8 characters",
		logs.SeeAttack, "checks",
		"limit", bound.Limit, "window", bound.Window.String())
	s.networks.logIfDue(s, slog.LevelWarn, "checks refused: too many failed from one network", logs.SeeAttack, "checks")
	s.overload.logIfDue(s, slog.LevelWarn, "requests refused at once: more than can be served in time", logs.SeeDatabaseSlow,
		"requests")
}

// countRefusedCheck counts a check that the bound of a network refused, for the metrics and the
// log.
func (s *Service) countRefusedCheck(ch recipient.Channel, app, rule string) {
	s.Observer.Checked(ch, app, "refused")
	s.Observer.CheckBoundExceeded(ch, app, rule)
	s.networks.count(app + " " + string(ch) + " " + rule)
	s.LogAlarms(context.Background())
}

// countCheckOverBound counts a check beyond the bound of an app, for the metrics and the log. Such
// a check is not refused.
func (s *Service) countCheckOverBound(ch recipient.Channel, app string) {
	s.Observer.CheckBoundExceeded(ch, app, s.Policy.Get().Checks.App.Name)
	s.apps.count(app + " " + string(ch))
	s.LogAlarms(context.Background())
}

// countBreakerRefusal counts an app's send that the breaker refused. It logs if a line is due,
// since an operator must act. It ignores other rules.
func (s *Service) countBreakerRefusal(app string, rule quota.State) {
	if rule.Scope == policy.BreakerScope {
		s.breaker.count(app)
		s.breaker.logIfDue(s, slog.LevelError, "sends refused by breaker", logs.SeeAttack, "apps", "limit",
			rule.Limit, "window",
			rule.Window.String())
	}
}
