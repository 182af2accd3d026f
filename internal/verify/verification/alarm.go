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

// alarm counts events by name. logIfDue logs the counts in one line, at most once every
// alarmInterval.
type alarm struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

// alarmInterval is the least time between two log lines of one alarm, and hintInterval that of
// what is no alarm, but a back end that could do better.
const alarmInterval, hintInterval = time.Minute, time.Hour

// count counts an event under a name. The names come from the configuration, so there are few
// different names.
func (a *alarm) count(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[name]++
}

// alarms are the alarms of all use cases.
type alarms struct {
	*readService
	overload alarm // requests that an admission refused
	breaker  alarm // sends that the breaker refused
	networks alarm // checks that the bound of a network refused
	apps     alarm // checks beyond the bound of an app
	unnamed  alarm // sends of strangers without client_ip
	alike    alarm // sends that a rule on networks refused to a back end
}

// logIfDue writes a log line with args, the alarm's counts, and the attribute see, which names a
// section of the runbook. In the line, the counts have the key that the parameter `what` gives.
// Then logIfDue resets the counts. logIfDue writes nothing if there are no counts, or if the last
// line was written less than alarmInterval ago, or hintInterval.
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

// LogAlarms logs how many failed checks exceeded an app's bound, how many checks a network's bound
// refused, and how many requests were refused by overload. Each count is logged at most once every
// alarmInterval. Package jobs calls LogAlarms.
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

// countUnnamed counts an admitted send for a stranger for whom the back end named no address.
func (a *alarms) countUnnamed(r *parsedRequest) {
	if r.Kind == BackEnd && r.plan.Class.IsStranger() && !r.IP.IsValid() {
		a.unnamed.count(r.App)
		a.LogAlarms(context.Background())
	}
}

// countRefusal counts a refusal by a rule that refuses more than one recipient, if an operator or
// the author of the back end should hear of it.
func (a *alarms) countRefusal(r *parsedRequest, rule quota.State) {
	a.countBreakerRefusal(r.App, rule)
	if r.Kind == BackEnd && policy.CountsByClient(rule.Scope) {
		a.alike.count(r.App)
		a.LogAlarms(context.Background())
	}
}

// countRefusedCheck counts a check that the bound of a network refused, for the metrics and the
// log.
func (a *alarms) countRefusedCheck(ch recipient.Channel, app, rule string) {
	a.Observer.Checked(ch, app, "refused")
	a.Observer.CheckBoundExceeded(ch, app, rule)
	a.networks.count(app + " " + string(ch) + " " + rule)
	a.LogAlarms(context.Background())
}

// countCheckOverBound counts a check beyond the bound of an app, for the metrics and the log. Such
// a check is not refused.
func (a *alarms) countCheckOverBound(ch recipient.Channel, app string) {
	a.Observer.CheckBoundExceeded(ch, app, a.Policy.Get().Checks.App.Name)
	a.apps.count(app + " " + string(ch))
	a.LogAlarms(context.Background())
}

// countBreakerRefusal counts a refused send of an app, if the refusing rule is the breaker
// (policy.BreakerScope), which limits all sends of the service. An operator must act then, so
// countBreakerRefusal logs the count at once if a line is due.
func (a *alarms) countBreakerRefusal(app string, rule quota.State) {
	if rule.Scope == policy.BreakerScope {
		a.breaker.count(app)
		a.logIfDue(&a.breaker, slog.LevelError, "sends refused by breaker", logs.SeeAttack, "apps", "limit",
			rule.Limit, "window",
			rule.Window.String())
	}
}
