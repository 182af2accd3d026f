package verification_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// Each scope counts by itself: two requests that share its subject share its places, all others do not.
func TestScopes(t *testing.T) {
	ask := func(to, ip, app, purpose string) verification.Ask {
		a := vtest.AskFor(to + "@example.com")
		a.IP, a.App, a.Purpose = netip.MustParseAddr(ip), app, purpose
		return a
	}
	base := ask("a1", "192.0.2.7", "shop", "default")
	for scope, c := range map[quota.Scope]struct{ shared, apart []verification.Ask }{ // are refused after base, and are not
		quota.IP: {
			[]verification.Ask{ask("a2", "::ffff:192.0.2.7", "shop", "login")},
			[]verification.Ask{ask("a2", "192.0.2.8", "shop", "default"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Network: {
			[]verification.Ask{ask("a2", "192.0.2.200", "shop", "default"), ask("a2", "::ffff:192.0.2.1", "shop", "login")},
			[]verification.Ask{ask("a3", "192.0.3.7", "shop", "default"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.App: {
			[]verification.Ask{ask("a2", "198.51.100.1", "shop", "login")},
			[]verification.Ask{ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Purpose: {
			[]verification.Ask{ask("a2", "198.51.100.1", "shop", "default")},
			[]verification.Ask{ask("a2", "192.0.2.7", "shop", "login"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Global: {[]verification.Ask{ask("a2", "198.51.100.1", "bank", "login")}, nil},
	} {
		t.Run(string(scope), func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.WithRules(
				quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
				quota.Rule{Name: "shared", Scope: scope, Limit: 1, Window: time.Minute},
			), func(r *vtest.Rig) {
				r.Send(base)
				for _, a := range c.shared {
					if got := r.Refuse(a).Quota.Violated(); !slices.Equal(got, []string{"shared"}) {
						t.Errorf("%+v: refused by %v", a, got)
					}
					q, err := r.Svc.Quota(r.Context(), a.Caller, "email", a.To, a.Purpose)
					if worst, _ := q.Quota.Blocking(); err != nil || worst.Name != "shared" {
						t.Errorf("%+v: looking says %+v, %v", a, q.Quota, err)
					}
				}
				for _, a := range c.apart {
					r.Send(a)
				}
				r.Sleep(time.Minute)
				for _, a := range c.shared { // the refusals spent nothing of theirs
					r.Send(a)
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
			r.WantBlockedBy(refused.Quota, "range", time.Hour)
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
