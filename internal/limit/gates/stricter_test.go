package gates

import (
	"testing"
	"time"

	"sendcode/quota"
)

func TestStricter(t *testing.T) {
	state := func(used int, reset, wait time.Duration) quota.State {
		return quota.State{Used: used, ResetAfter: reset, RetryAfter: wait}
	}
	for name, c := range map[string]struct{ a, b, want quota.State }{
		"the longer wait":      {state(9, 5, 1), state(5, 4, 2), state(5, 4, 2)},
		"then more used":       {state(3, 5, 0), state(4, 4, 0), state(4, 4, 0)},
		"then the later reset": {state(3, 4, 0), state(3, 5, 0), state(3, 5, 0)},
	} {
		if got := stricter(c.a, c.b); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if got := stricter(c.b, c.a); got != c.want {
			t.Errorf("%s, in the other order: %+v", name, got)
		}
	}
}

// The rows' state of a send that both count is told, although the limiter was asked before; another
// one of the limiter's is told without the time that has surely passed.
func TestMergeStates(t *testing.T) {
	rule := quota.Rule{Name: "rule", Limit: 1}
	wide := quota.Rule{Name: "wide", Limit: 1}
	state := func(r quota.Rule, used int, wait time.Duration) quota.State {
		return quota.State{Rule: r, Used: used, ResetAfter: wait, RetryAfter: wait}
	}
	for name, c := range map[string]struct {
		limited, rows, want []quota.State
	}{
		"one send": {[]quota.State{state(rule, 1, 60)}, []quota.State{state(rule, 1, 55)}, []quota.State{state(rule, 1, 55)}},
		"the limiter's is later": {[]quota.State{state(rule, 1, 66)}, []quota.State{state(rule, 1, 55)},
			[]quota.State{state(rule, 1, 63)}},
		"its wait has ended": {[]quota.State{state(rule, 1, 10)}, []quota.State{state(rule, 0, 0)}, []quota.State{state(rule, 0, 0)}},
		"the order of the rules": {[]quota.State{state(wide, 1, 60)}, []quota.State{state(rule, 1, 55)},
			[]quota.State{state(rule, 1, 55), state(wide, 1, 57)}},
		"neither": {nil, nil, nil},
	} {
		got := mergeStates([]quota.Rule{rule, wide}, c.limited, c.rows, 3, 10)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %+v", name, got[i])
			}
		}
	}
}
