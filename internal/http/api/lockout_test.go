package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// lockOut enters wrong codes at verifications that one browser opened for a recipient, until sends
// to the recipient are refused.
func (c client) lockOut(to string) {
	c.Helper()
	for range 10 {
		w := c.ask(to)
		if w.Code == http.StatusTooManyRequests && strings.Contains(w.Body.String(), "/problems/too-many-checks") {
			return
		}
		for n := range 5 {
			c.do(http.MethodPost, "/v1/verifications/"+read(c.T, w).ID+"/check", fmt.Sprintf(`{"code":"00000%d"}`, n))
		}
	}
	c.Fatal("the recipient was not locked out")
}

// A client whose own requests are used up learns nothing about a lockout, whether this process
// remembers it or only the database has it.
func TestAnExhaustedClientReadsNothingOfALockout(t *testing.T) {
	for name, after := range map[string]time.Duration{"remembered": 0, "in the database alone": time.Minute} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				e := newAPI(t, verificationtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 50, Window: time.Hour},
					quota.Rule{Name: "wide", Scope: quota.IP, Limit: 6, Window: 2 * time.Hour}))
				first := client{t, e, "198.51.100.7", public}
				exhausted := client{t, e, "203.0.113.9", public}
				for n := range 6 {
					exhausted.admitted(fmt.Sprintf("mallory%d@example.com", n))
				}
				first.lockOut(alice)
				time.Sleep(after)
				withLockout, without := exhausted.ask(alice), exhausted.ask(bob)
				same(t, withLockout, without)
				if withLockout.Code != http.StatusTooManyRequests || read(t, withLockout).BlockedBy != "wide" {
					t.Errorf("%d %s", withLockout.Code, withLockout.Body)
				}
				// A browser that may still make requests learns why it gets no code and how long it
				// must wait, but nothing else.
				w := client{t, e, "192.0.2.44", public}.ask(alice)
				if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "/problems/too-many-checks") ||
					rules(t, w) != "" || read(t, w).RetryAfter < 86_000 {
					t.Errorf("with room: %d %s", w.Code, w.Body)
				}
				// The lockout does not apply to other classes of callers.
				client{t, e, "192.0.2.1", secret}.admitted(alice)
			})
		})
	}
}
