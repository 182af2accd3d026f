package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Probe asks one part whether it serves.
type Probe struct {
	Name     string
	Required bool // without it the service can do nothing: 503 instead of degraded
	Check    func(context.Context) error
}

// Reason is why a part does not serve, for the answer of /readyz: a stable word, and a sentence without paths and secrets.
type Reason struct {
	Word, Text string
	Err        error
}

func (r *Reason) Error() string { return r.Word + ": " + r.Err.Error() }

// Unwrap is the error of the part.
func (r *Reason) Unwrap() error { return r.Err }

// because adds the reason to a state, where there is one.
func because(state string, err error) string {
	var r *Reason
	if errors.As(err, &r) {
		return state + ": " + r.Word + ": " + r.Text
	}
	return state
}

// Health answers /livez and /readyz. Liveness touches no part; readiness looks at each, at most once a second (OPS-4).
type Health struct {
	probes []Probe

	mu       sync.Mutex
	at       time.Time
	status   int
	body     string
	stopping bool
}

// Fresh is how long an answer of /readyz is kept, probeTimeout how long a part may take to answer.
const (
	fresh        = time.Second
	probeTimeout = time.Second
)

// NewHealth looks at the probes given.
func NewHealth(probes ...Probe) *Health { return &Health{probes: probes} }

// Register adds the two routes.
func (h *Health) Register(e *echo.Echo) {
	e.GET("/livez", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	e.GET("/readyz", func(c echo.Context) error {
		status, body := h.ready(c.Request().Context())
		return c.String(status, body)
	})
}

// Stopping makes /readyz say no, so that a load balancer sends no more (OPS-3).
func (h *Health) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

func (h *Health) ready(ctx context.Context) (int, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return http.StatusServiceUnavailable, "stopping"
	}
	if time.Since(h.at) < fresh {
		return h.status, h.body
	}
	h.status, h.body = h.look(context.WithoutCancel(ctx))
	h.at = time.Now()
	return h.status, h.body
}

func (h *Health) look(ctx context.Context) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	errs := make([]error, len(h.probes))
	var wg sync.WaitGroup
	for i, p := range h.probes {
		wg.Go(func() { errs[i] = p.Check(ctx) })
	}
	wg.Wait()
	status, body := http.StatusOK, "ok"
	for i, p := range h.probes {
		switch {
		case errs[i] == nil:
		case p.Required:
			return http.StatusServiceUnavailable, because("unavailable", errs[i])
		default:
			body = because("degraded", errs[i])
		}
	}
	return status, body
}
