package verification

import (
	"context"
	"maps"
	"sync"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/quota"
)

// checkAlarms counts checks that exceeded a bound on failed checks, and logs the counts: a line for networks and one for apps, each at
// most once a minute.
type checkAlarms struct {
	networks, apps tally
}

// network counts a check that the bound of a network refused, for the metrics and the log.
func (c *checkAlarms) network(s *Service, ch recipient.Channel, app, rule string) {
	s.Observer.Checked(ch, app, "refused")
	s.Observer.CheckBound(ch, app, rule)
	c.networks.add(app + " " + string(ch) + " " + rule)
	c.log(s)
}

// app counts a check beyond the bound of an app, for the metrics and the log. Such a check is not refused.
func (c *checkAlarms) app(s *Service, ch recipient.Channel, app string) {
	s.Observer.CheckBound(ch, app, s.Policy.Get().ChecksOrDefault().App.Name)
	c.apps.add(app + " " + string(ch))
	c.log(s)
}

// log writes the lines that are due, and resets their counts.
func (c *checkAlarms) log(s *Service) {
	if counts := c.apps.drainDue(s.Now()); counts != nil {
		rule := s.Policy.Get().ChecksOrDefault().App
		s.Logger.Error("codes are being guessed: more checks fail than the app's bound allows; browsers are sent codes of 8 characters",
			"limit", rule.Limit, "window", rule.Window.String(), "checks", counts)
	}
	if counts := c.networks.drainDue(s.Now()); counts != nil {
		s.Logger.Warn("checks were refused: too many failed from one network", "checks", counts)
	}
}

// tally counts events by name, for a log line at most once every alarmEvery.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	last   time.Time
}

// maxTallied bounds the names in a line; configured apps and channels are far fewer.
const maxTallied = 100

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if _, known := t.counts[name]; known || len(t.counts) < maxTallied {
		t.counts[name]++
	}
}

// drainDue returns the counts and resets them, if there are any and a minute has passed since the last reset; else nil.
func (t *tally) drainDue(now time.Time) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.counts) == 0 || now.Sub(t.last) < alarmEvery {
		return nil
	}
	counts := maps.Clone(t.counts)
	clear(t.counts)
	t.last = now
	return counts
}

// LogAlarms logs the counts of checks that exceeded a bound, if a line is due. Package jobs calls it.
func (s *Service) LogAlarms(context.Context) { s.checks.log(s) }

// breakerAlarm logs an error when the breaker refuses sends, at most once a minute, since an operator must act.
type breakerAlarm struct{ refused tally }

const alarmEvery = time.Minute

// countRefusal counts a refusal by the breaker, and logs if a line is due. It ignores other rules.
func (b *breakerAlarm) countRefusal(s *Service, rule quota.State) {
	if rule.Scope != policy.Everything {
		return
	}
	const requests = "requests"
	b.refused.add(requests)
	if counts := b.refused.drainDue(s.Now()); counts != nil {
		s.Logger.Error("the breaker refuses codes", "limit", rule.Limit, "window", rule.Window.String(), requests, counts[requests])
	}
}
