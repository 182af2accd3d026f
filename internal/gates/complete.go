package gates

import (
	"context"
	"maps"
	"slices"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// The limiter may lose events: by a flush, a restart, a failover, or because a window was made longer after they were dropped. The database
// has the events of recipients. So every answer is the stricter one of both gates, and the lost events are written back to the limiter:
// after a send, since the database counts it anyway; after a peek or a refusal, if the bucket has no valid mark of completeness. While
// nothing is lost, this costs no call, except for peeks at a recipient without counted sends.

// DoubtFor is how long a recipient's bucket that lacked an event is not marked as complete. It is longer than a send takes from the limiter
// to the database: such a send may be lost too, and the database does not have it yet. Failures are in the database before they are in the
// limiter, so they need no such time.
const DoubtFor = 10 * time.Second

// peekLife is for how long the waits of a peek may be told.
const peekLife = 100 * time.Millisecond

// Logged returns Request.Logged for a purpose: which policy each purpose has says in which of the recipient's buckets its sends count.
func Logged(p policy.Purpose) map[quota.Scope]string {
	return map[quota.Scope]string{quota.Recipient: p.Mapping, quota.Failures: ""}
}

// CompleteFromLog reads the events that the limiter may lack from the database, writes them to the limiter, and returns d with the stricter
// state of each rule. If d has no Incomplete scopes, it returns d unchanged. Error: of the database; then d may tell too short a wait.
func (g *Gate) CompleteFromLog(ctx context.Context, s policy.Subject, d quota.Decision) (quota.Decision, error) {
	if len(d.Incomplete) == 0 {
		return d, nil
	}
	buckets := s.Buckets()
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	ahead, _ := g.clocks.ahead()
	decided := g.now() // d.At on this process's clock; each write to the limiter takes time
	var rules []quota.Rule
	events := map[quota.Scope][]quota.Event{}
	histories, err := g.historiesFromLog(ctx, s, d, decided)
	if err != nil {
		return d, err
	}
	for _, scope := range slices.Sorted(maps.Keys(histories)) {
		h := histories[scope]
		h.Bucket, h.Epoch, h.Ahead, events[scope] = buckets[scope], d.Incomplete[scope], ahead, h.Events
		rules = append(rules, quota.OfScope(s.Purpose.Policy.Rules, scope)...)
		if err := g.shared.Restore(ctx, h); err != nil {
			g.logger.WarnContext(ctx, "could not write history to limiter", "error", err)
		}
	}
	took := g.now().Sub(decided)
	logged, limited := quota.Evaluate(rules, events, d.At.Add(took)).Rules, statesInOrder(rules, d.Rules)
	if limiterLacks(logged, limited) {
		g.countRebuild()
	}
	if took > peekLife || !sameEvents(quota.Evaluate(rules, events, d.At).Rules, limited) {
		both, err := g.callLimiter(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets}, g.shared.Peek)
		if err == nil {
			d.Rules, d.At = both.Rules, both.At
		}
	}
	if g.clocks.set(ahead) { // meanwhile: the history was written for the clock of before
		return g.Peek(ctx, s)
	}
	d.Rules, d.Incomplete = stricter(slices.Clone(d.Rules), logged), nil
	return d, nil
}

// clockReach is how much older than its window an event may be in the database that the limiter counts since its clock was set back.
const clockReach = 48 * time.Hour

// historiesFromLog reads the events of the incomplete scopes from the database at once, also those that only a limiter whose clock was set
// back still counts. It shifts their instants to the limiter's clock, so that each keeps its age. d is of the instant decided.
func (g *Gate) historiesFromLog(ctx context.Context, s policy.Subject, d quota.Decision, decided time.Time) (
	map[quota.Scope]quota.History, error) {
	histories := map[quota.Scope]quota.History{}
	reach := map[quota.Scope]time.Duration{} // 0: not read
	for scope := range d.Incomplete {
		h := quota.History{Keep: g.policy.Get().FailureWindow()}
		if scope == quota.Recipient {
			h = quota.History{Keep: s.Purpose.LongestRecipientWindow(), Mapping: s.Purpose.Mapping, DoubtFor: DoubtFor, Read: d.At}
		}
		histories[scope], reach[scope] = h, h.Keep+clockReach
	}
	then := func() time.Time { return d.At.Add(g.now().Sub(decided)) }
	asked := g.now()
	sends, rejections, now, err := g.log.HistoryAt(ctx, s.LogBucket(), reach[quota.Recipient], reach[quota.Failures], d.Clock, then)
	if err != nil {
		return nil, err
	}
	for i := range rejections {
		rejections[i].At = rejections[i].At.Add(then().Sub(now))
	}
	g.clocks.readLog(now, asked)
	for scope, h := range histories {
		h.Events, h.Skew = sends, store.MaxClockSkew+g.now().Sub(decided)
		if scope == quota.Failures {
			h.Events = rejections
		}
		histories[scope] = h
	}
	return histories, nil
}

// MergeAdmitted returns the decision on a send that both gates admitted, with the stricter state of each rule. ago is how long before the
// Take was. If the database counts more, or a longer wait, than the limiter, or if the database was slow, so that it counts the send from a
// later instant and the limiter may have lost it, the database's history is first written to the limiter. If the limiter counts more or
// waits longer, its clock may have been set, and its bucket is looked at. If begun is a repetition, or the database's clock was used, it
// returns taken unchanged.
func (g *Gate) MergeAdmitted(ctx context.Context, s policy.Subject, taken quota.Decision, ago time.Duration,
	begun store.Begun) quota.Decision {
	if begun.Repeated || taken.Clock == store.LogClock {
		return taken // the waits are read again
	}
	g.clocks.readLog(begun.Now, g.now().Add(-ago))
	own := quota.Event{ID: string(begun.Send.ID[:]), At: begun.At}
	slow := ago > store.MaxClockSkew
	if slow {
		own.At = own.At.Add(ago)
	}
	counted := append(slices.Clone(begun.History), own)
	rules := policy.ExplainedByLog(s.Purpose.Policy.Rules)
	events := map[quota.Scope][]quota.Event{quota.Recipient: counted, quota.Failures: begun.Rejected}
	logged := quota.Evaluate(rules, events, begun.At).Rules
	if slow || limiterLacks(logged, statesInOrder(rules, taken.Rules)) {
		if synced, err := g.writeHistory(ctx, s, taken, begun, counted); err == nil {
			if taken.Rules = synced.Rules; !slow {
				g.countRebuild()
			}
		} else {
			g.logger.WarnContext(ctx, "could not write history to limiter", "error", err)
		}
	}
	if limiterExceeds(logged, statesInOrder(rules, taken.Rules)) {
		if d, err := g.Peek(ctx, s); err == nil {
			taken.Rules = d.Rules
		}
	}
	taken.Rules = stricter(slices.Clone(taken.Rules), logged)
	return taken
}

// limiterExceeds reports whether the limiter counts more than the database for any rule, or waits longer by more than MaxClockSkew. It
// ignores the waits of calendar rules, as limiterLacks does.
func limiterExceeds(logged, limited []quota.State) bool {
	later := func(a, b time.Duration) bool { return a-b > store.MaxClockSkew }
	for i, l := range logged {
		s := limited[i]
		if s.Used > l.Used || !l.Calendar() && (later(s.RetryAfter, l.RetryAfter) || later(s.ResetAfter, l.ResetAfter)) {
			return true
		}
	}
	return false
}

// sameEvents reports whether the limiter and the database count the same events of every rule, of states at one instant: none, or one of the
// same age. Of more events, equal counts and ages do not tell that all are the same.
func sameEvents(logged, limited []quota.State) bool {
	for i, l := range logged {
		if l.Used != limited[i].Used || l.Used > 1 || l.Used == 1 && (l.Calendar() || l.ResetAfter != limited[i].ResetAfter) {
			return false
		}
	}
	return true
}

// limiterLacks reports whether the database has a higher count or a longer wait than the limiter for any rule, so that the limiter lacks an
// event. It ignores the waits of calendar rules, since the two clocks may show different times until the period's end.
func limiterLacks(logged, limited []quota.State) bool {
	for i, l := range logged {
		if l.Used > limited[i].Used || !l.Calendar() && l.RetryAfter > limited[i].RetryAfter {
			return true
		}
	}
	return false
}

// Rebuild adds the database's counted sends and failures to an in-process limiter. Call it at the start, when the limiter is empty, and
// after a change of policies that needs older events. clock names the limiter's clock: instants on it are used as they are, others are the
// database's. Events in the limiter stay. Sends of purposes that are no longer configured are left out. Error: of the database or the
// limiter.
func (g *Gate) Rebuild(ctx context.Context, clock string) error {
	set := g.policy.Get()
	err := g.log.CountedSends(ctx, clock, set.LongestRecipientWindow(), func(c store.CountedSend) error {
		p, ok := set.Purposes[c.Purpose]
		if !ok {
			return nil
		}
		bucket := policy.RecipientBucket(c.App, c.Channel, p.Policy.Name, c.Recipient)
		return g.shared.Record(ctx, bucket, p.LongestRecipientWindow(), []quota.Event{c.Event})
	})
	failures := set.FailureWindow()
	if err != nil || failures == 0 {
		return err
	}
	return g.log.AllRejected(ctx, failures, func(c store.CountedSend) error {
		return g.shared.Record(ctx, policy.FailuresBucket(c.App, c.Channel, c.Recipient), failures, []quota.Event{c.Event})
	})
}
