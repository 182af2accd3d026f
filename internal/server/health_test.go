package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/servertest"
)

func TestReadiness(t *testing.T) {
	broken := errors.New("dial tcp 192.0.2.1:6379: refused")
	away := &Reason{Word: "limiter_unreachable", Text: "Redis does not answer.", Err: broken}
	for _, c := range []struct {
		name            string
		database, redis *Reason
		status          int
		body            string
	}{
		{"all there", nil, nil, 200, "ok"},
		{"redis away", nil, away, 200, "degraded: limiter_unreachable: Redis does not answer."},
		{"redis refuses", nil, &Reason{"redis_no_permission", "Too few rights.", false, broken}, 200, "degraded: redis_no_permission: Too few rights."},
		{"database away", &Reason{"log_full", "No room.", false, broken}, away, 200,
			"degraded: log_full: No room.\ndegraded: limiter_unreachable: Redis does not answer."},
		{"database away here alone", &Reason{"log_full", "No room.", true, broken}, away, 503,
			"unavailable: log_full: No room.\ndegraded: limiter_unreachable: Redis does not answer."},
	} {
		e, _ := testServer(t)
		var h Health
		h.Register(e)
		if starting := get(e, "/readyz"); starting.Code != 503 || starting.Body.String() != "starting" {
			t.Errorf("at start: %d %s", starting.Code, starting.Body)
		}
		h.MarkStarted(func(context.Context) *Reason { return c.database }, func(context.Context) *Reason { return c.redis })
		ready, live := get(e, "/readyz"), get(e, "/livez")
		h.MarkStopping()
		stopping := get(e, "/readyz").Code
		if ready.Code != c.status || ready.Body.String() != c.body || live.Code != 200 || stopping != 503 {
			t.Errorf("%s: %d %s; livez %d; stopping %d", c.name, ready.Code, ready.Body, live.Code, stopping)
		}
	}
}

// A check that hangs delays no answer, runs once at a time, and is heard when it ends.
func TestRecent(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		looks, away := 0, errors.New("away")
		hanging := make(chan struct{})
		r := Recent{Check: func(context.Context) error { looks++; <-hanging; return away }}
		for range 10 {
			began := time.Now()
			if err := r.Get(t.Context()); err != nil || time.Since(began) != RecentWait {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.Sleep(fresh)
		}
		close(hanging)
		synctest.Wait()
		for range 10 {
			if err := r.Get(t.Context()); err != away {
				t.Error(err)
			}
		}
		servertest.Same(t, "checks", looks, 2)
	})
}
