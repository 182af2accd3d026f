package verification

import (
	"net/netip"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Each scope counts by itself: two requests that share its subject share its places, all others do not.
func TestScopes(t *testing.T) {
	type who struct{ to, ip, app, purpose string }
	base := who{"a1@example.com", "192.0.2.7", "shop", "default"}
	for _, c := range []struct {
		scope  quota.Scope
		shared []who // are refused after base
		apart  []who // are not
	}{
		{
			quota.Network,
			[]who{{"a2@example.com", "192.0.2.200", "shop", "default"}, {"a2@example.com", "::ffff:192.0.2.1", "shop", "gift"}},
			[]who{{"a3@example.com", "192.0.3.7", "shop", "default"}, {"a2@example.com", "192.0.2.7", "bank", "default"}},
		},
		{
			quota.App,
			[]who{{"a2@example.com", "198.51.100.1", "shop", "gift"}},
			[]who{{"a2@example.com", "192.0.2.7", "bank", "default"}},
		},
		{
			quota.Purpose,
			[]who{{"a2@example.com", "198.51.100.1", "shop", "default"}},
			[]who{{"a2@example.com", "192.0.2.7", "shop", "gift"}, {"a2@example.com", "192.0.2.7", "bank", "default"}},
		},
		{
			quota.Global,
			[]who{{"a2@example.com", "198.51.100.1", "bank", "gift"}},
			nil,
		},
	} {
		t.Run(string(c.scope), func(t *testing.T) {
			change := func(s *Settings) {
				rules := []quota.Rule{
					{Name: "own", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
					{Name: "shared", Scope: c.scope, Limit: 1, Window: time.Minute},
				}
				for _, name := range []string{"default", "gift"} {
					p := s.Purposes["default"]
					p.Name, p.Policy.Rules, p.Shares = name, rules, []string{"default", "gift"}
					s.Purposes[name] = p
				}
			}
			inBubbleWith(t, change, func(r *rig) {
				ask := func(w who) Ask {
					a := askFor(w.to)
					a.IP, a.App, a.Purpose = netip.MustParseAddr(w.ip), w.app, w.purpose
					return a
				}
				r.send(ask(base))
				for _, w := range c.shared {
					if a := r.refuse(ask(w)); len(a.Quota.Violated()) != 1 || a.Quota.Violated()[0] != "shared" {
						t.Errorf("%v: refused by %v", w, a.Quota.Violated())
					}
					q, err := r.svc.Quota(r.Context(), ask(w).Caller, "email", w.to, w.purpose)
					if worst, _ := q.Quota.Blocking(); err != nil || worst.Name != "shared" {
						t.Errorf("%v: looking says %+v, %v", w, q.Quota, err)
					}
				}
				for _, w := range c.apart {
					r.send(ask(w))
				}
				waited(time.Minute)
				for _, w := range c.shared { // the refusals spent nothing of theirs
					r.send(ask(w))
					waited(time.Minute)
				}
			})
		})
	}
}

// QUOTA-19: a /48 is 65,536 networks of one person each.
func TestTheWiderNetworkOfIPv6(t *testing.T) {
	for _, c := range []struct{ ip, want string }{
		{"2001:db8:1:ffff::1", "2001:db8:1::/48"}, {"2001:db8:2::1", "2001:db8:2::/48"},
		{"fe80::1%eth0", "fe80::/48"}, {"192.0.2.255", "192.0.2.0/24"}, {"::ffff:192.0.2.1", "192.0.2.0/24"},
	} {
		if got := network(netip.MustParseAddr(c.ip), 24, 48); got != c.want {
			t.Errorf("%s is in %s, want %s", c.ip, got, c.want)
		}
	}
}

// A rule about networks refuses a browser without an address, rather than being left out.
func TestNoAddressNoNetwork(t *testing.T) {
	change := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:len(p.Policy.Rules):len(p.Policy.Rules)], quota.Rule{Name: "net", Scope: quota.Network, Limit: 2, Window: time.Minute})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		a := askFor(ana)
		a.Kind, a.IP = Browser, netip.Addr{}
		if _, err := r.svc.Send(r.Context(), a); err == nil {
			t.Error("let in")
		}
		q, err := r.svc.Quota(r.Context(), a.Caller, "email", ana, "")
		if err != nil || !q.Quota.Allowed() {
			t.Errorf("looking says %+v, %v", q.Quota, err)
		}
	})
}

// While the limiter is away, the rules of all other scopes are decided in process.
func TestScopesWithTheLimiterAway(t *testing.T) {
	change := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = append(p.Policy.Rules[:len(p.Policy.Rules):len(p.Policy.Rules)], quota.Rule{Name: "all", Scope: quota.Global, Limit: 2, Per: quota.Month})
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		r.lose()
		r.send(askFor("a1@example.com"))
		r.send(askFor("a2@example.com"))
		a := r.refuse(askFor("a3@example.com"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "all" || worst.Window < 28*24*time.Hour || a.Quota.Clock != store.LogClock {
			t.Errorf("%+v", a.Quota)
		}
	})
}
