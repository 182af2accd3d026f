//go:build nightly

// Only make nightly runs these tests: each stands beside TestSlowPostgresUnderOverload with another
// part that is slow.

package parts

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

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// Rates of a flood, in requests a second: the usual one, and ten times as many.
const usual, ten = 40, 400

// Whatever is slow or stands still, a send is served, or refused by the policy, or refused at once:
// none that was accepted is lost, nobody gets more than the policy, and nothing stays under way.
func TestEachPartIsSlowUnderOverload(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(s *apptest.Stack) (disturb, mend func()){
		"nothing is slow, ten times the rate": func(*apptest.Stack) (disturb, mend func()) {
			return func() {},
				func() {}
		},
		"Redis is 600 ms away": func(s *apptest.Stack) (disturb, mend func()) {
			link := s.Through("SENDCODE_REDIS_URL")
			streams := []string{"upstream", "downstream"}
			return func() {
					for _, stream := range streams {
						_, err := link.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
							`{"name":%q,"type":"latency","stream":%[1]q,"attributes":{"latency":300}}`, stream)))
						apptest.Must(s.T, err)
					}
				}, func() {
					for _, stream := range streams {
						apptest.Must(s.T, link.Toxics.RemoveToxic(s.Context(), stream))
					}
				}
		},
		"Redis stalls": func(s *apptest.Stack) (disturb, mend func()) {
			redis := s.RedisClient()
			return func() { apptest.Must(s.T, redis.Do(s.Context(), "CLIENT", "PAUSE", 4000, "ALL").Err()) }, func() {}
		},
		"the mail server takes nothing": func(s *apptest.Stack) (disturb, mend func()) {
			return func() { s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "452 4.3.1 queue is full"}) },
				func() { s.MailRules() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Policy(apptest.LongRules)
			begin, mend := disturb(s)
			s.Start(1)
			f := newFlood(s)
			f.wave(usual, time.Second)
			begin()
			f.wave(ten, 3*time.Second)
			mend()
			t.Logf("%d accepted, %d refused by the policy, %d at once, %d not served in time", f.Accepted.Load(),
				f.Limited.Load(), f.Shed.Load(), f.Unserved.Load())
			if n := f.Unserved.Load(); n > int64(f.sent)/20 || f.Accepted.Load() < int64(f.sent)/10 {
				t.Errorf("of %d requests, %d were accepted, and %d waited in vain", f.sent, f.Accepted.Load(), n)
			}
			f.nothingIsLost(s.Replicas[0].DB())
			s.Counts(`sendcode_admission_under_way{class="known",of="sends"`, "0")
			s.Counts(`sendcode_admission_refusals_total{class="unread",of="sends"`, fmt.Sprint(f.Shed.Load()))
		})
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
