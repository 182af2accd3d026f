package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// unlessBusy asks again where the answer is 503, as a machine may say that is busy with other tests.
func unlessBusy(ask func() answer) (a answer) {
	a = ask()
	for tries := 0; a.status == http.StatusServiceUnavailable && tries < 5; tries++ {
		after(time.Second)
		a = ask()
	}
	return a
}

// burst sends n requests for one recipient at once, over all replicas, and counts what was let in.
func (s *stack) burst(n int, to string) (admitted int) {
	s.Helper()
	var in atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a := unlessBusy(func() answer { return s.ask(i%len(s.replicas), to) })
			switch a.status {
			case http.StatusAccepted:
				in.Add(1)
			case http.StatusTooManyRequests:
			default:
				s.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
	wg.Wait()
	return int(in.Load())
}

func TestOneOfTwoHundred(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		if n := embedded(t).policy(oneAtMost).start(1).burst(200, ana); n != 1 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas, flushed in between", func(t *testing.T) {
		t.Parallel()
		s := onRealParts(t).policy(oneAtMost).start(2)
		if n := s.burst(200, ana); n != 1 {
			t.Errorf("%d let in", n)
		}
		s.flush()
		if n := s.burst(200, ana); n != 0 {
			t.Errorf("%d let in after a flush, within the same window", n)
		}
		s.awaitMail(ana, 1)
	})
	t.Run("two replicas without Redis, which share the log alone", func(t *testing.T) {
		t.Parallel()
		s := onRealParts(t).policy(oneAtMost)
		delete(s.env, "SENDCODE_REDIS_URL")
		if n := s.start(2).burst(200, ana); n != 1 {
			t.Errorf("%d let in", n)
		}
	})
}

func (s *stack) flush() {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer c.Close()
	if err := c.FlushAll(s.Context()).Err(); err != nil {
		s.Fatal(err)
	}
}

// Seven and no cooldown, or one. The window is longer than any burst takes, on the busiest machine too.
const (
	sevenAtMost = "    - {name: seven, scope: recipient, limit: 7, window: 300s}\n"
	oneAtMost   = "    - {name: one, scope: recipient, limit: 1, window: 300s}\n"
)

func TestExactlySeven(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		if n := embedded(t).policy(sevenAtMost).start(1).burst(500, ana); n != 7 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas", func(t *testing.T) {
		t.Parallel()
		s := onRealParts(t).policy(sevenAtMost).start(2)
		if n := s.burst(500, ana); n != 7 {
			t.Errorf("%d let in", n)
		}
	})
	t.Run("two replicas, flushed every 10 ms", func(t *testing.T) {
		t.Parallel()
		s := onRealParts(t).policy(sevenAtMost).start(2)
		ctx, stop := context.WithCancel(t.Context())
		flushed := make(chan int)
		go func() { flushed <- s.keepFlushing(ctx) }()
		n := s.burst(500, ana)
		n += s.burst(100, ana)
		stop()
		if f := <-flushed; n != 7 || f < 2 {
			t.Errorf("%d let in, %d flushes", n, f)
		}
		s.awaitMail(ana, 7)
	})
}

func (s *stack) keepFlushing(ctx context.Context) (flushes int) {
	for {
		select {
		case <-ctx.Done():
			return flushes
		case <-time.After(10 * time.Millisecond):
			s.flush()
			flushes++
		}
	}
}

// Ten recipients at once, each with its own seven: batches of the log mix them.
func TestRecipientsDoNotMix(t *testing.T) {
	s := onRealParts(t).policy(sevenAtMost).start(2)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if n := s.burst(30, fmt.Sprintf("r%d@example.com", i)); n != 7 {
				t.Errorf("recipient %d: %d let in", i, n)
			}
		})
	}
	wg.Wait()
}
