package quota

import (
	"slices"
	"time"
)

// naive is the simplest limiter: maps, loops and subtraction. It deletes only what is refunded or
// reset.
type naive struct {
	events map[string]map[string]time.Time // by bucket and ID
	gone   map[string]map[string]time.Time
}

func newNaive() *naive {
	return &naive{map[string]map[string]time.Time{}, map[string]map[string]time.Time{}}
}

func (n *naive) bucket(name string) map[string]time.Time {
	if n.events[name] == nil {
		n.events[name], n.gone[name] = map[string]time.Time{}, map[string]time.Time{}
	}
	return n.events[name]
}

func (n *naive) refunded(name, id string, now time.Time) bool { return now.Before(n.gone[name][id]) }

func (n *naive) holds(name, id string, now time.Time, keep time.Duration) bool {
	at, ok := n.bucket(name)[id]
	return ok && now.Sub(at) < keep
}

// hourly and threeDates return the calendar rules of the schedules. India is ahead of UTC by five
// and a half hours all year.
func hourly(limit int) Rule {
	return Rule{Name: "hourly", Scope: App, Limit: limit, Per: Hour, Zone: time.FixedZone("India", 19800)}
}

func threeDates(limit int) Rule {
	return Rule{Name: "dates", Scope: Purpose, Limit: limit, Days: 3, Zone: time.FixedZone("India", 19800)}
}

// leaves returns when an event stops counting for a rule, and the Window of the rule's State.
func leaves(r Rule, at time.Time) (end time.Time, window time.Duration) {
	const ahead = 19800 * time.Second
	start := func(unit time.Duration) time.Time { return at.Add(ahead).Truncate(unit).Add(-ahead) }
	switch {
	case r.Days != 0:
		window = time.Duration(r.Days) * 24 * time.Hour
		return start(24 * time.Hour).Add(window), window
	case r.Per != "":
		return start(time.Hour).Add(time.Hour), time.Hour
	}
	return at.Add(r.Window), r.Window
}

// clampToNow moves events of these buckets that lie in the future to now.
func (n *naive) clampToNow(now time.Time, names ...string) {
	for _, name := range names {
		for id, at := range n.bucket(name) {
			if at.After(now) {
				n.events[name][id] = now
			}
		}
	}
}

func (n *naive) state(r Rule, name string, now time.Time) State {
	var waits []time.Duration // the waits until counted events leave
	for _, at := range n.bucket(name) {
		if end, _ := leaves(r, at); end.After(now) {
			waits = append(waits, end.Sub(now))
		}
	}
	slices.Sort(waits)
	s := State{Rule: r, Used: len(waits)}
	_, s.Window = leaves(r, now)
	if s.Used > 0 {
		s.ResetAfter = waits[0]
	}
	if must := s.Used - r.Limit + 1; must > 0 { // the number of events that must leave
		s.RetryAfter = waits[must-1]
	}
	return s
}

func (n *naive) peek(req Request, now time.Time) Decision {
	n.clampToNow(now, bucketsOfRules(req)...)
	d := Decision{At: now, Rules: []State{}}
	for _, r := range req.Rules {
		d.Rules = append(d.Rules, n.state(r, req.Buckets[r.Scope], now))
	}
	return d
}

func (n *naive) take(req Request, now time.Time) (Decision, error) {
	n.clampToNow(now, bucketsOfRules(req)...)
	held := map[Scope]bool{}
	for _, r := range req.Rules {
		if r.Recorded {
			continue
		}
		name := req.Buckets[r.Scope]
		if n.refunded(name, req.ID, now) {
			return Decision{}, ErrRefunded
		}
		held[r.Scope] = held[r.Scope] || n.holds(name, req.ID, now, keepOf[r.Scope])
	}
	for _, r := range req.Rules {
		if !r.Observe && !held[r.Scope] && n.state(r, req.Buckets[r.Scope], now).Used >= r.Limit {
			return n.peek(req, now), nil
		}
	}
	for scope, h := range held {
		if !h {
			n.bucket(req.Buckets[scope])[req.ID] = now
		}
	}
	d := n.peek(req, now)
	d.Admitted = true
	return d, nil
}

// observed returns the observing rules that would refuse the request. It also returns whether no
// bucket has counted the request yet.
func (n *naive) observed(req Request, now time.Time) (names []string, first bool) {
	first = true
	for _, r := range req.Rules {
		name := req.Buckets[r.Scope]
		first = first && (r.Recorded || !n.holds(name, req.ID, now, keepOf[r.Scope]))
		if r.Observe && n.state(r, name, now).Used >= r.Limit {
			names = append(names, r.Name)
		}
	}
	return names, first
}

func (n *naive) refund(name, id string, now time.Time) {
	delete(n.bucket(name), id)
	n.gone[name][id] = now.Add(time.Minute)
}

func (n *naive) record(name string, keep time.Duration, events []AgedEvent, now time.Time) (skipped int) {
	if len(events) == 0 {
		return 0 // without events, the bucket is not read
	}
	n.clampToNow(now, name)
	for _, e := range events {
		at := now.Add(-max(0, e.Age))
		if !e.AsOf.IsZero() {
			at = at.Add(-max(0, now.Sub(e.AsOf)))
		}
		read := n.gone[name][resetMark].Add(resetSlack - time.Minute)
		if now.Sub(at) >= keep || n.refunded(name, e.ID, now) || n.refunded(name, resetMark, now) && !at.After(read) {
			skipped++
		} else if known := n.bucket(name)[e.ID]; at.After(known) {
			n.bucket(name)[e.ID] = at
		}
	}
	return skipped
}

func (n *naive) reset(name string, now time.Time) {
	clear(n.bucket(name))
	n.refund(name, resetMark, now)
}
