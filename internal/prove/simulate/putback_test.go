//go:build !race

package simulate_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"sendcode/internal/base/fault"
	history "sendcode/internal/kit/historytest"
	"sendcode/internal/prove/simulate"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

// calm has the kinds of events with which the history checker judges no world.
var calm = []simulate.Kind{simulate.NewPolicy, simulate.Remap, simulate.OtherFile, simulate.Erase}

// Each bug was found by an attack and fixed. The test puts the bug back, and a known seed finds it.
// After a change of the simulation, one of the next 2,000 seeds must find it: then write the seed
// that the log names into the table.
func TestSimulationFindsBugsPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		put    func(*simulate.Replica)
		oracle string
		from   uint64
		never  []simulate.Kind // tries only worlds without Redis, after removing these events; nil: tries any world
	}{
		"strangers may use up all places": {nil, "attackers stop no one else", 1, nil},
		"T1: after the limiter lost its data, waits are the limiter's": {func(r *simulate.Replica) {
			r.Dependencies.DB = tellsNoHistory{r.Dependencies.DB}
		}, "told wait", 4, nil},
		"M1: failed checks of browsers lock back ends out": {func(r *simulate.Replica) {
			r.Dependencies.DB = oneKind{r.Dependencies.DB}
		}, "attackers stop no one else", 57, nil},
		"B1: a send that the database did not take keeps its place": {func(r *simulate.Replica) {
			r.Dependencies.DB = neverSettles{r.Dependencies.DB}
		}, "refunds", 299, nil},
		"without Redis a reset stays unknown to a replica": {func(r *simulate.Replica) {
			r.Dependencies.DB = &remembers{Database: r.Dependencies.DB, past: map[string][]rowrules.PastSend{}}
		}, "as seen: " + history.Costs, 9, append(calm, simulate.ServerRefuses, simulate.ServerBusy)},
		"without Redis only one replica sees a refund": {func(r *simulate.Replica) {
			r.Dependencies.DB = &remembers{Database: r.Dependencies.DB, past: map[string][]rowrules.PastSend{}}
		}, "as seen: " + history.Costs, 235, append(calm, simulate.Reset)},
		"the rows of a month count for 31 days": {func(r *simulate.Replica) {
			r.Dependencies.DB = noMonths{r.Dependencies.DB}
		}, "told wait", 188, calm},
	} {
		t.Run(name, func(t *testing.T) {
			o := simulate.Options{Break: c.put, NoReserve: c.put == nil}
			for seed := c.from; seed < c.from+2000; seed++ {
				p := simulate.NewPlan(seed, 0)
				if c.never != nil && !p.WithoutRedis {
					continue
				}
				p.Events = slices.DeleteFunc(p.Events, func(e simulate.Event) bool { return slices.Contains(c.never, e.Kind) })
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

// tellsNoHistory is a database that doesn't tell the gates which events it counts.
type tellsNoHistory struct{ core.Database }

func (t tellsNoHistory) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	b, err := t.Database.Begin(ctx, in)
	if b.Admitted {
		b.History = nil
	}
	return b, err
}

func (t tellsNoHistory) ReadHistory(ctx context.Context, look rowrules.HistoryQuery) (rowrules.History, error) {
	h, err := t.Database.ReadHistory(ctx, look)
	h.Past, h.Rejections = nil, nil
	return h, err
}

// oneKind is a database in which every verification counts as a back end's.
type oneKind struct{ core.Database }

func (o oneKind) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	in.Verification.Class = store.SecretKeyClass
	return o.Database.Begin(ctx, in)
}

// noMonths is a database that counts calendar rules by windows.
type noMonths struct{ core.Database }

func (n noMonths) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	in.Rules = slices.Clone(in.Rules)
	for i, r := range in.Rules {
		if r.Per != "" {
			in.Rules[i].Window, in.Rules[i].Per = r.Keep(), ""
		}
	}
	return n.Database.Begin(ctx, in)
}

// neverSettles is a database whose Ping fails, so package repair never learns which sends were
// written.
type neverSettles struct{ core.Database }

func (n neverSettles) Ping(context.Context) error { return fault.Unavailable }

// remembers is a database with a defect: its replica never forgets a send that it has read once,
// unless it has refunded the send.
type remembers struct {
	core.Database
	mu   sync.Mutex
	past map[string][]rowrules.PastSend
}

func (r *remembers) ReadHistory(ctx context.Context, look rowrules.HistoryQuery) (rowrules.History, error) {
	h, err := r.Database.ReadHistory(ctx, look)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(look.SendBucket)
	for _, known := range r.past[key] {
		if !slices.ContainsFunc(h.Past, func(p rowrules.PastSend) bool { return p.ID == known.ID }) {
			h.Past = append(h.Past, known)
		}
	}
	slices.SortFunc(h.Past, func(a, b rowrules.PastSend) int { return a.At.Compare(b.At) })
	if err == nil {
		r.past[key] = h.Past
	}
	return h, err
}

func (r *remembers) Finish(ctx context.Context, out store.Outcome) (bool, error) {
	r.mu.Lock()
	for key := range r.past {
		r.past[key] = slices.DeleteFunc(slices.Clone(r.past[key]), func(p rowrules.PastSend) bool { return out.Refund && p.ID == out.ID })
	}
	r.mu.Unlock()
	return r.Database.Finish(ctx, out)
}

// A seed always gives the same course of events, on one processor and on several. The order of
// events within a millisecond is not compared, because requests that share a statement get their
// answers at the same instant.
func TestSameStory(t *testing.T) {
	for seed := uint64(1); seed <= *twice; seed++ {
		run := func(processors int) ([]string, map[string]int) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			r := simulate.Run(t, simulate.NewPlan(seed, 0), simulate.Options{Trace: true})
			return slices.Sorted(slices.Values(r.Trace)), r.Counts
		}
		first, counts := run(1)
		next, again := run(8)
		for i, line := range first {
			if i >= len(next) || next[i] != line {
				t.Errorf("seed %d differs at step %d of %d:\n%s\n%s", seed, i, len(first), line, next[min(i, len(next)-1)])
				break
			}
		}
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			if again[what] != counts[what] {
				t.Errorf("seed %d: %s: %d, then %d", seed, what, counts[what], again[what])
			}
		}
		if len(again) != len(counts) {
			t.Errorf("seed %d: %d kinds of outcomes, then %d", seed, len(counts), len(again))
		}
	}
}
