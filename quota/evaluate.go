package quota

import (
	"slices"
	"sort"
	"time"
)

// Cutoffs returns the cutoff of each rule at the time in the parameter now, in the order of the
// rules. An event counts for a rule if and only if the event is later than the rule's cutoff.
func Cutoffs(rules []Rule, now time.Time) []time.Time {
	cutoffs := make([]time.Time, len(rules))
	for i, r := range rules {
		cutoffs[i] = microsToTime(r.cutoff(now.UnixMicro()))
	}
	return cutoffs
}

// Evaluate computes the state of each rule at the time in the parameter now, without counting a new
// event. Decision.Allowed reports whether one more event would be admitted. The parameter history
// has the events of each scope, in any order. A scope that is missing in history has no events. The
// times of the events and now must be of the same clock.
func Evaluate(rules []Rule, history map[Scope][]Event, now time.Time) Decision {
	at := now.UnixMicro()
	d := Decision{At: microsToTime(at), Rules: make([]State, len(rules))}
	sorted := map[Scope][]int64{}
	for i, r := range rules {
		times, ok := sorted[r.Scope]
		if !ok {
			times = sortedTimes(history[r.Scope])
			sorted[r.Scope] = times
		}
		d.Rules[i] = r.tally(times, at).state(r, at)
	}
	return d
}

// LongestKeep returns how long events must be kept for the rules. That is the longest Keep of all
// rules, or 0 if there are no rules.
func LongestKeep(rules []Rule) time.Duration {
	var longest time.Duration
	for _, r := range rules {
		longest = max(longest, r.Keep())
	}
	return longest
}

// OfScope returns the rules of one scope, in their order.
func OfScope(rules []Rule, scope Scope) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Scope != scope })
}

// Seconds returns d in whole seconds, rounded up, so that a client never comes back too early. If d
// is 0 or negative, the result is 0.
func Seconds(d time.Duration) int { return int(ceil(d, time.Second)) }

// Milliseconds returns d in whole milliseconds, rounded up; 0 if d is 0 or negative.
func Milliseconds(d time.Duration) int64 { return ceil(d, time.Millisecond) }

// ceil returns how many units d has, rounded up; 0 if d is 0 or negative.
func ceil(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/unit) + 1
}

// microsToTime converts µs since 1970 to a time in UTC.
func microsToTime(µs int64) time.Time { return time.UnixMicro(µs).UTC() }

// sortedTimes returns the instants of events in µs since 1970, ascending.
func sortedTimes(events []Event) []int64 {
	times := make([]int64, len(events))
	for i, e := range events {
		times[i] = e.At.UnixMicro()
	}
	slices.Sort(times)
	return times
}

// tally summarizes the events that a rule counts; instants are µs since 1970. take.lua computes the
// same numbers.
type tally struct {
	used   int
	oldest int64 // oldest counted event, if used > 0
	// If used ≥ limit, pivot is the (used-limit+1)-th oldest counted event. When the rule stops
	// counting this event, one more event is admitted.
	pivot int64
}

// tally summarizes the events that the rule counts at now; times must ascend.
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

// state computes the State of the rule r from the tally, at the time now in microseconds. Memory,
// Redis and Evaluate all use state, so they give the same answers.
func (t tally) state(r Rule, now int64) State {
	s := State{Rule: r, Used: t.used}
	if r.Calendar() {
		return t.withCalendarWaits(s, now)
	}
	if t.used > 0 {
		s.ResetAfter = timeLeft(t.oldest, r.Window, now)
	}
	if t.used >= r.Limit {
		s.RetryAfter = timeLeft(t.pivot, r.Window, now)
	}
	return s
}

// withCalendarWaits sets the window and the waits of a calendar rule. All events of a period stop
// counting when the period ends. In a rule with Days, all events of one date stop counting
// together, when a later date begins.
func (t tally) withCalendarWaits(s State, now int64) State {
	start, end := s.Period(microsToTime(now))
	wait := func(at int64) time.Duration {
		leaves := end
		if s.Days > 0 {
			leaves = s.expiryByDate(microsToTime(at))
		} else if at >= end.UnixMicro() { // of a later period: the clock was set back
			_, leaves = s.Period(microsToTime(at))
		}
		return leaves.Sub(microsToTime(now))
	}
	if t.used > 0 {
		s.ResetAfter = wait(t.oldest)
	}
	if t.used >= s.Limit {
		s.RetryAfter = wait(t.pivot)
	}
	s.Window = end.Sub(start)
	return s
}

// timeLeft returns how long an event still counts. If the clock was set back, an event may lie in
// the future. Such an event counts for longer than a window.
func timeLeft(at int64, window time.Duration, now int64) time.Duration {
	return window - time.Duration(now-at)*time.Microsecond
}
