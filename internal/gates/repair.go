package gates

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/buckets"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// repairLimiter compares the events of the limiter's buckets of these scopes with the database's,
// rewrites the buckets, and returns the events that only the limiter has. A bucket is rewritten at
// most once in RewriteEvery, so that replicas with different settings do not keep undoing each
// other's rewrites. It is always rewritten if a refused Take would then be admitted, or if the
// limiter admitted a send that the database refused. All calls together take at most
// store.CallTimeout, each call of the limiter at most LimiterTimeout. Errors: errClockSet,
// quota.ErrUnavailable, or of the database.
func (g *Gates) repairLimiter(ctx context.Context, s buckets.Subject, f databaseFacts, d quota.Decision, scopes []quota.Scope,
	refused bool) (
	map[quota.Scope][]quota.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	ahead := g.clocks.limiterAhead()
	buckets, all := s.Buckets(), map[quota.Scope][]quota.Event{}
	version := g.only.version(s)
	undecided := false
	var changes []bucketChange
	for _, scope := range scopes {
		asked := g.now()
		limited, now, err := g.limiterEvents(ctx, buckets[scope])
		if err != nil {
			return nil, err
		}
		g.clocks.noteLimiter(now, asked)
		if g.clocks.wasSetSince(ahead) {
			return nil, errClockSet
		}
		keep := g.keepDuration(s, scope)
		c, only, err := g.compareBucket(ctx, s, scope, d.Clock, f, limited, keep)
		if err != nil {
			return nil, err
		}
		all[scope], undecided = only, undecided || c.undecided
		c.bucket, c.keep = buckets[scope], keep
		changes = append(changes, c)
	}
	opens := refused && withStates(s, d, quota.Evaluate(f.rules, mergeEvents(f.events, all), f.at).Rules).Allowed()
	for _, c := range changes {
		if c.needed() && (g.rewrites.mayRewrite(c.bucket, g.now()) || opens || f.overrule) {
			if err := g.rewriteBucket(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	if !undecided {
		g.only.recent.put(strings.Join(bucketsInDatabase(s), "\x00"), limiterOnlyEvents{all, version, g.now()})
	}
	return all, nil
}

// limiterEvents returns the events of a bucket of the limiter, and the time on the limiter's clock.
// Error: of the limiter.
func (g *Gates) limiterEvents(ctx context.Context, bucket string) ([]quota.Event, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	return g.shared.Events(ctx, bucket)
}

// keepDuration returns how long the limiter keeps the events of a subject's bucket. All purposes
// share the bucket of failures, so it keeps events for the longest window of any purpose.
func (g *Gates) keepDuration(s buckets.Subject, scope quota.Scope) time.Duration {
	if scope == quota.Failures {
		return g.policy.Get().FailureWindow()
	}
	return s.Purpose.LongestRecipientWindow()
}

// bucketChange is a change of the events in a bucket of the limiter.
type bucketChange struct {
	bucket string
	keep   time.Duration
	lacks  bool          // the bucket lacks an event that the database counts
	set    []quota.Event // events of the database to add, or to move to their instants there
	gone   []string      // IDs of events to take out
	// undecided: only the limiter has an event of a send that may be between the gates. If the
	// database refuses that send, it is refunded a moment later.
	undecided bool
}

func (c bucketChange) needed() bool { return len(c.set)+len(c.gone) > 0 }

// compareBucket returns the change that a bucket of the limiter needs, and the events that count in
// addition to those of f, on the clock of f.at. limited are the bucket's events in the limiter. An
// event that f lacks is looked up in the database: its row may be newer than f, or may not count in
// this bucket. Error: of the database.
func (g *Gates) compareBucket(ctx context.Context, s buckets.Subject, scope quota.Scope, clock string, f databaseFacts,
	limited []quota.Event,
	keep time.Duration) (c bucketChange, only []quota.Event, err error) {
	there := map[string]time.Time{}
	for _, e := range limited {
		there[e.ID] = e.At
	}
	for _, e := range f.events[scope] {
		at, has := there[e.ID]
		c.lacks = c.lacks || !has
		if !has || at != e.At {
			c.set = append(c.set, e)
		}
		delete(there, e.ID)
	}
	maps.DeleteFunc(there, func(_ string, at time.Time) bool { return f.at.Sub(at) >= keep })
	rows, err := g.sendsOfEvents(ctx, there)
	if err != nil {
		return c, nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		at := there[id]
		row, written := rows[id]
		switch {
		case written && countsInBucket(s, scope, row):
			e := g.eventOfSend(row, scope, clock, f, keep)
			c.set, only = append(c.set, e...), append(only, e...)
			if len(e) == 0 { // by the database's clock, the event is too old to count
				c.gone = append(c.gone, id)
			}
		case written, g.refunded.refundedSince(id, f.heard.Add(at.Sub(f.at))):
			c.gone = append(c.gone, id)
		default:
			only = append(only, quota.Event{ID: id, At: at})
			c.undecided = c.undecided || f.at.Sub(at) < maxTimeBetweenGates()
		}
	}
	return c, only, nil
}

// sendsOfEvents reads the rows of events, by their IDs. Events without a row are not in the map.
// Error: of the database.
func (g *Gates) sendsOfEvents(ctx context.Context, events map[string]time.Time) (map[string]store.Send, error) {
	rows := map[string]store.Send{}
	var ids []uuid.UUID
	for id := range events {
		if u, err := uuid.FromBytes([]byte(id)); err == nil {
			ids = append(ids, u)
		}
	}
	if len(ids) == 0 {
		return rows, nil
	}
	all, err := g.db.SendsByID(ctx, ids)
	for _, row := range all {
		rows[string(row.ID[:])] = row.Send
	}
	return rows, err
}

// countsInBucket reports whether a row counts in the subject's bucket of a scope.
func countsInBucket(s buckets.Subject, scope quota.Scope, row store.Send) bool {
	if row.App != s.App || row.Channel != s.Channel || row.Recipient != s.Recipient {
		return false
	}
	if scope == quota.Failures {
		return row.Status == store.Failed && store.CountsAsRejected(row.Reason) && !row.Forgiven
	}
	return row.Counts && slices.Contains(s.Purpose.Shares, row.Purpose)
}

// eventOfSend converts a counted row to an event on the limiter's clock, whose name is clock. It
// returns no event if the event is older than keep at f.at.
func (g *Gates) eventOfSend(row store.Send, scope quota.Scope, clock string, f databaseFacts, keep time.Duration) []quota.Event {
	now := f.at.Add(-g.ClocksApart()) // on the database's clock
	if f.history != nil {
		now = f.history.Now
	}
	counted := gate.PastSend{ID: row.ID, Clock: row.Clock, TakenAt: row.TakenAt, LoggedAt: row.LoggedAt}
	if scope == quota.Failures {
		counted = gate.PastSend{ID: row.ID, LoggedAt: row.FinishedAt}
	}
	return gate.EventsOnClock([]gate.PastSend{counted}, keep, clock, f.at, now)
}

// rewriteBucket changes a bucket of the limiter. Error: of the limiter.
func (g *Gates) rewriteBucket(ctx context.Context, c bucketChange) error {
	if c.lacks {
		g.countEventLoss()
	}
	ctx, cancel := context.WithTimeout(ctx, LimiterTimeout)
	defer cancel()
	if err := g.shared.Record(ctx, c.bucket, c.keep, c.set); err != nil {
		return fmt.Errorf("recording %d events: %w", len(c.set), err)
	}
	for _, id := range c.gone {
		if err := g.shared.Refund(ctx, id, c.bucket); err != nil {
			return fmt.Errorf("taking out an event: %w", err)
		}
	}
	return nil
}
