//go:build !race

package simulate_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/gates"
	"sendcode/internal/simulate"
	"sendcode/internal/store"
	"sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// Bugs that were found by attacks and are mended: put back, one of 300 worlds finds each. Seeds of before the first that does are left out.
func TestMendedBugsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		put    func(*simulate.Replica)
		oracle string
		from   uint64
	}{
		"strangers may use up all places": {nil, "attackers stop no one else", 1},
		"T1: after the limiter lost its data, waits are the limiter's": {func(r *simulate.Replica) {
			r.Parts.Limiter, r.Parts.Log = neverIncomplete{r.Parts.Limiter}, tellsNoHistory{r.Parts.Log}
		}, "told wait", 1},
		"M1: failed checks of browsers lock back ends out": {func(r *simulate.Replica) {
			r.Parts.Log = oneKind{r.Parts.Log}
		}, "attackers stop no one else", 55},
		"B1: a send that the log did not take keeps its place": {func(r *simulate.Replica) {
			r.Parts.Log = neverSettles{r.Parts.Log}
		}, "refunds", 1},
		"N2: the limiter's clock is not compared with the log's": {func(r *simulate.Replica) {
			r.Parts.Limiter = oneClock{r.Parts.Limiter}
		}, "told wait", 155},
		"N4: marks hold whichever purposes share the bucket": {func(r *simulate.Replica) {
			r.Parts.Limiter = oneMapping{r.Parts.Limiter}
		}, "told wait", 45},
	} {
		t.Run(name, func(t *testing.T) {
			o := simulate.Options{Break: c.put, NoReserve: c.put == nil}
			for seed := c.from; seed < c.from+300; seed++ {
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

// neverIncomplete is a limiter that does not say that it may lack events.
type neverIncomplete struct{ gates.Limiter }

func (l neverIncomplete) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := l.Limiter.Take(ctx, r)
	d.Incomplete = nil
	return d, err
}

func (l neverIncomplete) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	d, err := l.Limiter.Peek(ctx, r)
	d.Incomplete = nil
	return d, err
}

// oneClock is a limiter whose marks hold whatever its clock shows, and whose instants are never corrected.
type oneClock struct{ gates.Limiter }

func (l oneClock) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	r.Ahead = 0
	return l.Limiter.Take(ctx, r)
}

func (l oneClock) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	r.Ahead = 0
	return l.Limiter.Peek(ctx, r)
}

func (l oneClock) Restore(ctx context.Context, h quota.History) error {
	h.Skew, h.Ahead = 0, 0
	return l.Limiter.Restore(ctx, h)
}

// oneMapping is a limiter that does not know that callers have different mappings.
type oneMapping struct{ gates.Limiter }

func (l oneMapping) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return l.Limiter.Take(ctx, withoutMapping(r))
}

func (l oneMapping) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	return l.Limiter.Peek(ctx, withoutMapping(r))
}

func (l oneMapping) Restore(ctx context.Context, h quota.History) error {
	h.Mapping = ""
	return l.Limiter.Restore(ctx, h)
}

func withoutMapping(r quota.Request) quota.Request {
	if r.Logged != nil {
		r.Logged = map[quota.Scope]string{quota.Recipient: "", quota.Failures: ""}
	}
	return r
}

// tellsNoHistory is a log that tells nothing of what it counted when it lets a send in.
type tellsNoHistory struct{ verificationtest.Log }

func (l tellsNoHistory) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	b, err := l.Log.Begin(ctx, in)
	if b.Admitted {
		b.History = nil
	}
	return b, err
}

// oneKind is a log in which every verification is of a back end.
type oneKind struct{ verificationtest.Log }

func (l oneKind) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	in.Verification.Class = store.SecretKey
	return l.Log.Begin(ctx, in)
}

// neverSettles is a log that calls every send written.
type neverSettles struct{ verificationtest.Log }

func (l neverSettles) SendsByID(_ context.Context, ids []uuid.UUID) (rows []store.Send, _ error) {
	for _, id := range ids {
		rows = append(rows, store.Send{ID: id, Status: store.Sent})
	}
	return rows, nil
}

// One seed gives one course of events, to the nanosecond. Freezes are left out: a process that wakes has several timers ready, and select
// chooses among them at random.
func TestSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		p := simulate.NewPlan(seed, 0)
		p.Events = slices.DeleteFunc(p.Events, func(e simulate.Event) bool { return e.Kind == simulate.Freeze })
		first := simulate.Run(t, p, simulate.Options{Trace: true})
		for range 2 {
			next := simulate.Run(t, p, simulate.Options{Trace: true})
			if slices.Equal(next.Trace, first.Trace) {
				continue
			}
			for i, line := range first.Trace {
				if i >= len(next.Trace) || next.Trace[i] != line {
					t.Errorf("seed %d differs at step %d of %d:\n%s\n%s", seed, i, len(first.Trace), line, next.Trace[min(i, len(next.Trace)-1)])
					break
				}
			}
		}
	}
}
