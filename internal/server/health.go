package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// Reason is an error of a check with texts for the answer of /readyz: a stable word, and a sentence without paths and secrets.
type Reason struct {
	Word, Text string
	Unready    bool // /readyz is 503: another replica can answer better
	Err        error
}

func (r *Reason) Error() string { return r.Word + ": " + r.Err.Error() }

// Unwrap returns the dependency's error.
func (r *Reason) Unwrap() error { return r.Err }

// Recent runs a check in the background, at most once a second, and keeps its result: a part that hangs delays no answer. Safe for
// concurrent use.
type Recent struct {
	Check func(context.Context) error // not with the caller's deadline

	mu      sync.Mutex
	at      time.Time     // when the last check began
	running chan struct{} // closed when the present check ends; nil: there is none
	err     error         // of the last check that ended
}

// How long the result of a Recent is kept, and how long Get waits for a newer one.
const (
	fresh      = time.Second
	RecentWait = 250 * time.Millisecond
)

// Get returns the result of the last check. If that began a second ago, it begins another one, and waits for it for RecentWait.
func (r *Recent) Get(ctx context.Context) error {
	r.mu.Lock()
	if r.running == nil && time.Since(r.at) >= fresh {
		r.at, r.running = time.Now(), make(chan struct{})
		go r.run(context.WithoutCancel(ctx), r.running)
	}
	running := r.running
	r.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(RecentWait):
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recent) run(ctx context.Context, ended chan struct{}) {
	err := r.Check(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.running = err, nil
	close(ended)
}

// Check returns why a part is away or slow; nil if it is well. It must answer soon.
type Check func(context.Context) *Reason

// Health answers /livez, which checks nothing, and /readyz. The zero value is starting.
type Health struct {
	checks   atomic.Pointer[[]Check] // nil: starting
	stopping atomic.Bool
}

// MarkStarted ends the 503 of /readyz: from now on it runs these checks. One that fails makes it "degraded", or 503 if its Reason says so.
func (h *Health) MarkStarted(checks ...Check) { h.checks.Store(&checks) }

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

// readiness returns the status and body of /readyz, with a line for each part that is not well. It runs all checks at once.
func (h *Health) readiness(ctx context.Context) (status int, body string) {
	if h.stopping.Load() {
		return http.StatusServiceUnavailable, "stopping"
	}
	checks := h.checks.Load()
	if checks == nil {
		return http.StatusServiceUnavailable, "starting"
	}
	reasons := make([]*Reason, len(*checks))
	var wg sync.WaitGroup
	for i, check := range *checks {
		wg.Go(func() { reasons[i] = check(ctx) })
	}
	wg.Wait()
	status = http.StatusOK
	var lines []string
	for _, r := range reasons {
		if r == nil {
			continue
		}
		line := "degraded"
		if r.Unready {
			status, line = http.StatusServiceUnavailable, "unavailable"
		}
		lines = append(lines, line+": "+r.Word+": "+r.Text)
	}
	return status, cmp.Or(strings.Join(lines, "\n"), "ok")
}
