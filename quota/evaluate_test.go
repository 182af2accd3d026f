package quota

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func at(ages ...time.Duration) []Event {
	var events []Event
	for i, age := range ages {
		events = append(events, Event{ID: fmt.Sprint(i), At: epoch.Add(-age)})
	}
	return events
}

func TestEvaluate(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for name, c := range map[string]struct {
		ages         []time.Duration
		limit        int
		used         int
		reset, retry time.Duration
	}{
		"no event":                   {nil, 1, 0, 0, 0},
		"just now":                   {[]time.Duration{0}, 1, 1, hour, hour},
		"room left":                  {[]time.Duration{minute}, 2, 1, 59 * minute, 0},
		"1 µs before it leaves":      {[]time.Duration{hour - µs}, 1, 1, µs, µs},
		"as it leaves":               {[]time.Duration{hour}, 1, 0, 0, 0},
		"below 1 µs is cut off":      {[]time.Duration{hour - time.Nanosecond}, 1, 0, 0, 0},
		"in any order":               {[]time.Duration{3 * minute, minute, 2 * minute}, 3, 3, 57 * minute, 57 * minute},
		"over the limit":             {[]time.Duration{minute, 2 * minute, 3 * minute}, 1, 3, 57 * minute, 59 * minute},
		"in the future":              {[]time.Duration{-minute}, 1, 1, hour + minute, hour + minute},
		"old, now and in the future": {[]time.Duration{-minute, 0, 59 * minute, 61 * minute}, 2, 3, minute, hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := sliding(Recipient, c.limit, hour)
			d := Evaluate([]Rule{r}, map[Scope][]Event{Recipient: at(c.ages...)}, epoch)
			sameDecision(t, d, Decision{At: epoch, Rules: []State{{r, c.used, c.reset, c.retry}}})
		})
	}
}

// The waits are exact even if the event lies in the future, as after the clock was set back.
func TestEvaluateTellsTheWaitAfterAStepBack(t *testing.T) {
	for _, r := range []Rule{sliding(App, 1, time.Hour), hourly(1), threeDates(1)} {
		history := map[Scope][]Event{r.Scope: at(-5 * time.Hour)}
		decision := Evaluate([]Rule{r}, history, epoch)
		same(t, r.Name+": reset", decision.Rules[0].ResetAfter, decision.RetryAfter())
		end := epoch.Add(decision.RetryAfter())
		same(t, r.Name+": 1 µs before", Evaluate([]Rule{r}, history, end.Add(-µs)).Allowed(), false)
		same(t, r.Name+": at its end", Evaluate([]Rule{r}, history, end).Allowed(), true)
	}
}

func TestEvaluateExplainsEachRuleByItsScope(t *testing.T) {
	rules := []Rule{sliding(IP, 1, time.Hour), sliding(Recipient, 1, time.Minute), sliding(IP, 2, time.Minute)}
	history := map[Scope][]Event{IP: at(time.Second, 30*time.Minute)}
	d := Evaluate(rules, history, epoch.Add(999*time.Nanosecond).Local())
	same(t, "instant", d.At, epoch)
	sameList(t, "remaining", remaining(d), []int{0, 1, 1})
	same(t, "admitted", d.Admitted, false)
	sameList(t, "history is left as it was", history[IP], at(time.Second, 30*time.Minute))
	same(t, "rules", len(Evaluate(nil, history, epoch).Rules), 0)
}

func TestRoundingUp(t *testing.T) {
	for _, c := range []struct {
		d  time.Duration
		s  int
		ms int64
	}{
		{0, 0, 0},
		{-time.Second, 0, 0},
		{1, 1, 1},
		{time.Millisecond, 1, 1},
		{time.Millisecond + 1, 1, 2},
		{time.Second - 1, 1, 1000},
		{time.Second, 1, 1000},
		{time.Second + 1, 2, 1001},
		{41713 * time.Millisecond, 42, 41713},
		{math.MaxInt64, 9223372037, 9223372036855},
	} {
		same(t, fmt.Sprintf("%v in s", c.d), Seconds(c.d), c.s)
		same(t, fmt.Sprintf("%v in ms", c.d), Milliseconds(c.d), c.ms)
	}
}

func TestLongestAndOfScope(t *testing.T) {
	rules := []Rule{sliding(IP, 1, time.Hour), sliding(Recipient, 1, time.Minute), sliding(IP, 2, time.Minute)}
	same(t, "longest", LongestKeep(rules), time.Hour)
	same(t, "longest of none", LongestKeep(nil), 0)
	same(t, "of a month", LongestKeep([]Rule{{Per: Month, Limit: 1}}), 31*24*time.Hour)
	sameList(t, "of the address", OfScope(rules, IP), []Rule{rules[0], rules[2]})
	sameList(t, "of the recipient", OfScope(rules, Recipient), rules[1:2])
	same(t, "the argument is left as it was", rules[1].Scope, Recipient)
}
