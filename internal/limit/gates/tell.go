package gates

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/panics"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// Each of the two gates (limiter and database) computes the states of a recipient's rules alone:
// from the events that this gate has counted, and on its own clock. For each rule, the response has
// the stricter of the two states. A state has durations and no instants, so the clocks of the gates
// may differ. If the database's rows count more events than the limiter, these events are also
// recorded in the limiter, by their age. The database is never corrected by the limiter.

// Answer has the states of a subject's rules for the response to a request. The time Decision.At is
// on the database's clock if the database was read, and otherwise on the limiter's clock.
type Answer struct {
	quota.Decision
	History *rowrules.History // the database's rows, back to HistoryMargin before the longest window of a rule; nil if not read
}

// HistoryMargin is the time by which Answer.History goes back further than the longest window of a
// rule. Package verification rounds up the wait that it tells a browser, by at most 5 minutes.
// Until the rounded wait ends, package verification must still find the sends that caused the wait.
const HistoryMargin = 5 * time.Minute

// stricter returns the stricter of two states of a rule. The state with the longer wait is
// stricter. If the waits are equal, the state that counts more events is stricter. If these numbers
// are equal too, the state that takes longer to reset is stricter. If all are equal, stricter
// returns a.
func stricter(a, b quota.State) quota.State {
	if cmp.Or(cmp.Compare(b.RetryAfter, a.RetryAfter), cmp.Compare(b.Used, a.Used),
		cmp.Compare(b.ResetAfter, a.ResetAfter)) > 0 {
		return b
	}
	return a
}

// mergeStates returns, for each rule in order, the stricter of the limiter's state and the rows'
// state (promise 3 of docs/PROMISES.md). The parameters least and most are the smallest and the
// greatest possible age of the limiter's states. To compare the two states, mergeStates shortens
// the limiter's waits by most. So if both gates count the same sends, the rows' state is returned.
// If the limiter's state is the stricter one, mergeStates returns it with waits that are shortened
// only by least, so that no wait is too short.
//
// The limiter may be called before, after or while the rows are read. Let askedAt and answeredAt be
// the times of the call of the limiter and of its answer. Let l be the time at which the limiter
// computed its states, r the time at which the rows were read, and t the present time. Then askedAt
// <= l <= answeredAt, and r <= t.
//
//   - No wait is too short. A wait w of the limiter ends at l + w, which is at most answeredAt + w.
//     So least may be subtracted if least is at most t - answeredAt. Callers compute the end of a
//     wait from r. This end is not too early if r is later than l by least or more.
//   - No number of used places is too low. A send that was answered before both gates were asked is
//     in both gates, unless one gate lost the send. In that case the stricter state is the one that
//     counts the send. A send or a refund between l and r has not been answered yet. In this case,
//     too, the stricter state is returned.
//   - If both gates count the same sends, the rows' state is returned. The instant of a send in the
//     rows is not earlier than its instant in the limiter. So the rows' wait at r is at least the
//     limiter's wait minus the time from l to r. Since askedAt <= l and r <= t, this time is at most
//     t - askedAt, which is the parameter most.
func mergeStates(rules []quota.Rule, limited, rows []quota.State, least, most time.Duration) []quota.State {
	merged := make([]quota.State, 0, len(rules))
	for _, rule := range rules {
		of := func(s quota.State) bool { return s.Name == rule.Name && s.Scope == rule.Scope && s.Limit == rule.Limit }
		l, r := slices.IndexFunc(limited, of), slices.IndexFunc(rows, of)
		switch {
		case r >= 0 && (l < 0 || stricter(rows[r], later(limited[l], most)) == rows[r]):
			merged = append(merged, rows[r])
		case l >= 0:
			merged = append(merged, later(limited[l], least))
		}
	}
	return merged
}

// later returns the state that s becomes after some time (the parameter passed), if no new event
// comes. A state does not say when each single event leaves the window. So Used may be too high,
// and the result may be stricter than the true state.
func later(s quota.State, passed time.Duration) quota.State {
	if s.RetryAfter > 0 && s.RetryAfter <= passed {
		s.Used = min(s.Used, s.Limit-1)
	}
	s.RetryAfter, s.ResetAfter = max(0, s.RetryAfter-passed), max(0, s.ResetAfter-passed)
	return s
}

// databaseRows are the events that the database counts for a subject.
type databaseRows struct {
	events  map[quota.Scope][]quota.Event
	states  []quota.State // states of the rules, as they follow from the events
	now     time.Time     // on the database's clock
	askedAt time.Time     // when the rows were requested, on this process's clock; before now
}

func newDatabaseRows(p buckets.Plan, sends, rejected []quota.Event, now, askedAt time.Time) databaseRows {
	events, rules := map[quota.Scope][]quota.Event{quota.Recipient: sends, quota.Failures: rejected}, p.SendRules
	if len(p.FailureRules) > 0 {
		rules = slices.Concat(rules, p.FailureRules)
	}
	return databaseRows{events, quota.Evaluate(rules, events, now).Rules, now, askedAt}
}

// Peek returns the present state of every rule for a subject, and counts nothing. It calls the
// limiter and the database at the same time. If the limiter is unavailable, this process answers in
// its place. Peek returns an error if the database fails or the request is bad.
func (g *Gates) Peek(ctx context.Context, p buckets.Plan) (Answer, error) {
	reading := &struct {
		sync.WaitGroup
		rows *sharedRead[historyRead]
		err  error
	}{err: errPanicked}
	askedAt := g.now()
	reading.Go(func() {
		defer panics.Recover(panics.Request)
		reading.rows, reading.err = g.readHistory(ctx, p, nil)
	})
	d, err := g.peekFirstGate(ctx, p)
	answeredAt := g.now()
	reading.Wait()
	rows, err := reading.rows, cmp.Or(err, reading.err)
	// The rows may count a send whose refund the limiter has lost since. So events are added only
	// from rows that are read after the limiter's answer.
	if err == nil && rows != nil && g.limiterLacks(d, g.countedRows(p, rows.rows.History, rows.askedAt).states) {
		rows, err = g.readHistory(ctx, p, nil)
	}
	if err != nil || rows == nil {
		return Answer{Decision: d}, err
	}
	d.At = d.At.Add(rows.askedAt.Sub(answeredAt)) // not later than h.Now, in which the ages are
	h := g.asOfNow(rows.rows.History, rows.answeredAt)
	return Answer{g.correctAndMerge(ctx, p, d, askedAt, answeredAt, g.countedRows(p, h, rows.askedAt)), &h}, nil
}

// peekFirstGate peeks only at the limiter, or at this process if the limiter is unavailable, and
// corrects the rule backoff. If the request is bad, peekFirstGate returns an error.
func (g *Gates) peekFirstGate(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	d, err := g.peekLimiter(ctx, p)
	if errors.Is(err, errLimiterAway) {
		d, err = g.peekLocally(ctx, p)
	}
	return g.correctBackoff(ctx, p, d), err
}

func (g *Gates) peekLimiter(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	all, own := quota.Request{Rules: p.Rules, Buckets: p.Buckets}, quota.Request{Rules: p.LimiterRules, Buckets: p.Buckets}
	return g.callLimiter(ctx, all, own, Limiter.Peek, false)
}

// countedRows returns the sends and the rejected sends of a history that count in the rules of a
// subject, with the states of these rules. The history was requested at askedAt.
func (g *Gates) countedRows(p buckets.Plan, h rowrules.History, askedAt time.Time) databaseRows {
	return newDatabaseRows(p, h.Sends(quota.LongestKeep(p.SendRules)), h.RejectedSends(g.policy.Get().LongestFailureWindow()), h.Now,
		askedAt)
}

// AnswerAdmitted returns the decision on a send that both gates admitted. The parameter taken is
// the result of TakeSend, which was called at askedAt. The parameter begun is the result of Begin.
// If the limiter was unavailable, the rules that do not count by recipient have the states that
// this process computed.
func (g *Gates) AnswerAdmitted(ctx context.Context, p buckets.Plan, taken quota.Decision, askedAt time.Time,
	begun store.BeginAnswer,
) quota.Decision {
	own := quota.Event{ID: string(begun.Send.ID[:]), At: begun.Now}
	r := newDatabaseRows(p, append(slices.Clip(begun.History), own), begun.Rejected, begun.Now, askedAt)
	g.rememberWait(p, r)
	return g.correctAndMerge(ctx, p, taken, askedAt, g.now(), r)
}

// RefundOverruled handles a send that the limiter admitted and the database refused. It refunds the
// send in the limiter, adds the events that the limiter lacked, and returns the merged states. If
// this process took the send without the limiter, or if the refund fails, RefundOverruled leaves
// the refund to RefundLater, and the answer has only the rows' states.
func (g *Gates) RefundOverruled(ctx context.Context, p buckets.Plan, id uuid.UUID, taken quota.Decision, askedAt time.Time,
	begun store.BeginAnswer,
) (corrected Answer) {
	r := newDatabaseRows(p, begun.History, begun.Rejected, begun.Now, askedAt)
	g.rememberWait(p, r)
	// The states in taken still count the send, which is refunded below, so they cannot be used.
	// Until the limiter is called again, the answer has only the rows' states.
	corrected = Answer{Decision: quota.Decision{At: r.now, Rules: r.states, Alone: taken.Alone}}
	if taken.Alone || g.Refund(ctx, string(id[:]), buckets.OfCountedScopes(p.Buckets)...) != nil {
		g.RefundLater(string(id[:]), buckets.OfCountedScopes(p.Buckets)...)
		return corrected
	}
	peek := g.peekLocally
	if g.shared != nil {
		peek = g.peekLimiter
		if err := g.addRowsToLimiter(ctx, p, r, taken.At); err != nil {
			g.logNotAdded(ctx, err)
		}
	}
	askedAt = g.now()
	if d, err := peek(ctx, p); err == nil {
		corrected.Decision = g.merge(p, d, askedAt, g.now(), r)
	}
	return corrected
}

// correctAndMerge corrects the limiter and then merges the states (promises 1 and 3 of
// docs/PROMISES.md). The decision d is the answer of the limiter, which was called at askedAt and
// answered at answeredAt. If the rows count more events than the limiter, correctAndMerge adds
// these events to the limiter and calls the limiter again.
func (g *Gates) correctAndMerge(ctx context.Context, p buckets.Plan, d quota.Decision, askedAt, answeredAt time.Time,
	r databaseRows,
) quota.Decision {
	if g.limiterLacks(d, r.states) {
		againAt := g.now()
		err := g.addRowsToLimiter(ctx, p, r, d.At)
		if err == nil {
			var added quota.Decision
			if added, err = g.peekLimiter(ctx, p); err == nil {
				if g.limiterLacks(d, added.Rules) && againAt.Add(-mayLackEventsFor).UnixMicro() >= g.outage.ended.Load() {
					g.lost()
				}
				d.Rules, askedAt, answeredAt = added.Rules, againAt, g.now()
			}
		}
		if err != nil {
			g.logNotAdded(ctx, err)
		}
	}
	return g.merge(p, d, askedAt, answeredAt, r)
}

// merge returns d as of r.now. For each rule, the result has the stricter of the state in d and the
// rows' state (promise 3 of docs/PROMISES.md). The parameters askedAt and answeredAt have the same
// meaning as in correctAndMerge.
func (g *Gates) merge(p buckets.Plan, d quota.Decision, askedAt, answeredAt time.Time, r databaseRows) quota.Decision {
	least := max(0, r.askedAt.Sub(answeredAt)) // callers compute the end of a wait from r.now, which may be as early as r.askedAt
	d.At, d.Rules = r.now, mergeStates(p.Rules, d.Rules, r.states, least, g.now().Sub(askedAt))
	return d
}

// limiterLacks reports whether Redis made the decision d and counts fewer events for a rule in it
// than the rows.
func (g *Gates) limiterLacks(d quota.Decision, rows []quota.State) bool {
	return g.shared != nil && !d.Alone && slices.ContainsFunc(rows, func(r quota.State) bool {
		return slices.ContainsFunc(d.Rules, func(l quota.State) bool { return l.Name == r.Name && l.Scope == r.Scope && l.Used < r.Used })
	})
}

// addRowsToLimiter records the rows' events in the limiter. The parameter at is an instant of the
// limiter's clock that is not later than r.now. The limiter subtracts an event's age from at, so no
// event gets a later instant than it had. addRowsToLimiter returns the errors of the limiter.
func (g *Gates) addRowsToLimiter(ctx context.Context, p buckets.Plan, r databaseRows, at time.Time) (err error) {
	for _, scope := range []quota.Scope{quota.Recipient, quota.Failures} {
		keep := quota.LongestKeep(p.SendRules)
		if scope == quota.Failures { // all purposes share the bucket
			keep = g.policy.Get().LongestFailureWindow()
		}
		var events []quota.AgedEvent
		for _, e := range r.events[scope] {
			events = append(events, quota.AgedEvent{ID: e.ID, Age: r.now.Sub(e.At), AsOf: at})
		}
		if len(events) > 0 && p.Buckets[scope] != "" {
			err = errors.Join(err, g.record(ctx, p.Buckets[scope], keep, r.askedAt, events))
		}
	}
	return err
}
