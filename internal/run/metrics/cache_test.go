package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/metrics"
)

// An Ask that hangs delays a caller by MaxCacheWait and is called once at a time. Its late answer
// is used.
func TestBackgroundCacheOfAPartThatHangs(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		asked, away := 0, errors.New("away")
		hanging := make(chan struct{})
		v := metrics.BackgroundCache[int]{Every: time.Second, Ask: func(context.Context) (int, error) {
			asked++
			<-hanging
			return asked, away
		}}
		for range 10 {
			began := time.Now()
			if got := v.Get(t.Context()); got.Err != nil || time.Since(began) != metrics.MaxCacheWait {
				t.Errorf("%+v after %v", got, time.Since(began))
			}
			time.Sleep(v.Every)
		}
		close(hanging)
		synctest.Wait()
		for range 10 {
			if got := v.Get(t.Context()); got.Err != away {
				t.Errorf("%+v", got)
			}
		}
		servertest.Same(t, "calls", asked, 2)
		time.Sleep(v.Every)
		away = nil
		servertest.Same(t, "the third answer", v.Get(t.Context()),
			metrics.CachedAnswer[int]{Value: 3, AskedAt: time.Now(), Next: time.Now().Add(v.Every)})
		time.Sleep(v.Every)
		away = errors.New("away again")
		got := v.Get(t.Context())
		servertest.Same(t, "after a failure", got.Value, 3)
		servertest.Same(t, "the failure", got.Err, away)
	})
}

// A call of Ask continues until its own timeout, even if the context of Get has ended, which then
// does not wait. The longer a call takes, the later the next one begins.
func TestBackgroundCacheTimeoutAndShare(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v := metrics.BackgroundCache[int]{
			Every: time.Second, PauseFactor: 20, Timeout: 5 * time.Second,
			Ask: func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
		}
		began := time.Now()
		servertest.Same(t, "no answer yet", v.Get(ctx), metrics.CachedAnswer[int]{})
		servertest.Same(t, "the canceled caller waits", time.Since(began), 0)
		time.Sleep(v.Timeout)
		synctest.Wait()
		servertest.Same(t, "the timeout", v.Get(t.Context()),
			metrics.CachedAnswer[int]{Err: context.DeadlineExceeded, Next: began.Add(v.Timeout + 20*v.Timeout)})
	})
}
