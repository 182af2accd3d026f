package quota

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// rival is one way to decide, or the bare script that returns 1.
type rival struct {
	name string
	call func(context.Context) error
}

// BenchmarkRivals decides the default policy in several ways by turns, so that other work on the
// machine slows all of them. It prints decisions per second, and the ratio to the bare script of
// the same round: median, lowest, highest.
func BenchmarkRivals(b *testing.B) {
	for _, outcome := range []string{"admitted", "refused"} {
		for _, callers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", outcome, callers), func(b *testing.B) { compete(b, callers, rivals(b, outcome == "admitted")) })
		}
	}
}

func rivals(b *testing.B, fresh bool) []rival {
	client := newClient(b, servertest.Redis(b).URL())
	shared, alone := NewRedis(client, "quota:"), NewRedis(client, "quota:")
	alone.pipe = nil
	bare := redis.NewScript("return 1")
	return []rival{
		{"a script that returns 1", func(ctx context.Context) error { return bare.Run(ctx, client, []string{"quota:bare"}).Err() }},
		{"the policy, each call by itself", taker(alone, fresh)},
		{"the policy, coalesced", taker(shared, fresh)},
		{"three calls of redis_rate", rates(redis_rate.NewLimiter(client), fresh)},
	}
}

// recipients returns a new recipient each time, or always one that is refused.
func recipients(fresh bool) func() string {
	var n atomic.Int64
	return func() string {
		if fresh {
			return fmt.Sprint(n.Add(1))
		}
		return "ann"
	}
}

func taker(l Limiter, fresh bool) func(context.Context) error {
	next := recipients(fresh)
	return func(ctx context.Context) error {
		return second(l.Take(ctx, Request{ID: newID(), Rules: defaults, Buckets: buckets(next(), "office")}))
	}
}

// rates decides the same three rules with a limiter that decides one rule at a time.
func rates(l *redis_rate.Limiter, fresh bool) func(context.Context) error {
	next := recipients(fresh)
	return func(ctx context.Context) error {
		recipient := next()
		for _, r := range defaults {
			if _, err := l.Allow(ctx, r.Name+recipient, redis_rate.Limit{Rate: r.Limit, Burst: r.Limit, Period: r.Window}); err != nil {
				return err
			}
		}
		return nil
	}
}

var lastID atomic.Uint64

func newID() string {
	return string(binary.BigEndian.AppendUint64([]byte("benchmrk"), lastID.Add(1)))
}

func compete(b *testing.B, callers int, rivals []rival) {
	const rounds, turn = 9, 80 * time.Millisecond
	rates := make([][]float64, len(rivals)) // decisions a second, by round
	for b.Loop() {
		for range rounds {
			for i, r := range rivals {
				calls, took := together(b, callers, turn, r.call)
				rates[i] = append(rates[i], calls/took.Seconds())
			}
		}
	}
	var table strings.Builder
	for i, r := range rivals {
		ratio := make([]float64, len(rates[i]))
		for round := range ratio {
			ratio[round] = rates[i][round] / rates[0][round]
		}
		slices.Sort(ratio)
		fmt.Fprintf(&table, "\n%-40s %8.0f/s, %5.2f of the bare script (%.2f to %.2f)", r.name, median(rates[i]), median(ratio),
			ratio[0], ratio[len(ratio)-1])
	}
	b.ReportMetric(0, "ns/op") // of all together: means nothing
	b.Log(table.String())
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// together lets all callers call until the turn is over.
func together(b *testing.B, callers int, turn time.Duration, call func(context.Context) error) (calls float64, took time.Duration) {
	if err := call(b.Context()); err != nil {
		b.Fatal(err)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			n := int64(0)
			for ; time.Since(begin) < turn; n++ {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
			done.Add(n)
		})
	}
	wg.Wait()
	return float64(done.Load()), time.Since(begin)
}
