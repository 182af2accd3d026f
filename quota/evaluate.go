package quota

import (
	"slices"
	"sort"
	"time"
)

// Cutoffs gives the cutoff of each rule at now, in the order of the rules: an event counts if and only if it is later.
func Cutoffs(rules []Rule, now time.Time) []time.Time {
	cutoffs := make([]time.Time, len(rules))
	for i, r := range rules {
		cutoffs[i] = instant(r.cutoff(now.UnixMicro()))
	}
	return cutoffs
}

// Evaluate explains each rule from the history of its scope, in any order; a scope that history does not name has no
// events. It admits nothing: Allowed says whether one more event would be let in at now. All instants are on one clock,
// which the caller names in Decision.Clock.
func Evaluate(rules []Rule, history map[Scope][]Event, now time.Time) Decision {
	at := now.UnixMicro()
	d := Decision{At: instant(at), Rules: make([]State, len(rules))}
	sorted := map[Scope][]int64{}
	for i, r := range rules {
		times, ok := sorted[r.Scope]
		if !ok {
			times = ascending(history[r.Scope])
			sorted[r.Scope] = times
		}
		d.Rules[i] = r.tally(times, at).state(r, at)
	}
	return d
}

// Longest is the longest time for which a rule may need an event, which is how long events must be kept; 0 for no rules.
func Longest(rules []Rule) time.Duration {
	var longest time.Duration
	for _, r := range rules {
		longest = max(longest, r.Keep())
	}
	return longest
}

// OfScope gives the rules of one scope, in their order.
func OfScope(rules []Rule, scope Scope) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Scope != scope })
}

// Seconds is d in whole seconds, rounded up, so that who waits that long has waited d; 0 only where nothing is to be waited for.
func Seconds(d time.Duration) int { return int(ceil(d, time.Second)) }

// Milliseconds is d in whole milliseconds, rounded up as Seconds does.
func Milliseconds(d time.Duration) int64 { return ceil(d, time.Millisecond) }

func ceil(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/unit) + 1
}

// instant is a number of µs since 1970 as every Decision shows it.
func instant(µs int64) time.Time { return time.UnixMicro(µs).UTC() }

func ascending(events []Event) []int64 {
	times := make([]int64, len(events))
	for i, e := range events {
		times[i] = e.At.UnixMicro()
	}
	slices.Sort(times)
	return times
}

// tally is all that a rule needs to know of its events, instants in µs since 1970. The script computes the same three numbers.
type tally struct {
	used   int
	oldest int64 // oldest counted event, if used > 0
	pivot  int64 // the (used-limit+1)-th oldest counted event, whose leaving frees a place, if used ≥ limit
}

// tally counts the events of an ascending history.
func (r Rule) tally(times []int64, now int64) tally {
	cutoff := r.cutoff(now)
	counted := times[sort.Search(len(times), func(i int) bool { return times[i] > cutoff }):]
	t := tally{used: len(counted)}
	if t.used > 0 {
		t.oldest = counted[0]
	}
	if t.used >= r.Limit {
		t.pivot = counted[t.used-r.Limit]
	}
	return t
}

// state turns the tally into waits: the one arithmetic that every limiter and the log share.
func (t tally) state(r Rule, now int64) State {
	s := State{Rule: r, Used: t.used}
	if r.Days > 0 {
		return t.dates(s, now)
	}
	if r.Calendar() {
		return s.until(now)
	}
	if t.used > 0 {
		s.ResetAfter = left(t.oldest, r.Window, now)
	}
	if t.used >= r.Limit {
		s.RetryAfter = left(t.pivot, r.Window, now)
	}
	return s
}

// until is the state of a calendar rule: all its events leave together, when the period ends.
func (s State) until(now int64) State {
	start, end := s.Period(instant(now))
	s.Window = end.Sub(start)
	left := end.Sub(instant(now))
	if s.Used > 0 {
		s.ResetAfter = left
	}
	if s.Used >= s.Limit {
		s.RetryAfter = left
	}
	return s
}

// dates is the state of a rule with Days: the events of one date leave together, at the beginning of another.
func (t tally) dates(s State, now int64) State {
	start, end := s.Period(instant(now))
	wait := func(at int64) time.Duration { return s.leaves(instant(min(at, now))).Sub(instant(now)) }
	if t.used > 0 {
		s.ResetAfter = wait(t.oldest)
	}
	if t.used >= s.Limit {
		s.RetryAfter = wait(t.pivot)
	}
	s.Window = end.Sub(start)
	return s
}

// left is how long an event goes on counting. After a step back of the clock it may lie in the future: its age is then 0.
func left(at int64, window time.Duration, now int64) time.Duration {
	return window - time.Duration(max(0, now-at))*time.Microsecond
}
