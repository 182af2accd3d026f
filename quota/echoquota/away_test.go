package echoquota

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

// away is a limiter whose Take and Peek fail.
type away struct {
	*quota.Memory
	err error
}

func (a away) Take(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, a.err
}

func (a away) Peek(context.Context, quota.Request) (quota.Decision, error) {
	return quota.Decision{}, a.err
}

func TestClosedWithoutALimiter(t *testing.T) {
	secret := fmt.Errorf("%w: dial tcp 10.9.8.7:6379", quota.ErrUnavailable)
	w := serve(t, Config{Limiter: away{err: secret}})
	for _, path := range []string{"/stock", "/look", "/hook"} {
		rec := w.wants(http.StatusServiceUnavailable, path, ann)
		if h := rec.Header(); h.Get("Retry-After") != "2" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.Contains(rec.Body.String(), "10.9") || !strings.Contains(rec.Body.String(), `"status":503`) {
			t.Errorf("%s: %s", path, rec.Body)
		}
	}
	open := serve(t, Config{Limiter: away{err: secret}, Open: true})
	for _, path := range []string{"/stock", "/look", "/hook"} {
		open.wants(http.StatusOK, path, ann)
	}
	// Open is for a limiter that is unavailable, not for mistakes.
	wrong := serve(t, Config{Limiter: away{err: quota.ErrBadRequest}, Open: true})
	for _, path := range []string{"/stock", "/look", "/hook"} {
		wrong.wants(http.StatusServiceUnavailable, path, ann)
	}
}

// heeds is a limiter that fails when the call's context has ended, like one over the network.
type heeds struct{ *quota.Memory }

func (l heeds) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	if ctx.Err() != nil {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return l.Memory.Take(ctx, r)
}

// A client that hangs up at once is counted, and does not pass an open Guard that way.
func TestHangingUp(t *testing.T) {
	w := serve(t, Config{Limiter: heeds{quota.NewMemory(time.Now, "test")}, Open: true})
	for i := range 101 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/stock", nil)
		r.RemoteAddr = ann
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if want := i < 100; (rec.Code == http.StatusOK) != want {
			t.Fatalf("request %d: %d", i, rec.Code)
		}
	}
}
