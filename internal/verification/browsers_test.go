package verification_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// One address of a browser gets a hundred codes an hour, for any recipient; a back end's own address does not count.
func TestBrowsersAreLimitedByAddress(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		from := func(c verification.Caller, n int, ip string) verification.Ask {
			a := vtest.AskFor(fmt.Sprintf("a%d@example.com", n))
			a.Caller = c
			a.IP = netip.MustParseAddr(ip)
			return a
		}
		for n := range 100 {
			r.Send(from(vtest.Browser, n, "192.0.2.1"))
		}
		a := r.Refuse(from(vtest.Browser, 100, "192.0.2.1"))
		r.WantBlockedBy(a.Quota, "client", time.Hour)
		r.Send(from(vtest.Browser, 101, "192.0.2.2"))
		for n := range 100 {
			r.Send(from(vtest.BackEnd, 200+n, "192.0.2.1"))
		}
		for n := range 899 {
			r.Send(from(vtest.Browser, 1000+n, fmt.Sprintf("192.0.2.%d", 10+n%100)))
		}
		a = r.Refuse(from(vtest.Browser, 5000, "192.0.2.250"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "network" {
			t.Errorf("%+v", a.Quota)
		}
		r.Sleep(time.Hour)
		r.Send(from(vtest.Browser, 5000, "192.0.2.250"))
	})
}

// A back end's send without the client's address is counted for no network and has none in its row; with the address the
// rules hold, and a browser whose address is not known is refused, not let through.
func TestRulesOfNetworksNeedAnAddress(t *testing.T) {
	change := vtest.WithRules(
		quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
		quota.Rule{Name: "address", Scope: quota.IP, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "wider", Scope: quota.Network, Limit: 2, Window: time.Hour},
	)
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		from := func(c verification.Caller, n int, ip string) verification.Ask {
			a := vtest.AskFor(fmt.Sprintf("a%d@example.com", n))
			a.Caller, a.IP = c, netip.Addr{}
			if ip != "" {
				a.IP = netip.MustParseAddr(ip)
			}
			return a
		}
		for n := range 5 {
			a := r.Send(from(vtest.BackEnd, n, ""))
			if len(a.Quota.Rules) != 1 || len(a.Policy.Rules) != 1 {
				t.Errorf("%+v", a.Quota)
			}
			story, err := r.Store.Story(r.Context(), uuid.MustParse(a.View.Send.ID))
			if err != nil || story.Send.IP != "" {
				t.Errorf("the row has the address %q, %v", story.Send.IP, err)
			}
		}
		r.Send(from(vtest.BackEnd, 10, "192.0.2.1"))
		a := r.Refuse(from(vtest.BackEnd, 11, "192.0.2.1"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "address" {
			t.Errorf("%+v", a.Quota)
		}
		r.Send(from(vtest.BackEnd, 12, "192.0.2.2"))
		r.Refuse(from(vtest.BackEnd, 13, "192.0.2.3"))
		if a, err := r.Svc.Send(r.Context(), from(vtest.Browser, 14, "")); err == nil {
			t.Errorf("a browser of no known address: %+v", a)
		}
		r.LoseLimiter()
		for n := range 5 {
			r.Send(from(vtest.BackEnd, 20+n, ""))
		}
	})
}

// The breaker counts every send of every app and policy, also while the limiter is away, and alarms once.
func TestBreaker(t *testing.T) {
	change := func(s *vtest.Settings) {
		s.Breaker = quota.Rule{Name: policy.BreakerName, Scope: policy.Everything, Limit: 3, Window: time.Minute}
		gift := s.Purposes["login"]
		gift.Name, gift.Policy.Name, gift.Shares = "gift", "gift", []string{"gift"}
		s.Purposes["gift"] = gift
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		ask := func(app, purpose, to string) verification.Ask {
			a := vtest.AskFor(to)
			a.App, a.Purpose = app, purpose
			return a
		}
		fill := func() {
			r.Send(ask("shop", "default", "a@example.com"))
			r.Send(ask("bank", "default", "a@example.com"))
			r.Send(ask("shop", "gift", "a@example.com"))
		}
		fill()
		for range 5 {
			a := r.Refuse(ask("shop", "default", "b@example.com"))
			r.WantBlockedBy(a.Quota, policy.BreakerName, time.Minute)
		}
		if n := strings.Count(r.Printed.String(), "the breaker refuses"); n != 1 {
			t.Errorf("called %d times", n)
		}
		r.Sleep(time.Minute)
		r.LoseLimiter()
		fill()
		r.Refuse(ask("bank", "default", "b@example.com"))
		if n := strings.Count(r.Printed.String(), "the breaker refuses"); n != 2 {
			t.Errorf("called %d times", n)
		}
	})
}
