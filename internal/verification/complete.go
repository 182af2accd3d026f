package verification

import (
	"context"
	"slices"
	"strings"

	"sendcode/internal/store"
	"sendcode/quota"
)

// The limiter may lose events: by a flush, a restart, a failover, or because a window was made longer after they were
// dropped. The log has those of recipients. So every answer is the stricter of both gates, and the limiter gets back what it
// lost: with a send, whose second gate counts anyway; with a look or a refusal, where the bucket has no valid mark. While
// nothing is lost, no call is made for it.

// logged names what the log reads of a recipient: a bucket is complete for these purposes alone.
func (p Purpose) logged() map[quota.Scope]string {
	return map[quota.Scope]string{quota.Recipient: strings.Join(slices.Sorted(slices.Values(p.Shares)), ","), quota.Failures: ""}
}

// subject is a recipient's bucket in both gates.
type subject struct {
	store.Bucket
	purpose Purpose
	limiter map[quota.Scope]string
}

func (a asked) subject() subject {
	return subject{store.Bucket{App: a.App, Channel: a.to.Channel(), Recipient: a.hash, Purposes: a.purpose.Shares}, a.purpose, a.buckets()}
}

// look asks the limiter, and the log where the limiter may lack events.
func (s *Service) look(ctx context.Context, of subject) (quota.Decision, error) {
	d, err := s.Limiter.Peek(ctx, quota.Request{Rules: of.purpose.Policy.Rules, Buckets: of.limiter, Logged: of.purpose.logged()})
	if err != nil {
		return d, err
	}
	return s.complete(ctx, of, d)
}

// complete is the decision as it is with the events that the limiter may lack, which are written back. Error: the log's.
func (s *Service) complete(ctx context.Context, of subject, d quota.Decision) (quota.Decision, error) {
	if len(d.Incomplete) == 0 {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	var rules []quota.Rule
	events := map[quota.Scope][]quota.Event{}
	for scope, life := range d.Incomplete {
		h, err := s.history(ctx, of, scope, d)
		if err != nil {
			return d, err
		}
		h.Life, events[scope] = life, h.Events
		rules = append(rules, quota.OfScope(of.purpose.Policy.Rules, scope)...)
		if err := s.Limiter.Restore(ctx, h); err != nil {
			s.Logger.Warn("the limiter was not given what the log has", "error", err)
		}
	}
	logged := quota.Evaluate(rules, events, d.At).Rules
	if slices.ContainsFunc(logged, func(s quota.State) bool { return s.Used > 0 }) { // as many are not the same ones
		if both, err := s.Limiter.Peek(ctx, quota.Request{Rules: of.purpose.Policy.Rules, Buckets: of.limiter}); err == nil {
			d.Rules = both.Rules
		}
	}
	d.Rules, d.Incomplete = stricter(slices.Clone(d.Rules), logged), nil
	return d, nil
}

// history is what the log has of one scope, as old on the limiter's clock as it is.
func (s *Service) history(ctx context.Context, of subject, scope quota.Scope, d quota.Decision) (quota.History, error) {
	h := quota.History{Bucket: of.limiter[scope]}
	var err error
	if scope == quota.Recipient {
		h.Keep = of.purpose.keep()
		h.Events, _, err = s.Log.HistoryAt(ctx, of.Bucket, h.Keep, d.Clock, d.At)
		return h, err
	}
	h.Keep = s.Terms().memory()
	events, now, err := s.Log.Rejected(ctx, of.Bucket, h.Keep)
	for _, e := range events {
		h.Events = append(h.Events, quota.Event{ID: e.ID, At: e.At.Add(d.At.Sub(now))})
	}
	return h, err
}

// common are the states of those rules that others has too, in its order.
func common(states, others []quota.State) []quota.State {
	var found []quota.State
	for _, o := range others {
		if i := slices.IndexFunc(states, func(s quota.State) bool { return s.Name == o.Name }); i >= 0 {
			found = append(found, states[i])
		}
	}
	return found
}

// whole is a refusal by the limiter, completed where the caller hears of the recipient's rules. Without the log it is told as
// it is: it is a refusal all the same.
func (s *Service) whole(ctx context.Context, a asked, d quota.Decision) quota.Decision {
	if worst, _ := d.Blocking(); a.Kind != Secret && !inLog(worst.Rule) {
		return d
	}
	completed, err := s.complete(ctx, a.subject(), d)
	if err != nil {
		s.Logger.Warn("a refusal is told as the limiter has it", "error", err)
		return d
	}
	return completed
}

// agreed is what both gates say of a send that they let in. Where the log counted more, the limiter is taught, and asked again.
func (s *Service) agreed(ctx context.Context, a asked, taken quota.Decision, begun store.Begun) quota.Decision {
	if begun.Repeated || taken.Clock == store.LogClock {
		return taken // the waits are read again
	}
	counted := append(slices.Clone(begun.History), quota.Event{ID: string(begun.Send.ID[:]), At: begun.At})
	logged := quota.Evaluate(decidedByLog(a.purpose.Policy.Rules),
		map[quota.Scope][]quota.Event{quota.Recipient: counted, quota.Failures: begun.Rejected}, begun.At).Rules
	if lacks(logged, common(taken.Rules, logged)) {
		if learnt, err := s.teach(ctx, a, taken, begun); err == nil {
			taken.Rules = learnt.Rules
		} else {
			s.Logger.Warn("the limiter was not given what the log has", "error", err)
		}
	}
	taken.Rules = stricter(slices.Clone(taken.Rules), logged)
	return taken
}

// lacks says that the log counts an event that the limiter lacks. Where a calendar's period ends is no sign of it: that differs
// with the clocks.
func lacks(logged, limited []quota.State) bool {
	for i, l := range logged {
		if l.Used > limited[i].Used || !l.Calendar() && l.RetryAfter > limited[i].RetryAfter {
			return true
		}
	}
	return false
}
