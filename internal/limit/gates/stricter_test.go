package gates

import (
	"slices"
	"testing"
	"time"

	"sendcode/quota"
)

// If both gates count the same send, the rows' state is returned, although the limiter was called
// earlier. Any other state of the limiter is returned with its waits shortened by the time that has
// certainly passed.
func TestMergeStates(t *testing.T) {
	rule := quota.Rule{Name: "rule", Limit: 1}
	wide := quota.Rule{Name: "wide", Limit: 1}
	more := quota.Rule{Name: "rule", Limit: 2}
	state := func(r quota.Rule, used int, wait time.Duration) quota.State {
		return quota.State{Rule: r, Used: used, ResetAfter: wait, RetryAfter: wait}
	}
	for name, c := range map[string]struct {
		limited, rows, want []quota.State
	}{
		"one send":               {[]quota.State{state(rule, 1, 60)}, []quota.State{state(rule, 1, 55)}, []quota.State{state(rule, 1, 55)}},
		"the limiter's is later": {[]quota.State{state(rule, 1, 66)}, []quota.State{state(rule, 1, 55)}, []quota.State{state(rule, 1, 63)}},
		"its wait has ended":     {[]quota.State{state(rule, 1, 10)}, []quota.State{state(rule, 0, 0)}, []quota.State{state(rule, 0, 0)}},
		"the order of the rules": {
			[]quota.State{state(wide, 1, 60)},
			[]quota.State{state(rule, 1, 55)},
			[]quota.State{state(rule, 1, 55), state(wide, 1, 57)},
		},
		"the rows' longer wait": {[]quota.State{state(rule, 9, 11)}, []quota.State{state(rule, 5, 2)}, []quota.State{state(rule, 5, 2)}},
		"the limiter's counts more": {
			[]quota.State{state(rule, 4, 0)},
			[]quota.State{state(rule, 3, 0)},
			[]quota.State{state(rule, 4, 0)},
		},
		"the limiter's counts longer": {
			[]quota.State{{Rule: rule, Used: 3, ResetAfter: 20}},
			[]quota.State{{Rule: rule, Used: 3, ResetAfter: 5}},
			[]quota.State{{Rule: rule, Used: 3, ResetAfter: 17}},
		},
		"one rule with two limits": {
			[]quota.State{state(rule, 1, 66), state(more, 1, 0)},
			nil,
			[]quota.State{state(rule, 1, 63), state(more, 1, 0)},
		},
		"neither": {nil, nil, nil},
	} {
		if got := mergeStates([]quota.Rule{rule, wide, more}, c.limited, c.rows, 3, 10); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A recipient is forgotten when its wait has ended, and when another recipient takes its slot.
func TestRecipientsUntil(t *testing.T) {
	b, now := newRecipientsUntil(), time.Now()
	const other = 1<<16 + 7
	b.add(7, now.Add(time.Minute))
	got := []bool{b.has(7, now), b.has(7, now.Add(time.Minute)), b.has(other, now)}
	b.add(other, now.Add(time.Minute))
	got = append(got, b.has(7, now), b.has(other, now))
	if want := []bool{true, false, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("known, at the end, another one, then, another one then: %v, want %v", got, want)
	}
}
