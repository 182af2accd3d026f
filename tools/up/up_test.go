//go:build nightly

// Only make nightly runs this test: it starts the service's servers.

package main

import (
	"context"
	"net/http"
	"regexp"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// What up starts is ready on all its parts, and the secrets stay for the next run.
func TestUp(t *testing.T) {
	servertest.Redis(t) // these skip where there is none
	servertest.Postgres(t)
	dir, keys := t.TempDir(), map[string]bool{}
	banner := regexp.MustCompile(`(?s)SENDCODE_API_KEY=(\S+).*page +(http://\S+)/`)
	for range 2 {
		out := &servertest.Text{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- up(ctx, dir, []string{"SENDCODE_ADDR=127.0.0.1:0"}, out) }()
		for banner.FindStringSubmatch(out.String()) == nil {
			select {
			case err := <-ended:
				t.Fatalf("%v: %s", err, out)
			case <-time.After(20 * time.Millisecond):
			}
		}
		said := banner.FindStringSubmatch(out.String())
		keys[said[1]] = true
		answer, err := http.Get(said[2] + "/readyz")
		servertest.OK(t, err)
		answer.Body.Close()
		servertest.Same(t, "status", answer.StatusCode, http.StatusOK)
		stop()
		servertest.OK(t, <-ended)
	}
	servertest.Same(t, "keys of two runs", len(keys), 1)
}
