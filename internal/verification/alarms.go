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

// checkAlarms log what the bounds on failed checks met: a line of each kind at most once a minute, with counts.
type checkAlarms struct {
	networks, apps tally
}

// network counts a check that was refused by the bound of a network.
func (c *checkAlarms) network(s *Service, ch recipient.Channel, app, rule string) {
	s.Observer.Checked(ch, app, "refused")
	s.Observer.CheckBound(ch, app, rule)
	c.networks.add(app + " " + string(ch) + " " + rule)
	c.log(s)
}

// app counts a check beyond the bound of an app: it is compared all the same.
func (c *checkAlarms) app(s *Service, ch recipient.Channel, app string) {
	s.Observer.CheckBound(ch, app, s.Policy.Get().ChecksOrDefault().App.Name)
	c.apps.add(app + " " + string(ch))
	c.log(s)
}

// log writes the lines that are due.
func (c *checkAlarms) log(s *Service) {
	if counts := c.apps.due(s.Now()); counts != nil {
		rule := s.Policy.Get().ChecksOrDefault().App
		s.Logger.Error("codes are being guessed: more checks fail than the app's bound allows; browsers are sent codes of 8 characters",
			"limit", rule.Limit, "window", rule.Window.String(), "checks", counts)
	}
	if counts := c.networks.due(s.Now()); counts != nil {
		s.Logger.Warn("checks were refused: too many failed from one network", "checks", counts)
	}
}

// tally counts what is logged at most once in a while.
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

// due empties the tally when something was counted and a minute has passed since it was emptied last; else it is nil.
func (t *tally) due(now time.Time) map[string]int {
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

// LogAlarms writes the lines on failed checks that are due. It is one of the jobs.
func (s *Service) LogAlarms(context.Context) { s.checks.log(s) }

// breakerAlarm logs that the breaker refuses, at most once a minute: people have to look.
type breakerAlarm struct{ refused tally }

const alarmEvery = time.Minute

func (b *breakerAlarm) note(s *Service, rule quota.State) {
	if rule.Scope != policy.Everything {
		return
	}
	const requests = "requests"
	b.refused.add(requests)
	if counts := b.refused.due(s.Now()); counts != nil {
		s.Logger.Error("the breaker refuses codes", "limit", rule.Limit, "window", rule.Window.String(), requests, counts[requests])
	}
}
