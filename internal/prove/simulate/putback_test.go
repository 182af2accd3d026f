//go:build !race

package simulate_test

import (
	"context"
	"slices"
	"testing"

	"sendcode/internal/base/fault"
	"sendcode/internal/prove/simulate"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

// Bugs that were found by attacks and are mended: put back, a known world finds each, or, after a
// change of what a world does, one of the next 50.
func TestMendedBugsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		put    func(*simulate.Replica)
		oracle string
		from   uint64
	}{
		"strangers may use up all places": {nil, "attackers stop no one else", 1},
		"T1: after the limiter lost its data, waits are the limiter's": {func(r *simulate.Replica) {
			r.Dependencies.DB = tellsNoHistory{r.Dependencies.DB}
		}, "told wait", 3},
		"M1: failed checks of browsers lock back ends out": {func(r *simulate.Replica) {
			r.Dependencies.DB = oneKind{r.Dependencies.DB}
		}, "attackers stop no one else", 57},
		"B1: a send that the database did not take keeps its place": {func(r *simulate.Replica) {
			r.Dependencies.DB = neverSettles{r.Dependencies.DB}
		}, "refunds", 75},
	} {
		t.Run(name, func(t *testing.T) {
			o := simulate.Options{Break: c.put, NoReserve: c.put == nil}
			for seed := c.from; seed < c.from+50; seed++ {
				p := simulate.NewPlan(seed, 0)
				for _, v := range simulate.Run(t, p, o).Violations {
					if v.Oracle == c.oracle {
						t.Logf("found by seed %d: %s", seed, v.Detail)
						return
					}
				}
			}
			t.Error("no seed found it")
		})
	}
}

// tellsNoHistory is a database that tells nothing of what it counts.
type tellsNoHistory struct{ core.Database }

func (l tellsNoHistory) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	b, err := l.Database.Begin(ctx, in)
	if b.Admitted {
		b.History = nil
	}
	return b, err
}

func (l tellsNoHistory) ReadHistory(ctx context.Context, look gate.HistoryQuery) (gate.History, error) {
	h, err := l.Database.ReadHistory(ctx, look)
	h.Past, h.Rejections = nil, nil
	return h, err
}

// oneKind is a database in which every verification is of a back end.
type oneKind struct{ core.Database }

func (l oneKind) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	in.Verification.Class = store.SecretKeyClass
	return l.Database.Begin(ctx, in)
}

// neverSettles is a database that never says which sends it has written.
type neverSettles struct{ core.Database }

func (l neverSettles) Ping(context.Context) error { return fault.Unavailable }

// One seed gives one course of events. What happens within a millisecond is compared in any order:
// requests that share a statement get their answers at one instant. Freezes are left out: a process
// that wakes has several timers ready, and select chooses among them at random.
func TestSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		p := simulate.NewPlan(seed, 0)
		p.Events = slices.DeleteFunc(p.Events, func(e simulate.Event) bool { return e.Kind == simulate.Freeze })
		run := func() []string {
			return slices.Sorted(slices.Values(simulate.Run(t, p, simulate.Options{Trace: true}).Trace))
		}
		first := run()
		next := run()
		for i, line := range first {
			if i >= len(next) || next[i] != line {
				t.Errorf("seed %d differs at step %d of %d:\n%s\n%s", seed, i, len(first), line, next[min(i, len(next)-1)])
				break
			}
		}
	}
}
