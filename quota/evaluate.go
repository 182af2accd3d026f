package quota

import (
	"slices"
	"sort"
	"time"
)

// Cutoffs returns each rule's cutoff: the rule counts an event at now if and only if the event is
// later than the cutoff.
func Cutoffs(rules []Rule, now time.Time) []time.Time {
	cutoffs := make([]time.Time, len(rules))
	for i, r := range rules {
		cutoffs[i] = microsToTime(r.cutoff(now.UnixMicro()))
	}
	return cutoffs
}

// Evaluate computes the states of the rules at now and counts nothing; Decision.Allowed says
// whether one more event would be admitted. history has the events of each scope, in any order, on
// now's clock.
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

// LongestKeep returns how long events must be kept for the rules; 0 without rules.
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

// Seconds rounds d up to whole seconds, so that a client never comes back too early. It returns 0
// if d is negative.
func Seconds(d time.Duration) int { return int(ceil(d, time.Second)) }

// Milliseconds rounds d up to whole milliseconds; 0 if d is negative.
func Milliseconds(d time.Duration) int64 { return ceil(d, time.Millisecond) }

func ceil(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/unit) + 1
}

func microsToTime(µs int64) time.Time { return time.UnixMicro(µs).UTC() }

func sortedTimes(events []Event) []int64 {
	times := make([]int64, len(events))
	for i, e := range events {
		times[i] = e.At.UnixMicro()
	}
	slices.Sort(times)
	return times
}

// tally has the counts of a rule. Instants are µs since 1970. take.lua computes the same numbers.
type tally struct {
	used   int
	oldest int64 // if used > 0
	// If used ≥ limit, pivot is the (used-limit+1)-th oldest counted event: when it leaves, one
	// more is admitted.
	pivot int64
}

// tally needs times in ascending order.
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

// Memory, Redis and Evaluate all use state, so that they give the same answers.
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

// withCalendarWaits sets the window and the waits of a calendar rule. All events of a period leave
// when it ends; with Days, all events of a date leave when a later date begins.
func (t tally) withCalendarWaits(s State, now int64) State {
	start, end := s.Period(microsToTime(now))
	wait := func(at int64) time.Duration {
		leaves := end
		if s.Days > 0 {
			leaves = s.expiryByDate(microsToTime(at))
		} else if at >= end.UnixMicro() { // the event is in a later period, since the clock was set back
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

// timeLeft returns more than the window if the event lies in the future, as after the clock was set
// back.
func timeLeft(at int64, window time.Duration, now int64) time.Duration {
	return window - time.Duration(now-at)*time.Microsecond
}
