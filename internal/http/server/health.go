package server

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/panics"
	"sendcode/internal/base/texts"
)

// HealthReason is the error of a health check. Its Word is stable. Package texts has a sentence for
// it under the key "ready."+Word. /readyz, the console and the alerts show this sentence, which
// contains no paths and no secrets.
type HealthReason struct {
	Part    string // the part that fails: database, clock, keys, redis, mail, sms or sends; empty if the check panicked
	Word    string
	Values  []string // for the sentence: names and values in turn
	Also    string   // word of a second sentence to show; empty: none
	Unready bool     // /readyz is 503: another replica can answer better
	Err     error
	Since   time.Time // start of the current series of failures; Health sets it
}

// Text returns the sentence for a reader.
func (r *HealthReason) Text(w texts.Words) string {
	text := w.Get("ready."+r.Word, r.Values...)
	if r.Also != "" {
		text += w.Get("sentence.space") + w.Get("ready."+r.Also)
	}
	return text
}

func (r *HealthReason) Error() string { return r.Word + ": " + r.Err.Error() }

// Unwrap returns the dependency's error.
func (r *HealthReason) Unwrap() error { return r.Err }

// HealthCheck returns why a part of the service fails or is slow. If the part works, HealthCheck
// returns nil. It must return soon.
type HealthCheck func(context.Context) *HealthReason

// Health answers /livez, which checks nothing, and /readyz. The zero value reports that the service
// is starting.
type Health struct {
	checks   atomic.Pointer[[]HealthCheck] // nil: starting
	stopping atomic.Bool

	mu    sync.Mutex
	since map[string]time.Time // start of the present failures, by word
}

// MarkStarted records that the service has started. Before this call, /readyz answers 503. After
// it, /readyz runs these checks. If a check fails, /readyz answers "degraded", or 503 if the
// HealthReason is Unready.
func (h *Health) MarkStarted(checks ...HealthCheck) { h.checks.Store(&checks) }

// EndConnectionsWhenStopping is middleware that closes the connection after each answer while the
// server stops, so that proxies do not reuse it.
func (h *Health) EndConnectionsWhenStopping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Register adds the routes /livez and /readyz. If tellsWhy returns true for a request, the answer
// of /readyz says which parts fail, and why. Otherwise the answer is one word.
func (h *Health) Register(e *echo.Echo, tellsWhy func(echo.Context) bool) {
	e.GET("/livez", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	e.GET("/readyz", func(c echo.Context) error {
		status, word, reasons := h.readiness(c.Request().Context())
		if len(reasons) > 0 && tellsWhy(c) {
			word = strings.Join(reasons, "\n")
		}
		return c.String(status, word)
	})
}

// MarkStopping makes /readyz answer 503, so that a load balancer sends no more requests.
func (h *Health) MarkStopping() { h.stopping.Store(true) }

// RunChecks runs all checks at once and returns the reasons of the failed checks. While the service
// starts, it returns none.
func (h *Health) RunChecks(ctx context.Context) (all []HealthReason) {
	checks := h.checks.Load()
	if checks == nil {
		return nil
	}
	reasons := make([]*HealthReason, len(*checks))
	var wg sync.WaitGroup
	for i, check := range *checks {
		wg.Go(func() {
			defer panics.Recover(panics.Request, func() { reasons[i] = &HealthReason{Word: "internal", Err: panics.Err} })
			reasons[i] = check(ctx)
		})
	}
	wg.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.since
	h.since = map[string]time.Time{}
	for _, r := range reasons {
		if r == nil {
			continue
		}
		one := *r
		one.Since = before[r.Word]
		if one.Since.IsZero() {
			one.Since = time.Now()
		}
		h.since[r.Word] = one.Since
		all = append(all, one)
	}
	return all
}

// readiness returns the status of /readyz with its word, and a line for each part that fails or is
// slow.
func (h *Health) readiness(ctx context.Context) (status int, word string, reasons []string) {
	const degraded, unavailable = "degraded", "unavailable"
	switch {
	case h.stopping.Load():
		return http.StatusServiceUnavailable, "stopping", nil
	case h.checks.Load() == nil:
		return http.StatusServiceUnavailable, "starting", nil
	}
	status, word = http.StatusOK, "ok"
	for _, r := range h.RunChecks(ctx) {
		line := degraded
		if r.Unready {
			line = unavailable
			status, word = http.StatusServiceUnavailable, unavailable
		} else if word != unavailable {
			word = degraded
		}
		reasons = append(reasons, line+": "+r.Word+": "+r.Text(texts.ConsoleLanguages()[0]))
	}
	return status, word, reasons
}
