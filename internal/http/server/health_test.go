package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

func TestReadiness(t *testing.T) {
	broken := errors.New("dial tcp 192.0.2.1:6379: refused")
	const redisText = "Redis does not answer or can't write: the database decides for recipients, each process for other rules."
	away := &HealthReason{Word: "redis_away", Err: broken}
	for _, c := range []struct {
		name            string
		database, redis *HealthReason
		status          int
		body            string
	}{
		{"all there", nil, nil, 200, "ok"},
		{"redis away", nil, away, 200, "degraded: redis_away: " + redisText},
		{
			"redis refuses", nil, &HealthReason{Word: "redis_no_permission", Err: broken}, 200,
			"degraded: redis_no_permission: The user of Redis may not run what the limiter needs; docs/operations.md lists it.",
		},
		{
			"database away", &HealthReason{Word: "database_full", Err: broken}, away, 200,
			"degraded: database_full: The database has no room left to write.\ndegraded: redis_away: " + redisText,
		},
		{
			"database away here alone", &HealthReason{Word: "database_full", Also: "other_replica", Unready: true, Err: broken}, away, 503,
			"unavailable: database_full: The database has no room left to write. Another replica can write.\ndegraded: redis_away: " +
				redisText,
		},
	} {
		e, _ := testServer(t)
		var h Health
		h.Register(e, func(c echo.Context) bool { return c.Request().Header.Get("Why") != "" })
		if starting := get(e, "/readyz"); starting.Code != 503 || starting.Body.String() != "starting" {
			t.Errorf("at start: %d %s", starting.Code, starting.Body)
		}
		h.MarkStarted(func(context.Context) *HealthReason { return c.database }, func(context.Context) *HealthReason { return c.redis })
		ready, live := get(e, "/readyz", func(r *http.Request) { r.Header.Set("Why", "yes") }), get(e, "/livez")
		word, _, _ := strings.Cut(c.body, ":")
		servertest.Same(t, c.name+": what strangers read", get(e, "/readyz").Body.String(), word)
		h.MarkStopping()
		stopping := get(e, "/readyz").Code
		if ready.Code != c.status || ready.Body.String() != c.body || live.Code != 200 || stopping != 503 {
			t.Errorf("%s: %d %s; livez %d; stopping %d", c.name, ready.Code, ready.Body, live.Code, stopping)
		}
	}
}

// The report on a failing part has the time of the first failure, until the reason changes or the
// part works again.
func TestHealthReasonsHaveTheFirstTime(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var h Health
		word := ""
		h.MarkStarted(func(context.Context) *HealthReason {
			if word == "" {
				return nil
			}
			return &HealthReason{Word: word}
		})
		for _, c := range []struct {
			word string
			ago  time.Duration
		}{
			{"database_full", 0},
			{"database_full", time.Minute},
			{"database_full", 2 * time.Minute},
			{"database_read_only", 0},
			{"", 0},
			{"database_read_only", 0},
		} {
			word = c.word
			all := h.RunChecks(t.Context())
			if (len(all) == 1) != (word != "") || len(all) == 1 && time.Since(all[0].Since) != c.ago {
				t.Errorf("%+v, want %q for %v", all, word, c.ago)
			}
			time.Sleep(time.Minute)
		}
	})
}
