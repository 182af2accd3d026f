package verification_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
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
			quota.IP,
			[]who{{"a2@example.com", "::ffff:192.0.2.7", "shop", "gift"}},
			[]who{{"a2@example.com", "192.0.2.8", "shop", "default"}, {"a2@example.com", "2001:db8:0:1::1", "shop", "default"}},
		},
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
			change := func(s *vtest.Settings) {
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
			vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
				ask := func(w who) verification.Ask {
					a := vtest.AskFor(w.to)
					a.IP, a.App, a.Purpose = netip.MustParseAddr(w.ip), w.app, w.purpose
					return a
				}
				r.Send(ask(base))
				for _, w := range c.shared {
					if a := r.Refuse(ask(w)); len(a.Quota.Violated()) != 1 || a.Quota.Violated()[0] != "shared" {
						t.Errorf("%v: refused by %v", w, a.Quota.Violated())
					}
					q, err := r.Svc.Quota(r.Context(), ask(w).Caller, "email", w.to, w.purpose)
					if worst, _ := q.Quota.Blocking(); err != nil || worst.Name != "shared" {
						t.Errorf("%v: looking says %+v, %v", w, q.Quota, err)
					}
				}
				for _, w := range c.apart {
					r.Send(ask(w))
				}
				r.Sleep(time.Minute)
				for _, w := range c.shared { // the refusals spent nothing of theirs
					r.Send(ask(w))
					r.Sleep(time.Minute)
				}
			})
		})
	}
}

// Rules on prefixes and countries count text messages alone. Numbers that differ in their last four digits share a prefix, which no
// bucket names.
func TestRulesOnNumbers(t *testing.T) {
	for scope, apart := range map[quota.Scope]string{quota.Prefix: "+4915123460000", quota.Country: vtest.American} {
		change := func(s *vtest.Settings) {
			vtest.ServeCountries("DE", "US")(s)
			vtest.AlsoRules(quota.Rule{Name: "range", Scope: scope, Limit: 2, Window: time.Hour})(s)
		}
		vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
			first := r.Send(vtest.TextTo("+4915123450000"))
			r.Send(vtest.TextTo("+4915123459999"))
			refused := r.Refuse(vtest.TextTo("+4915123455555"))
			if worst, _ := refused.Quota.Blocking(); worst.Name != "range" || worst.RetryAfter != time.Hour {
				r.Errorf("%+v", worst)
			}
			r.Send(vtest.TextTo(apart))
			for n := range 4 {
				if a := r.SendTo(vtest.NthAddress(n)); len(a.Quota.Rules) != 3 {
					r.Errorf("a mail is told of the rule: %+v", a.Quota.Rules)
				}
			}
			looked, err := r.Svc.Get(r.Context(), vtest.BackEnd, first.View.ID)
			if err != nil || len(looked.Quota.Rules) != 4 || looked.Quota.Rules[3].Used != 2 {
				r.Errorf("%+v, %v", looked.Quota, err)
			}
			a, err := r.Svc.Understand(r.Context(), vtest.TextTo("+4915123450000"))
			if err != nil || strings.Contains(a.Subject().Buckets()[quota.Prefix], "1512345") {
				r.Errorf("%v: a bucket names %q", err, a.Subject().Buckets()[quota.Prefix])
			}
		})
	}
}
