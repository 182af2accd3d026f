package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// While an attacker asks for one recipient as fast as they are answered, all others get their
// codes. How long they wait is what `make bench` says.
func TestHonestRequestsBesideAnAttack(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attack := newLoad(s)
	var attackers, honest sync.WaitGroup
	for i := range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				attack.ask(s.Replicas[i%2].Base, "victim@example.com")
			}
		})
	}
	const people = 150
	var admitted atomic.Int64
	every(ctx, 10*time.Millisecond, func(n int) {
		honest.Go(func() {
			if a := s.Ask(n%2, fmt.Sprintf("honest%d@example.com", n)); a.StatusCode == http.StatusAccepted {
				admitted.Add(1)
			} else {
				t.Errorf("an honest request: %d %s", a.StatusCode, a.Raw)
			}
		})
		if n == people-1 {
			honest.Wait()
			s.Await("an attack worth the name", func() bool { return attack.Refused.Load() >= 500 })
			stop()
		}
	})
	attackers.Wait()
	t.Logf("%d honest requests let in; of the attack %d, and %d refused", admitted.Load(), attack.Admitted.Load(),
		attack.Refused.Load())
	if admitted.Load() < people || attack.Admitted.Load() != 1 || attack.Cut.Load() > 0 {
		t.Error("that is not as it should be")
	}
}

// Strangers of many networks who are locked out of a recipient ask for it as fast as they are
// answered, and Postgres is 150 ms away: the secret key gets its codes within the rules of the
// recipient, and its refusals tell the true wait.
func TestALockedOutFloodFarFromPostgres(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t).Write(fmt.Sprintf(`trusted_proxies: [127.0.0.1/32]
policies:
  default:
    - {name: pause, scope: recipient, limit: 1, window: 1s}
    - {name: hour, scope: recipient, limit: 30, window: 1h, reserve: 10}
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
`, sha256.Sum256([]byte(apptest.PublicKey))))
	link := s.Through("SENDCODE_DATABASE_URL")
	s.Start(1)
	const victim = "victim@example.com"
	var networks atomic.Int64
	stranger := func(r *http.Request) {
		n := networks.Add(1)
		apptest.As(apptest.PublicKey)(r)
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.1", n/250%250, n%250))
	}
	locked := func(a apptest.Answer) bool { return a.Problem() == "too-many-checks" }
	for a := s.Ask(0, victim, stranger); !locked(a); a = s.Ask(0, victim, stranger) {
		for n := 0; a.StatusCode == http.StatusAccepted && n < 5; n++ {
			s.Post("/v1/verifications/"+a.ID+"/check", `{"code":"000000"}`, stranger)
		}
		apptest.Sleep(time.Duration(max(a.RetryAfter, 1)) * time.Second)
	}
	for _, stream := range []string{"upstream", "downstream"} {
		_, err := link.Toxics.AddToxicJson(
			strings.NewReader(fmt.Sprintf(`{"name":%[1]q,"type":"latency","stream":%[1]q,"attributes":{"latency":75}}`,
				stream)))
		apptest.Must(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attackers sync.WaitGroup
	var refused atomic.Int64
	for range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				if a := s.Ask(0, victim, stranger); locked(a) {
					refused.Add(1)
				} else if a.StatusCode == http.StatusAccepted {
					t.Error("a stranger was let in")
				}
			}
		})
	}
	s.Await("a flood", func() bool { return refused.Load() >= 200 })
	const codes = 3
	got, late := 0, 0
	for before := false; got < codes; {
		switch a := s.Ask(0, victim); {
		case a.StatusCode == http.StatusAccepted:
			got, before = got+1, true
		case a.StatusCode == http.StatusServiceUnavailable && late < 5: // no processor was free in time
			late, before = late+1, true // it may have counted
		default:
			s.Is("the wait for its own code of just now", a, http.StatusTooManyRequests, before, a.RetryAfter == 1)
			before = false
			apptest.Sleep(time.Second)
		}
	}
	stop()
	attackers.Wait()
	t.Logf("%d codes for the secret key, %d late answers, beside %d refusals of strangers", got, late, refused.Load())
}
