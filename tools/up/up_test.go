//go:build nightly

// Only `make nightly` runs this test, because it starts the service's servers.

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/kit/servertest"
)

// All parts that up starts are ready. The next run finds the secrets and, unless it is fresh, the
// data of Redis and Postgres: a second send waits because of the send in the run before.
func TestUp(t *testing.T) {
	servertest.Redis(t) // skips the test if the program is missing
	servertest.Postgres(t)
	dir, keys := t.TempDir(), map[string]bool{}
	if root := postgresHome(dir); root != dir {
		t.Cleanup(func() { servertest.OK(t, os.RemoveAll(root)) })
	}
	banner := regexp.MustCompile(`(?s)redis +(redis://\S+) .*SENDCODE_API_KEY=(\S+).*page +(http://\S+)/`)
	for _, run := range []struct {
		name   string
		fresh  bool
		status int  // the status of a send
		keys   bool // Redis has keys at the beginning
	}{
		{"first", false, http.StatusAccepted, false}, {"second", false, http.StatusTooManyRequests, true},
		{"fresh", true, http.StatusAccepted, false}, {"third", false, http.StatusTooManyRequests, true},
	} {
		out := &servertest.Text{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- up(ctx, dir, run.fresh, []string{"SENDCODE_ADDR=127.0.0.1:0"}, out) }()
		for banner.FindStringSubmatch(out.String()) == nil {
			select {
			case err := <-ended:
				t.Fatalf("%s: %v: %s", run.name, err, out)
			case <-time.After(20 * time.Millisecond):
			}
		}
		match := banner.FindStringSubmatch(out.String())
		keys[match[2]] = true
		options, err := redis.ParseURL(match[1])
		servertest.OK(t, err)
		client := redis.NewClient(options)
		size, err := client.DBSize(ctx).Result()
		servertest.OK(t, err)
		servertest.Same(t, run.name+": keys in Redis", size > 0, run.keys)
		servertest.OK(t, client.Close())
		answer, err := http.Get(match[3] + "/readyz")
		servertest.OK(t, err)
		answer.Body.Close()
		servertest.Same(t, run.name+": status", answer.StatusCode, http.StatusOK)
		r, err := http.NewRequest(http.MethodPost, match[3]+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"ana@example.com"}`))
		servertest.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+match[2])
		r.Header.Set("Content-Type", "application/json")
		answer, err = http.DefaultClient.Do(r)
		servertest.OK(t, err)
		answer.Body.Close()
		servertest.Same(t, run.name+": a send", answer.StatusCode, run.status)
		stop()
		servertest.OK(t, <-ended)
	}
	servertest.Same(t, "keys of the runs", len(keys), 1)

	// as after a new clone of the checkout at the same place, if root's Postgres is elsewhere
	servertest.OK(t, os.Remove(filepath.Join(dir, "secrets.yaml")))
	err := advise(up(t.Context(), dir, false, []string{"SENDCODE_ADDR=127.0.0.1:0"}, &servertest.Text{}), dir)
	wants(t, err, "was written with other keys", "move both folders away", filepath.Join(postgresHome(dir), "postgres"), "FRESH=1")
}
