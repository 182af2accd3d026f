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

// alarm counts events by name, until logIfDue logs the counts in one line.
type alarm struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

// An alarm is logged at most once every alarmInterval. A hint is logged at most once every
// hintInterval: nothing is wrong, but a back end could do better.
const alarmInterval, hintInterval = time.Minute, time.Hour

// Names come from the configuration, so counts stays small.
func (a *alarm) count(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[name]++
}

type alarms struct {
	*readService
	overload alarm // requests that package admission refused
	breaker  alarm // sends that the breaker refused
	networks alarm // checks that the bound of a network refused
	apps     alarm // checks beyond the bound of an app
	unnamed  alarm // a hint: sends for strangers without client_ip
	alike    alarm // a hint: sends that a rule on networks refused to a back end
}

// logIfDue logs the counts of an alarm under the key `what`, and resets them. It does nothing if
// there are no counts, or if the alarm's last line is too recent. see names a section of the
// runbook.
func (a *alarms) logIfDue(of *alarm, level slog.Level, text string, see slog.Attr, what string, args ...any) {
	of.mu.Lock()
	defer of.mu.Unlock()
	interval := alarmInterval
	if of == &a.unnamed || of == &a.alike {
		interval = hintInterval
	}
	if now := a.Now(); len(of.counts) > 0 && now.Sub(of.last) >= interval {
		a.Logger.Log(context.Background(), level, text, append(args, what, of.counts, see)...)
		of.counts, of.last = nil, now
	}
}

// LogAlarms logs each alarm and each hint that is due, except the breaker's alarm. Package jobs
// calls it, so that the last events before a quiet time are logged, too.
func (a *alarms) LogAlarms(context.Context) {
	bound := a.Policy.Get().Checks.App
	a.logIfDue(&a.apps, slog.LevelError,
		"failed checks exceed the app's bound: codes are being guessed, browsers get codes of 8 characters",
		logs.SeeAttack, "checks",
		"limit", bound.Limit, "window", bound.Window.String())
	a.logIfDue(&a.networks, slog.LevelWarn, "checks refused: too many failed from one network", logs.SeeAttack, "checks")
	a.logIfDue(&a.overload, slog.LevelWarn, "requests refused at once: more than can be served in time", logs.SeeDatabaseSlow,
		"requests")
	a.logIfDue(&a.unnamed, slog.LevelWarn, "sends for strangers without client_ip: no rule on networks applied to them, and together they are one network",
		logs.SeeAttack, "apps", "limit", policy.UnnamedRule.Limit, "window", policy.UnnamedRule.Window.String())
	a.logIfDue(&a.alike, slog.LevelWarn, "sends of a back end refused by a rule on networks: is client_ip the address of its proxy?",
		logs.SeeAttack, "apps")
}

// countUnnamed counts an admitted send for a stranger if the back end named no client_ip.
func (a *alarms) countUnnamed(r *parsedRequest) {
	if r.Kind == BackEnd && r.plan.Class.IsStranger() && !r.IP.IsValid() {
		a.unnamed.count(r.App)
		a.LogAlarms(context.Background())
	}
}

// countRefusal counts the refusals that an operator, or the author of the back end, should know
// about.
func (a *alarms) countRefusal(r *parsedRequest, rule quota.State) {
	a.countBreakerRefusal(r.App, rule)
	if r.Kind == BackEnd && policy.CountsByClient(rule.Scope) {
		a.alike.count(r.App)
		a.LogAlarms(context.Background())
	}
}

func (a *alarms) countRefusedCheck(ch recipient.Channel, app, rule string) {
	a.Observer.Checked(ch, app, "refused")
	a.Observer.CheckBoundExceeded(ch, app, rule)
	a.networks.count(app + " " + string(ch) + " " + rule)
	a.LogAlarms(context.Background())
}

// countCheckOverBound counts a check beyond the bound of an app. Such a check is not refused.
func (a *alarms) countCheckOverBound(ch recipient.Channel, app string) {
	a.Observer.CheckBoundExceeded(ch, app, a.Policy.Get().Checks.App.Name)
	a.apps.count(app + " " + string(ch))
	a.LogAlarms(context.Background())
}

// countBreakerRefusal logs at once: the breaker (policy.BreakerScope) limits all sends of the
// service, so an operator must act.
func (a *alarms) countBreakerRefusal(app string, rule quota.State) {
	if rule.Scope == policy.BreakerScope {
		a.breaker.count(app)
		a.logIfDue(&a.breaker, slog.LevelError, "sends refused by breaker", logs.SeeAttack, "apps", "limit",
			rule.Limit, "window",
			rule.Window.String())
	}
}
