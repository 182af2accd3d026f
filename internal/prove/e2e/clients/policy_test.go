package clients

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
)

// Of hundreds of requests for one recipient at the same time, exactly as many are admitted as the
// policy allows.
func TestExactlySeven(t *testing.T) {
	embedded := func(t *testing.T) *apptest.Stack { return apptest.Embedded(t).Policy(apptest.SevenAtMost).Start(1) }
	replicas := func(t *testing.T) *apptest.Stack { return apptest.OnRealParts(t).Policy(apptest.SevenAtMost).Start(2) }
	withoutRedis := func(t *testing.T) *apptest.Stack {
		s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost)
		delete(s.Env, "SENDCODE_REDIS_URL")
		return s.Start(2)
	}
	for name, start := range map[string]func(*testing.T) *apptest.Stack{
		"in process": embedded, "two replicas": replicas, "two replicas without Redis, which share the database alone": withoutRedis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			seven := func(what, to string) {
				if n := s.Burst(300, to) + s.Burst(100, to); n != 7 {
					t.Errorf("%s: %d let in", what, n)
				}
				s.AwaitMail(to, 7)
			}
			seven(name, apptest.Ana)
			if name != "two replicas" {
				return
			}
			ctx, stop := context.WithCancel(t.Context())
			flushes := make(chan int, 1)
			go func() { flushes <- keepFlushing(s, ctx) }()
			seven("while Redis is flushed every 10 ms", "bea@example.com")
			stop()
			if <-flushes < 2 {
				t.Error("Redis was hardly flushed")
			}
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
