package verification

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// correct tells the limiter what the log knew better: its own place goes, the true history comes in. The answer is the
// log's, and of each rule what the limiter says where that is longer, or where the log does not decide it. The limiter
// may still say that there is room: its clock was set ahead, and what it counts already keeps its instant.
func (s *Service) correct(ctx context.Context, a asked, id uuid.UUID, taken quota.Decision, begun store.Begun) quota.Decision {
	own := decidedByLog(a.purpose.Policy.Rules)
	d := quota.Evaluate(own, map[quota.Scope][]quota.Event{quota.Recipient: begun.History, quota.Failures: begun.Rejected}, begun.Now)
	d.Clock = begun.Clock
	states := taken.Rules
	if learnt, err := s.unlearn(ctx, a, id, taken, begun); err == nil {
		states = learnt.Rules
		d.Rules = stricter(d.Rules, states)
	} else {
		s.outbox.giveBack(string(id[:]), a.buckets())
	}
	for _, state := range states {
		if !slices.ContainsFunc(own, func(r quota.Rule) bool { return r.Name == state.Name }) {
			d.Rules = append(d.Rules, state)
		}
	}
	d.Rules = inOrder(a.purpose.Policy.Rules, d.Rules)
	return d
}

// decidedByLog are the rules that the log explains.
func decidedByLog(rules []quota.Rule) []quota.Rule {
	own := quota.OfScope(rules, quota.Recipient)
	if r := onFailures(rules); r.Limit > 0 {
		own = append(own, r)
	}
	return own
}

// stricter is of each of the first states the one with the longer wait, and with as long a one that which counts more.
func stricter(states, others []quota.State) []quota.State {
	for i, s := range states {
		for _, o := range others {
			if o.Name == s.Name && cmp.Or(cmp.Compare(o.RetryAfter, s.RetryAfter), cmp.Compare(o.Used, s.Used)) > 0 {
				states[i], s = o, o
			}
		}
	}
	return states
}

// errOtherClock says that the limiter can't be told a history, as it is not on its clock.
var errOtherClock = errors.New("verification: the history is on another clock")

// unlearn takes a refused send out of the limiter, and teaches it the history.
func (s *Service) unlearn(ctx context.Context, a asked, id uuid.UUID, taken quota.Decision, begun store.Begun) (quota.Decision, error) {
	if begun.Clock != taken.Clock || begun.Clock == store.LogClock {
		return quota.Decision{}, errOtherClock
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	if err := s.Limiter.Refund(ctx, string(id[:]), values(a.buckets())...); err != nil {
		return quota.Decision{}, err
	}
	return s.teach(ctx, a, taken, begun)
}

// teach writes the history into the limiter, and looks at what that makes of it.
func (s *Service) teach(ctx context.Context, a asked, taken quota.Decision, begun store.Begun) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	history := slices.Clone(begun.History)
	for i := range history { // an age is an age, wherever the log saw the limiter's now
		history[i].At = history[i].At.Add(taken.At.Sub(begun.At))
	}
	keep := quota.Longest(quota.OfScope(a.purpose.Policy.Rules, quota.Recipient))
	if err := s.Limiter.Record(ctx, a.buckets()[quota.Recipient], keep, history); err != nil {
		return quota.Decision{}, err
	}
	if err := s.learnFailures(ctx, failuresBucket(a.App, a.to.Channel(), a.hash), begun.Rejected, begun.At); err != nil {
		return quota.Decision{}, err
	}
	return s.Limiter.Peek(ctx, quota.Request{Rules: a.purpose.Policy.Rules, Buckets: a.buckets()})
}

// values are the buckets that a place is taken in, and given back.
func values(buckets map[quota.Scope]string) []string {
	var all []string
	for scope, b := range buckets {
		if scope.Counted() {
			all = append(all, b)
		}
	}
	return all
}

func (s *Service) refused(a asked, d quota.Decision, outcome string) Answer {
	worst, _ := d.Blocking()
	s.alarmed(worst)
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = store.Refused, worst.Name, worst.RetryAfter, 1
	row.Reference = "" // free text, and nothing came of the request that it could be found by
	s.refusals.add(row, worst.Scope, s.Now())
	s.Observer.Decided(a.to.Channel(), a.App, outcome, worst.Name)
	return Answer{Quota: Public(d, a.Caller, a.own), Policy: a.purpose.Policy, View: View{To: a.to.Masked(), Channel: a.to.Channel(), Purpose: a.purpose.Name}}
}
