package quota

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// BenchmarkTake decides the default policy. Redis runs by turns with a script that does nothing, so that the ratio
// (of_bare: 1 is as fast) says more than the machine does.
func BenchmarkTake(b *testing.B) {
	for _, outcome := range []string{"admitted", "refused"} {
		b.Run("memory/"+outcome, func(b *testing.B) { benchmarkMemory(b, outcome == "admitted") })
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("redis/%s/%d", outcome, callers), func(b *testing.B) {
				client := newClient(b, parts.Redis(b).URL())
				take := taker(b, NewRedis(client, "quota:"), outcome == "admitted")
				byTurns(b, callers, take, bare(b, client))
			})
		}
	}
}

// BenchmarkTakeByLimit shows what a higher limit costs: the bucket holds as many events as it says.
func BenchmarkTakeByLimit(b *testing.B) {
	for _, limit := range []int{10, 100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			client := newClient(b, parts.Redis(b).URL())
			limiter := NewRedis(client, "quota:")
			events := make([]Event, limit)
			for i := range events {
				events[i] = Event{ID: newID(), At: time.Now()}
			}
			must(b, limiter.Record(b.Context(), ann(), time.Hour, events))
			req := request(newID(), sliding(Recipient, limit, time.Hour), sliding(Recipient, limit/10, time.Minute))
			byTurns(b, 1, func(ctx context.Context) error { _, err := limiter.Take(ctx, req); return err }, bare(b, client))
		})
	}
}

func benchmarkMemory(b *testing.B, fresh bool) {
	take := taker(b, NewMemory(time.Now, "process"), fresh)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := take(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}

// taker takes for a new recipient each time, or for one that has had its turn.
func taker(b *testing.B, l Limiter, fresh bool) func(context.Context) error {
	var n atomic.Int64
	return func(ctx context.Context) error {
		recipient := "ann"
		if fresh {
			recipient = fmt.Sprint(n.Add(1))
		}
		_, err := l.Take(ctx, Request{ID: newID(), Rules: defaults, Buckets: buckets(recipient, "office")})
		return err
	}
}

func bare(b *testing.B, client redis.UniversalClient) func(context.Context) error {
	script := redis.NewScript("return 1")
	must(b, script.Load(b.Context(), client).Err())
	return func(ctx context.Context) error { return script.Run(ctx, client, []string{"quota:bare"}).Err() }
}

var lastID atomic.Uint64

func newID() string {
	return string(binary.BigEndian.AppendUint64([]byte("benchmrk"), lastID.Add(1)))
}

func byTurns(b *testing.B, callers int, one, other func(context.Context) error) {
	const turn = 100 // calls of each caller
	var spent [2]time.Duration
	must(b, one(b.Context()))
	turns := 0
	for b.Loop() {
		turns++
		for i, call := range []func(context.Context) error{one, other} {
			begin := time.Now()
			together(b, callers, turn, call)
			spent[i] += time.Since(begin)
		}
	}
	b.ReportMetric(0, "ns/op") // of both together: means nothing
	b.ReportMetric(float64(turns*turn*callers)/spent[0].Seconds(), "takes/s")
	b.ReportMetric(spent[1].Seconds()/spent[0].Seconds(), "of_bare")
}

func together(b *testing.B, callers, times int, call func(context.Context) error) {
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range times {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
