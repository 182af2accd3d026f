//go:build nightly

// Only `make nightly` runs this test. internal/limit/gates tests in virtual time how many events a
// replica admits alone.

package parts

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
)

// admission is an admitted request. It was counted between asked and answered, which are instants
// of the wall clock, because the limiters count by it. Each correction of the wall clock moves it
// against the monotonic clock.
type admission struct {
	asked, answered time.Time
	replica         int
	local           bool // decided without Redis
}

// wallClock returns the time without the monotonic clock's reading.
func wallClock() time.Time { return time.Now().Round(0) }

// stalled has the limits and the policy for a Redis that stalls. During a run, one window ends many
// times, and the others never do.
const stalled = `policies: {default: [{name: person, scope: recipient, limit: 1, window: 1h}, {name: address, scope: ip, limit: 30, window: 1h}]}
limits:
  brief: [{name: brief, key: user, limit: 10, window: 2s}]
  whole: [{name: whole, key: user, limit: 30, window: 1h}, {name: all, key: app, limit: 60, window: 1h}]
`

// Redis stalls again and again, for 1 to 6 s. Each replica then admits at most the limit, so n
// replicas together admit at most n times the limit. A stall gives no new places in a limit that is
// used up.
func TestStalledRedisUnderLoad(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Write(stalled).Start(replicas)
			redis := s.RedisClient()
			var mu sync.Mutex
			admitted, degraded := map[string][]admission{}, 0
			ask := func(replica int, path, body string, buckets ...string) {
				asked := wallClock()
				a, err := s.At(s.Replicas[replica].Base, http.MethodPost, path, body)
				mu.Lock()
				defer mu.Unlock()
				local := bytes.Contains(a.Raw, []byte(`"degraded":true`))
				if local {
					degraded++
				}
				switch {
				case err == nil && (a.StatusCode == http.StatusOK || a.StatusCode == http.StatusAccepted):
					for _, bucket := range buckets {
						admitted[bucket] = append(admitted[bucket], admission{asked, wallClock(), replica, local})
					}
				case err != nil || a.StatusCode != http.StatusTooManyRequests || a.RetryAfter < 1:
					t.Errorf("%s: %d %s %v", path, a.StatusCode, a.Raw, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), *proving)
			defer cancel()
			var clients sync.WaitGroup
			for i := range 24 {
				clients.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						user, at := fmt.Sprint(i%3), (i+n)%replicas
						keys := `{"keys":{"user":"` + user + `","app":"one"}}`
						ask(at, "/v1/limits/brief/take", keys, "brief "+user)
						ask(at, "/v1/limits/whole/take", keys, "whole "+user, "all")
						ask(at, "/v1/verifications", fmt.Sprintf(
							`{"channel":"email","to":"c%d.n%d@example.com","client_ip":"192.0.2.%s"}`, i, n, user), "send "+user)
						apptest.Sleep(50 * time.Millisecond)
					}
				})
			}
			// The first stall is longer than a call of the limiter may wait.
			for stall := 3 * time.Second; ctx.Err() == nil; stall = time.Second + rand.N(5*time.Second) {
				apptest.Sleep(500 * time.Millisecond)
				apptest.Must(t, redis.Do(t.Context(), "CLIENT", "PAUSE", stall.Milliseconds(), "ALL").Err())
				apptest.Sleep(stall)
			}
			clients.Wait()
			for bucket, all := range admitted {
				rule, _, _ := strings.Cut(bucket, " ")
				most := replicas * map[string]int{"brief": 10, "whole": 30, "all": 60, "send": 30}[rule]
				window := map[bool]time.Duration{true: 2 * time.Second, false: time.Hour}[rule == "brief"]
				for _, first := range all {
					var within []admission // surely in one window: a request may be admitted at any instant before its answer
					for _, a := range all {
						if !a.asked.Before(first.asked) && a.answered.Sub(first.asked) < window {
							within = append(within, a)
						}
					}
					if len(within) > most {
						t.Errorf("%s: %d of %d admitted within %v, at most %d may be", bucket, len(within), len(all), window, most)
						for _, a := range within {
							t.Logf("by replica %d from %v to %v, local: %v", a.replica, a.asked.Sub(first.asked), a.answered.Sub(first.asked), a.local)
						}
						break
					}
				}
				t.Logf("%s: %d admitted", bucket, len(all))
			}
			if degraded == 0 {
				t.Error("no answer was without Redis")
			}
		})
	}
}
