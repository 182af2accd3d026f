package clients

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
)

// Of hundreds of requests at once for one recipient exactly as many are admitted as the policy
// says.
func TestExactlySeven(t *testing.T) {
	embedded := func(t *testing.T) *apptest.Stack { return apptest.Embedded(t).Policy(apptest.SevenAtMost).Start(1) }
	replicas := func(t *testing.T) *apptest.Stack { return apptest.OnRealParts(t).Policy(apptest.SevenAtMost).Start(2) }
	withoutRedis := func(t *testing.T) *apptest.Stack {
		s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost)
		delete(s.Env, "SENDCODE_REDIS_URL")
		return s.Start(2)
	}
	for name, c := range map[string]struct {
		start   func(*testing.T) *apptest.Stack
		flushed bool
	}{
		"in process": {embedded, false}, "two replicas": {replicas, false},
		"two replicas without Redis, which share the database alone": {withoutRedis, false},
		"two replicas, flushed every 10 ms":                          {replicas, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			ctx, stop := context.WithCancel(t.Context())
			flushes := make(chan int, 1)
			if c.flushed {
				go func() { flushes <- keepFlushing(s, ctx) }()
			}
			n := s.Burst(300, apptest.Ana) + s.Burst(100, apptest.Ana)
			stop()
			if n != 7 || c.flushed && <-flushes < 2 {
				t.Errorf("%d let in, or Redis was hardly flushed", n)
			}
			s.AwaitMail(apptest.Ana, 7)
		})
	}
}

func keepFlushing(s *apptest.Stack, ctx context.Context) (flushes int) {
	c := s.RedisClient()
	for {
		select {
		case <-ctx.Done():
			return flushes
		case <-time.After(10 * time.Millisecond):
			if err := c.FlushAll(s.Context()).Err(); err != nil {
				s.Error(err)
			}
			flushes++
		}
	}
}
