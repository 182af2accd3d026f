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
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// Each gate (limiter and database) computes the states of a recipient's rules alone, by the events
// that it has counted and on its own clock; the response has the stricter ones. Events that the
// rows count and the limiter doesn't are recorded in the limiter, by their age. The database is
// never corrected by the limiter.

// Answer has the states of a subject's rules. Decision.At is on the database's clock if the rows
// were read, otherwise on the limiter's.
type Answer struct {
	quota.Decision
	History *rowrules.History // reaches back the longest window of a rule plus HistoryMargin; nil: not read
}

// HistoryMargin exists because package verification rounds up the wait that a browser is told, by
// at most 5 minutes, and must find the sends that caused it until it ends.
const HistoryMargin = 5 * time.Minute

// stricter returns the state with the longer wait or, if equal, with more events or, if equal, with
// the later reset; a if all are equal.
func stricter(a, b quota.State) quota.State {
	if cmp.Or(cmp.Compare(b.RetryAfter, a.RetryAfter), cmp.Compare(b.Used, a.Used),
		cmp.Compare(b.ResetAfter, a.ResetAfter)) > 0 {
		return b
	}
	return a
}

// mergeStates returns, for each rule, the stricter of the limiter's and the rows' states (promise 3
// of docs/PROMISES.md). least and most bound the age of the limiter's states. To compare, it
// shortens the limiter's waits by most, so that if both gates count the same sends, the rows' state
// is returned. If the limiter's state is stricter, its waits are shortened only by least, so that
// none is too short.
//
// The limiter may be called before, after or while the rows are read. It was called at askedAt,
// computed its states at l, and answered at answeredAt; the rows were read at r, and now is t. Then
// askedAt <= l <= answeredAt, and r <= t.
//
//   - No wait is too short. A wait w of the limiter ends at l + w, at most at answeredAt + w, so
//     least may be subtracted if it is at most t - answeredAt. Callers compute the end of a wait
//     from r, which isn't too early if r is later than l by least or more.
//   - No number of used places is too low. A send that was answered before both gates were asked is
//     in both, unless one lost it; then the stricter state counts it. A send or a refund between l
//     and r has not been answered; the stricter state is returned then too.
//   - If both gates count the same sends, the rows' state is returned. A send's instant in the rows
//     is not before that in the limiter, so the rows' wait at r is at least the limiter's minus the
//     time from l to r, which is at most t - askedAt, that is, most.
func mergeStates(rules []quota.Rule, limited, rows []quota.State, least, most time.Duration) []quota.State {
	merged := make([]quota.State, 0, len(rules))
	for _, rule := range rules {
		l, r := stateOf(rule, limited), stateOf(rule, rows)
		switch {
		case r >= 0 && (l < 0 || stricter(rows[r], later(limited[l], most)) == rows[r]):
			merged = append(merged, rows[r])
		case l >= 0:
			merged = append(merged, later(limited[l], least))
		}
	}
	return merged
}

// stateOf returns the index of a rule's state, or -1. A list may have a rule twice, once with a
// lower limit.
func stateOf(rule quota.Rule, states []quota.State) int {
	return slices.IndexFunc(states, func(s quota.State) bool {
		return s.Name == rule.Name && s.Scope == rule.Scope && s.Limit == rule.Limit
	})
}

// statesOf returns the states that belong to rules, in the order of rules.
func statesOf(rules []quota.Rule, states []quota.State) []quota.State {
	of := make([]quota.State, 0, len(rules))
	for _, rule := range rules {
		if i := stateOf(rule, states); i >= 0 {
			of = append(of, states[i])
		}
	}
	return of
}

// later returns what s becomes when the time has passed without a new event. It doesn't know when
// each event leaves the window, so Used may be too high, and the result stricter than the truth.
func later(s quota.State, passed time.Duration) quota.State {
	if s.RetryAfter > 0 && s.RetryAfter <= passed {
		s.Used = min(s.Used, s.Limit-1)
	}
	s.RetryAfter, s.ResetAfter = max(0, s.RetryAfter-passed), max(0, s.ResetAfter-passed)
	return s
}

// databaseRows has the events of a subject that the database counts.
type databaseRows struct {
	events  map[quota.Scope][]quota.Event
	states  []quota.State // by the events
	now     time.Time     // on the database's clock
	askedAt time.Time     // when the events were requested, which is before now was read; on this process's clock
}

func newDatabaseRows(p buckets.Plan, sends, rejected []quota.Event, now, askedAt time.Time) databaseRows {
	events := map[quota.Scope][]quota.Event{quota.Recipient: sends, policy.FailuresScope: rejected}
	return databaseRows{events, quota.Evaluate(p.DatabaseRules, events, now).Rules, now, askedAt}
}

// Peek returns the states of all rules without counting, from the limiter (or this process) and the
// database at once. It fails if the database does, or if the request is bad.
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
	// The rows may count a send whose refund the limiter has since lost. So events are added only
	// from rows that are read after the limiter's answer.
	if err == nil && rows != nil && g.limiterLacks(d, g.countedRows(p, rows.rows.History, rows.askedAt).states) {
		rows, err = g.readHistory(ctx, p, nil)
	}
	if err != nil || rows == nil {
		return Answer{Decision: d}, err
	}
	d.At = d.At.Add(rows.askedAt.Sub(answeredAt)) // not later than h.Now, from which the ages of the events are computed
	h := g.asOfNow(rows.rows.History, rows.answeredAt)
	return Answer{g.correctAndMerge(ctx, p, d, askedAt, answeredAt, g.countedRows(p, h, rows.askedAt)), &h}, nil
}

// peekFirstGate peeks at the limiter, or at this process if that is away, and corrects the rule
// backoff. It fails if the request is bad.
func (g *Gates) peekFirstGate(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	d, err := g.peekLimiter(ctx, p)
	if errors.Is(err, errLimiterAway) {
		d, err = g.peekLocally(ctx, p)
	}
	return g.correctBackoff(ctx, p, d), err
}

func (g *Gates) peekLimiter(ctx context.Context, p buckets.Plan) (quota.Decision, error) {
	return g.callLimiter(ctx, quota.Request{Rules: p.Rules, Buckets: p.Buckets}, p.LimiterRules, Limiter.Peek)
}

// countedRows returns the events of a history that count, and their states. askedAt is when the
// history was requested.
func (g *Gates) countedRows(p buckets.Plan, h rowrules.History, askedAt time.Time) databaseRows {
	return newDatabaseRows(p, h.Sends(quota.LongestKeep(p.SendRules)), h.RejectedSends(g.policy.Get().LongestFailureWindow()), h.Now,
		askedAt)
}

// AnswerAdmitted returns the decision on a send that both gates admitted: taken by TakeSend, at
// askedAt, and begun by Begin. If the limiter was away, rules that don't count by recipient have
// this process's states.
func (g *Gates) AnswerAdmitted(ctx context.Context, p buckets.Plan, taken quota.Decision, askedAt time.Time,
	begun store.BeginAnswer,
) quota.Decision {
	thisSend := quota.Event{ID: string(begun.Send.ID[:]), At: begun.Now}
	r := newDatabaseRows(p, append(slices.Clip(begun.History), thisSend), begun.Rejected, begun.Now, askedAt)
	g.rememberWait(p, r)
	return g.correctAndMerge(ctx, p, taken, askedAt, g.now(), r)
}

// RefundOverruled is for a send that the limiter admitted and the database refused. It refunds the
// send, adds what the limiter lacked, and returns the merged states. If this process took the send
// without the limiter, or if the refund fails, RefundLater makes the refund, and the answer has
// only the rows' states.
func (g *Gates) RefundOverruled(ctx context.Context, p buckets.Plan, id uuid.UUID, taken quota.Decision, askedAt time.Time,
	begun store.BeginAnswer,
) (corrected Answer) {
	r := newDatabaseRows(p, begun.History, begun.Rejected, begun.Now, askedAt)
	g.rememberWait(p, r)
	// taken still counts the send, so its states can't be used. Until the limiter is called again,
	// there are only the rows' states.
	corrected = Answer{Decision: quota.Decision{At: r.now, Rules: r.states, Local: taken.Local}}
	if taken.Local || g.Refund(ctx, string(id[:]), buckets.OfCountedScopes(p.Buckets)...) != nil {
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

// correctAndMerge adds what the rows count and the limiter lacks to the limiter, calls it again,
// and merges the states (promises 1 and 3 of docs/PROMISES.md). d is the limiter's answer at
// answeredAt to a call at askedAt.
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

// merge returns d as of r.now, with the stricter state of each rule (promise 3 of
// docs/PROMISES.md). askedAt and answeredAt are those of correctAndMerge.
func (g *Gates) merge(p buckets.Plan, d quota.Decision, askedAt, answeredAt time.Time, r databaseRows) quota.Decision {
	least := max(0, r.askedAt.Sub(answeredAt)) // callers compute the end of a wait from r.now, which may be as early as r.askedAt
	d.At, d.Rules = r.now, mergeStates(p.Rules, d.Rules, r.states, least, g.now().Sub(askedAt))
	return d
}

// limiterLacks reports whether Redis decided d and counts fewer events for a rule than the rows.
func (g *Gates) limiterLacks(d quota.Decision, rows []quota.State) bool {
	return g.shared != nil && !d.Local && slices.ContainsFunc(rows, func(r quota.State) bool {
		return slices.ContainsFunc(d.Rules, func(l quota.State) bool { return l.Name == r.Name && l.Scope == r.Scope && l.Used < r.Used })
	})
}

// addRowsToLimiter records the rows' events in the limiter. at, on the limiter's clock, is not
// later than r.now, so no event gets a later instant than it had.
func (g *Gates) addRowsToLimiter(ctx context.Context, p buckets.Plan, r databaseRows, at time.Time) (err error) {
	for _, scope := range []quota.Scope{quota.Recipient, policy.FailuresScope} {
		keep := quota.LongestKeep(p.SendRules)
		if scope == policy.FailuresScope { // all purposes share the bucket
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
