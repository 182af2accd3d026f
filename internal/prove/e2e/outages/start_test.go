//go:build nightly

package outages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
)

// A start waits for Redis and Postgres. Meanwhile the ports are open and /readyz answers 503. If
// the wait ends without them, the process says what to do.
func TestStartWithoutItsParts(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t)
	s.Start(1) // makes the schema
	s.Stop(0)
	base := fmt.Sprint("http://127.0.0.1:", servertest.FreePort(t))
	s.Env["SENDCODE_ADDR"] = strings.TrimPrefix(base, "http://")
	start := func(wait time.Duration) (*app.App, error) {
		cfg := s.Config()
		cfg.StartWait = wait
		return s.New(cfg)
	}
	refused := func(what string, wait time.Duration, texts ...string) {
		t.Helper()
		_, err := start(wait)
		servertest.AwaitFree(t, s.Env["SENDCODE_ADDR"])
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: no %q in %v", what, text, err)
			}
		}
	}
	s.Redis.Stop()
	refused("without Redis", time.Second, "SENDCODE_REDIS_URL", "waited 1s", "--wait=0s starts without it")
	a, err := start(0)
	apptest.Must(t, err)
	s.Serve(a)
	s.AwaitReady(1, http.StatusOK, redisAway)
	s.Stop(1)
	servertest.AwaitFree(t, s.Env["SENDCODE_ADDR"])
	s.Postgres.Stop()
	refused("without Postgres, at once", 0, "SENDCODE_DATABASE_URL")
	refused("without both", time.Second, "SENDCODE_DATABASE_URL", "waited 1s", "sendcode doctor")

	began := make(chan error, 1)
	go func() {
		var err error // the test's own err is used meanwhile
		a, err = start(servertest.Patience)
		began <- err
	}()
	s.Await("open ports", func() bool {
		a, err := s.At(base, http.MethodGet, "/readyz", "")
		return err == nil && a.StatusCode == http.StatusServiceUnavailable && string(a.Raw) == "starting"
	})
	if a, err := s.At(base, http.MethodGet, "/livez", ""); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("livez: %d %v", a.StatusCode, err)
	}
	early, err := s.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"early@example.com"}`)
	apptest.Must(t, err)
	s.Unavailable(early)
	s.Is("a send", early, http.StatusServiceUnavailable, strings.Contains(string(early.Raw), `"may_have_counted":false`))
	apptest.Must(t, s.Postgres.Start())
	s.Await("a line that Redis is waited for", func() bool {
		return s.Logged(`"start waits: start the server that the setting names, or correct the setting","setting":"SENDCODE_REDIS_URL"`) &&
			s.Logged(`"see":"docs/runbooks.md#redis"`)
	})
	apptest.Must(t, s.Redis.Start())
	apptest.Must(t, <-began)
	s.Serve(a)
	s.Is("a send", s.Ask(2, apptest.Ana), http.StatusAccepted)
	s.AwaitReady(2, http.StatusOK, "ok")
}
