package clients

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

func TestExactlySeven(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		if n := apptest.Embedded(t).Policy(apptest.SevenAtMost).Start(1).Burst(500, apptest.Ana); n != 7 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost).Start(2)
		if n := s.Burst(500, apptest.Ana); n != 7 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas without Redis, which share the log alone", func(t *testing.T) {
		t.Parallel()
		s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost)
		delete(s.Env, "SENDCODE_REDIS_URL")
		if n := s.Start(2).Burst(200, apptest.Ana); n != 7 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas, flushed every 10 ms", func(t *testing.T) {
		t.Parallel()
		s := apptest.OnRealParts(t).Policy(apptest.SevenAtMost).Start(2)
		ctx, stop := context.WithCancel(t.Context())
		flushed := make(chan int)
		go func() { flushed <- keepFlushing(s, ctx) }()
		n := s.Burst(500, apptest.Ana)
		n += s.Burst(100, apptest.Ana)
		stop()
		if f := <-flushed; n != 7 || f < 2 {
			t.Errorf("%d let in, %d flushes", n, f)
		}
		s.AwaitMail(apptest.Ana, 7)
	})
}

func keepFlushing(s *apptest.Stack, ctx context.Context) (flushes int) {
	for {
		select {
		case <-ctx.Done():
			return flushes
		case <-time.After(10 * time.Millisecond):
			s.Flush()
			flushes++
		}
	}
}
