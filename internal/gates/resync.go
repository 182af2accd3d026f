package gates

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// RevertOverruled handles a send that the limiter admitted and the database refused: it refunds the send in the limiter and writes the
// database's history to the limiter. The decision has the database's state of each rule, but the limiter's if that is stricter or if the
// database does not decide the rule. giveBack: the limiter could not be changed, so the caller has to refund the send.
func (g *Gate) RevertOverruled(ctx context.Context, s policy.Subject, id uuid.UUID, taken quota.Decision,
	begun store.Begun) (d quota.Decision, giveBack bool) {
	own := policy.ExplainedByLog(s.Purpose.Policy.Rules)
	d = quota.Evaluate(own, map[quota.Scope][]quota.Event{quota.Recipient: begun.History, quota.Failures: begun.Rejected}, begun.Now)
	if d.Clock = begun.NowClock; d.Clock != store.LogClock {
		d.At = taken.At // begun.Now is at most a second after the database's time
	}
	states := taken.Rules
	if synced, err := g.refundAndWriteHistory(ctx, s, id, taken, begun); err == nil {
		states = synced.Rules
		d.Rules = stricter(d.Rules, states)
	} else {
		giveBack = true
	}
	for _, state := range states {
		if !slices.ContainsFunc(own, func(r quota.Rule) bool { return r.Name == state.Name }) {
			d.Rules = append(d.Rules, state)
		}
	}
	d.Rules = statesInOrder(s.Purpose.Policy.Rules, d.Rules)
	return d, giveBack
}

// stricter replaces each of the states by the one of the same rule in others if that has a longer wait or, with equal waits, counts
// more. It changes states in place.
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

// errOtherClock says that a history is not on the limiter's clock, so the limiter cannot take it.
var errOtherClock = errors.New("gates: history on another clock")

// refundAndWriteHistory refunds a send in the limiter and writes the database's history to it. Error: errOtherClock, or of the limiter.
func (g *Gate) refundAndWriteHistory(ctx context.Context, s policy.Subject, id uuid.UUID, taken quota.Decision,
	begun store.Begun) (quota.Decision, error) {
	if begun.NowClock != taken.Clock || begun.NowClock == store.LogClock {
		return quota.Decision{}, errOtherClock
	}
	if err := g.Refund(ctx, string(id[:]), policy.CountedBuckets(s.Buckets())...); err != nil {
		return quota.Decision{}, err
	}
	d, err := g.writeHistory(ctx, s, taken, begun, begun.History)
	if err == nil && len(begun.History) > 0 {
		g.countRebuild()
	}
	return d, err
}

// writeHistory writes the database's counted events and failures to the limiter, and returns the limiter's states after that.
func (g *Gate) writeHistory(ctx context.Context, s policy.Subject, taken quota.Decision, begun store.Begun,
	counted []quota.Event) (quota.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	history := slices.Clone(counted)
	for i := range history { // keep each event's age, from the database's clock to the limiter's
		history[i].At = history[i].At.Add(taken.At.Sub(begun.At))
	}
	buckets := s.Buckets()
	h := quota.History{Bucket: buckets[quota.Recipient], Keep: s.Purpose.LongestRecipientWindow(), Events: history, DoubtFor: DoubtFor}
	if err := g.shared.Restore(ctx, h); err != nil {
		return quota.Decision{}, err
	}
	if err := g.RecordFailures(ctx, s.Failures(), begun.Rejected, begun.At); err != nil {
		return quota.Decision{}, err
	}
	return g.callLimiter(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets}, g.shared.Peek)
}

// UpdateEventTime sets the instant of a send in the limiter's recipient bucket to that of this Take, as the database will have it. An
// earlier request with the same send ID may have counted it at an earlier instant. A failure is only logged.
func (g *Gate) UpdateEventTime(ctx context.Context, s policy.Subject, sendID string, taken quota.Decision) {
	if taken.Clock == store.LogClock {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	own := []quota.Event{{ID: sendID, At: taken.At}}
	if err := g.shared.Record(ctx, s.Buckets()[quota.Recipient], s.Purpose.LongestRecipientWindow(), own); err != nil {
		g.logger.WarnContext(ctx, "could not update time of send in limiter", "error", err)
	}
}

// A send that a mail server or a carrier rejects for good, or that is not even tried, is refunded: a mistyped address costs nothing. So
// that a bad address cannot be tried for ever, such sends count in a separate bucket, for rules of the scope failures. The database
// decides such a rule too, from its rows. The limiter gets each failure, and all of them after a refusal by the database.

// RecordFailures adds failed sends to a bucket of the limiter. It shifts their instants from the clock of now to the limiter's clock, so
// that each keeps its age. Without a rule on failures it does nothing.
func (g *Gate) RecordFailures(ctx context.Context, bucket string, events []quota.Event, now time.Time) error {
	keep := g.policy.Get().FailureWindow()
	if keep == 0 || len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, TakeTimeout)
	defer cancel()
	clock, err := g.callLimiter(ctx, quota.Request{
		Rules:   []quota.Rule{{Name: "clock", Scope: quota.Failures, Limit: 1, Window: quota.MinWindow}},
		Buckets: map[quota.Scope]string{quota.Failures: bucket},
	}, g.shared.Peek)
	if err != nil {
		return err
	}
	events = slices.Clone(events)
	for i := range events {
		events[i].At = events[i].At.Add(clock.At.Sub(now))
	}
	return g.shared.Record(ctx, bucket, keep, events)
}
