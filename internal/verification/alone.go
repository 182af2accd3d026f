package verification

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// While the limiter is away, the log decides alone: exactly, for the recipient's rules. The other scopes are decided
// in this process meanwhile, from what it has seen since. Nobody waits for a limiter that did not answer a moment ago.

// pause is how long the limiter is left alone after it failed; then one request asks it again.
const pause = time.Second

// limits asks the limiter and, while it is away, does without.
type limits struct {
	Limiter
	local  Limiter // decides the other scopes meanwhile
	now    func() time.Time
	logger *slog.Logger
	away   atomic.Int64 // until when, in µs since 1970
	outage outage
}

func newLimits(shared Limiter, now func() time.Time, logger *slog.Logger) *limits {
	return &limits{Limiter: shared, local: quota.NewMemory(now, store.LogClock), now: now, logger: logger}
}

// outage is what the log of the process says of a limiter that does not answer: one line at the beginning and one at the end,
// not one for each request.
type outage struct {
	lasts atomic.Bool
	sends atomic.Int64 // decided without the limiter since it began
}

func (l *limits) lost(err error) {
	if l.outage.lasts.CompareAndSwap(false, true) {
		l.logger.Warn("the limiter is away; the log decides alone", "error", err)
	}
}

func (l *limits) back() {
	if l.outage.lasts.CompareAndSwap(true, false) {
		l.logger.Info("the limiter is back", "sends_decided_by_the_log", l.outage.sends.Swap(0))
	}
}

// errAway says that the log has to decide alone.
var errAway = errors.New("verification: the limiter is away")

// Take asks the limiter, unless it was away a moment ago. With errAway it may or may not have counted the event.
func (l *limits) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return l.ask(ctx, r, l.Limiter.Take)
}

// Peek is Take's twin that spends nothing.
func (l *limits) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return l.ask(ctx, r, l.Limiter.Peek)
}

func (l *limits) ask(ctx context.Context, r quota.Request, call func(context.Context, quota.Request) (quota.Decision, error)) (quota.Decision, error) {
	began := l.now().UnixMicro()
	if began < l.away.Load() {
		return quota.Decision{}, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	d, err := call(ctx, r)
	if err == nil || !errors.Is(err, quota.ErrUnavailable) {
		if began >= l.away.Load() { // an answer to a question from before the failure proves nothing
			l.back()
		}
		return d, err
	}
	l.away.Store(l.now().Add(pause).UnixMicro())
	l.lost(err)
	return quota.Decision{}, errors.Join(errAway, err)
}

// takeAlone decides what the log does not: every scope but the recipient's, and which of the recipient's rules that
// observe would have refused.
func (l *limits) takeAlone(ctx context.Context, r quota.Request) (quota.Decision, error) {
	r.Rules = ungated(r.Rules)
	if len(r.Rules) == 0 {
		return quota.Decision{Admitted: true, At: l.now(), Clock: store.LogClock}, nil
	}
	return l.local.Take(ctx, r)
}

// inLog says whether the log has the events of the rule's scope.
func inLog(r quota.Rule) bool { return r.Scope == quota.Recipient || r.Scope == quota.Failures }

func notInLog(r quota.Rule) bool { return !inLog(r) }

// gated are the recipient's rules that the log decides as well: not those that observe. See onFailures for its other one.
func gated(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(quota.OfScope(rules, quota.Recipient), func(r quota.Rule) bool { return r.Observe })
}

// ungated are those that only the limiter decides. While it is away, nobody does it for a rule that observes failures.
func ungated(rules []quota.Rule) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool {
		return r.Scope == quota.Failures || r.Scope == quota.Recipient && !r.Observe
	})
}

// explainAlone is what every rule says now: the recipient's and its failures' from the log, the others' from this process.
func (s *Service) explainAlone(ctx context.Context, app string, ch recipient.Channel, h recipient.Hash, p Purpose, buckets map[quota.Scope]string) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	b := store.Bucket{App: app, Channel: ch, Recipient: h, Purposes: p.Shares}
	events, now, err := s.Log.History(ctx, b, p.keep())
	if err != nil {
		return quota.Decision{}, err
	}
	history := map[quota.Scope][]quota.Event{quota.Recipient: events}
	if failures := quota.OfScope(p.Policy.Rules, quota.Failures); len(failures) > 0 {
		if history[quota.Failures], _, err = s.Log.Rejected(ctx, b, quota.Longest(failures)); err != nil {
			return quota.Decision{}, err
		}
	}
	d := quota.Evaluate(slices.DeleteFunc(slices.Clone(p.Policy.Rules), notInLog), history, now)
	d.Clock = store.LogClock
	rest, err := s.limits.local.Peek(ctx, quota.Request{Rules: slices.DeleteFunc(slices.Clone(p.Policy.Rules), inLog), Buckets: buckets})
	if err != nil {
		return quota.Decision{}, err
	}
	d.Rules = inOrder(p.Policy.Rules, append(d.Rules, rest.Rules...))
	return d, nil
}

// inOrder puts states back into the order of the policy.
func inOrder(rules []quota.Rule, states []quota.State) []quota.State {
	var sorted []quota.State
	for _, r := range rules {
		for _, s := range states {
			if s.Name == r.Name { // a policy names each rule once
				sorted = append(sorted, s)
			}
		}
	}
	return sorted
}

// teachLater has the limiter learn, once it is back, of a send that the log let in alone.
func (s *Service) teachLater(a asked, id uuid.UUID, at time.Time) {
	s.outbox.owe(debt{
		id: string(id[:]), at: at, buckets: []string{a.buckets()[quota.Recipient]},
		keep: quota.Longest(quota.OfScope(a.purpose.Policy.Rules, quota.Recipient)),
	})
}
