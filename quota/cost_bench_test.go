package quota

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts"
)

// BenchmarkCost shows what one decision costs, in processor time of this process and of Redis's thread, and in allocations. Both hold on
// a busy machine, where rates do not.
func BenchmarkCost(b *testing.B) {
	client := newClient(b, parts.Redis(b).URL())
	one := redis.NewScript("return 1")
	for _, callers := range []int{1, 64, 256} {
		for name, call := range map[string]func(context.Context) error{
			"bare":       func(ctx context.Context) error { return one.Run(ctx, client, []string{"quota:bare"}).Err() },
			"policy":     taker(NewRedis(client, "quota:"), true),
			"redis_rate": rates(redis_rate.NewLimiter(client), true),
		} {
			b.Run(name+"/"+strconv.Itoa(callers), func(b *testing.B) {
				b.ReportAllocs()
				thread, process := threadTime(b, client), processTime()
				var next atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for next.Add(1) <= int64(b.N) {
							if err := call(b.Context()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric((threadTime(b, client)-thread)*1e6/float64(b.N), "redis-µs/op")
				b.ReportMetric((processTime()-process)*1e6/float64(b.N), "process-µs/op")
			})
		}
	}
}

// processTime is the processor's time, in s, that this process has had.
func processTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
