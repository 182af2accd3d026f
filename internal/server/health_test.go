package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/servertest"
)

func TestReadiness(t *testing.T) {
	broken := errors.New("away")
	for _, c := range []struct {
		name       string
		log, redis error
		status     int
		body       string
	}{
		{"all there", nil, nil, 200, "ok"},
		{"redis away", nil, broken, 200, "degraded"},
		{"redis refuses", nil, &Reason{"redis_no_permission", "Too few rights.", broken}, 200, "degraded: redis_no_permission: Too few rights."},
		{"log away", broken, nil, 503, "unavailable"},
		{"log full", &Reason{"log_full", "No room.", broken}, broken, 503, "unavailable: log_full: No room."},
		{"both away", broken, broken, 503, "unavailable"},
	} {
		e, _ := testServer(t)
		h := NewHealth(
			Probe{Check: func(context.Context) error { return c.redis }},
			Probe{Required: true, Check: func(context.Context) error { return c.log }})
		h.Register(e)
		ready, live := get(e, "/readyz"), get(e, "/livez")
		h.MarkStopping()
		stopping := get(e, "/readyz").Code
		if ready.Code != c.status || ready.Body.String() != c.body || live.Code != 200 || stopping != 503 {
			t.Errorf("%s: %d %s; livez %d; stopping %d", c.name, ready.Code, ready.Body, live.Code, stopping)
		}
	}
}

func TestReadinessIsKeptASecondAndBounded(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		looks := 0
		h := NewHealth(Probe{Required: true, Check: func(ctx context.Context) error {
			looks++
			<-ctx.Done() // a part that hangs
			return ctx.Err()
		}})
		began := time.Now()
		for range 10 {
			if status, _ := h.readiness(t.Context()); status != 503 {
				t.Errorf("%d", status)
			}
		}
		if looks != 1 || time.Since(began) > 2*probeTimeout {
			t.Errorf("%d looks in %v", looks, time.Since(began))
		}
		time.Sleep(fresh)
		h.readiness(t.Context())
		servertest.Same(t, "looks after a second", looks, 2)
	})
}
