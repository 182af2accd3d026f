package parts

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// deploy is the directory with the files that operators copy.
const deploy = "../../../../deploy"

// restarts is how often TestRollingRestarts restarts both replicas; `make soak` sets it to twenty.
var restarts = flag.Int("parts.restarts", 1, "how often both replicas are restarted behind each proxy")

// admitted matches a line of /metrics if the replica has admitted a send.
var admitted = regexp.MustCompile(`sendcode_requests_total\{[^}]*outcome="admitted"[^}]*\} [1-9]`)

// steady sends 60 requests a second through a proxy until the context ends. failed counts the
// answers other than 202, by status. If the proxy itself answered, the status is negative; 0 means
// that no answer came.
func steady(ctx context.Context, s *apptest.Stack, base, name string) (wait func() (sent int, failed map[int]int)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var n atomic.Int64
	failed := map[int]int{}
	all.Go(func() {
		ticks := time.NewTicker(time.Second / 60)
		defer ticks.Stop()
		for ; ctx.Err() == nil; <-ticks.C {
			all.Go(func() {
				began := time.Now()
				i := n.Add(1)
				a, err := s.At(base, http.MethodPost, "/v1/verifications",
					fmt.Sprintf(`{"channel":"email","to":"%s-%d@example.com"`+known+`}`, name, i),
					apptest.WithKey(fmt.Sprintf("a-key-of-its-own-%s-%d", name, i)))
				if a.StatusCode == http.StatusAccepted && err == nil {
					return
				}
				status := a.StatusCode
				if a.Header.Get("X-Request-Id") == "" {
					status = -status
				}
				mu.Lock()
				defer mu.Unlock()
				failed[status]++
				s.Logf("%s answers %d after %v: %s", base, status, time.Since(began), a.Raw)
			})
		}
	})
	return func() (int, map[int]int) { all.Wait(); return int(n.Load()), failed }
}

// Two replicas are restarted one after the other, behind a proxy as operators configure it. The
// proxy itself answers at most one request in 500, with a 503. `make nightly` tests two more
// proxies.
func TestRollingRestarts(t *testing.T) { restartBehind(t, servertest.HAProxy) }

func restartBehind(t *testing.T, proxy servertest.ReverseProxy) {
	s := apptest.OnRealParts(t)
	s.Env["SENDCODE_DRAIN"] = "5s"
	var addresses [2]string
	var replicas [2]*apptest.Process
	start := func(i int) {
		s.Env["SENDCODE_ADDR"] = addresses[i]
		replicas[i] = s.Spawn()
	}
	for i := range replicas {
		addresses[i] = fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
		start(i)
	}
	base := servertest.Proxy(t, proxy, deploy, addresses)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait := steady(ctx, s, base, "rolling")
	reached := func(i int) { // waits until the proxy uses replica i
		s.Await("a replica to be used", func() bool {
			a, err := s.At(replicas[i].Base, http.MethodGet, "/metrics", "")
			return err == nil && admitted.Match(a.Raw)
		})
	}
	for range *restarts {
		for i, p := range replicas {
			reached(0)
			reached(1)
			apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
			if err := p.Cmd.Wait(); err != nil {
				t.Errorf("the process ended with %v", err)
			}
			start(i)
		}
	}
	stop()
	sent, failed := wait()
	// On a busy machine, a replica may answer 503 now and then. If two replicas answer the proxy's
	// check late, the proxy has no replica. A replica that starts or stops badly would cause many
	// such answers.
	allowed := map[int]int{http.StatusServiceUnavailable: sent / 100, -http.StatusServiceUnavailable: sent / 500}
	for status, n := range failed {
		if n > allowed[status] {
			t.Errorf("%d requests, of which failed, by status (negative: of the proxy): %v", sent, failed)
		}
	}
	if sent < 60 {
		t.Errorf("%d requests were sent", sent)
	}
}
