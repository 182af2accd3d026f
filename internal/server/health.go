package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// Probe checks whether one dependency works.
type Probe struct {
	Required bool // if it fails, /readyz answers 503 "unavailable"; else 200 "degraded"
	Check    func(context.Context) error
}

// Reason is an error of a probe with texts for the answer of /readyz: a stable word, and a sentence without paths and secrets.
type Reason struct {
	Word, Text string
	Err        error
}

func (r *Reason) Error() string { return r.Word + ": " + r.Err.Error() }

// Unwrap returns the dependency's error.
func (r *Reason) Unwrap() error { return r.Err }

// stateWithReason appends the error's Reason to a state, if it has one.
func stateWithReason(state string, err error) string {
	if r, ok := errors.AsType[*Reason](err); ok {
		return state + ": " + r.Word + ": " + r.Text
	}
	return state
}

// Health answers /livez and /readyz. /livez runs no probe; /readyz runs all, at most once a second.
type Health struct {
	probes []Probe

	mu       sync.Mutex
	at       time.Time
	status   int
	body     string
	stopping atomic.Bool
}

// fresh is how long an answer of /readyz is reused; probeTimeout bounds all probes together.
const (
	fresh        = time.Second
	probeTimeout = time.Second
)

// NewHealth makes a Health with these probes.
func NewHealth(probes ...Probe) *Health { return &Health{probes: probes} }

// EndConnections returns a handler that, while the server stops, has every answer end its connection, so that proxies do not keep it.
func (h *Health) EndConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Register adds the two routes.
func (h *Health) Register(e *echo.Echo) {
	e.GET("/livez", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	e.GET("/readyz", func(c echo.Context) error {
		status, body := h.readiness(c.Request().Context())
		return c.String(status, body)
	})
}

// MarkStopping makes /readyz answer 503 from now on, so that a load balancer sends no more requests.
func (h *Health) MarkStopping() { h.stopping.Store(true) }

// readiness returns the status and body of /readyz. It runs the probes, unless they ran within the last second: then it returns their
// result again. While the server stops, it returns 503.
func (h *Health) readiness(ctx context.Context) (int, string) {
	if h.stopping.Load() {
		return http.StatusServiceUnavailable, "stopping"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < fresh {
		return h.status, h.body
	}
	h.status, h.body = h.runProbes(context.WithoutCancel(ctx))
	h.at = time.Now()
	return h.status, h.body
}

// runProbes runs all probes at once.
func (h *Health) runProbes(ctx context.Context) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	errs := make([]error, len(h.probes))
	var wg sync.WaitGroup
	for i, p := range h.probes {
		wg.Go(func() { errs[i] = p.Check(ctx) })
	}
	wg.Wait()
	var degraded []string
	for i, p := range h.probes {
		switch {
		case errs[i] == nil:
		case p.Required:
			return http.StatusServiceUnavailable, stateWithReason("unavailable", errs[i])
		default:
			degraded = append(degraded, stateWithReason("degraded", errs[i]))
		}
	}
	return http.StatusOK, cmp.Or(strings.Join(degraded, "\n"), "ok")
}
