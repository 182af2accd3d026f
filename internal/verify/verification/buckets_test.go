package verification_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// Under a rule of any scope, a back end's send is admitted without the client's address.
func TestABackEndWithoutAClient(t *testing.T) {
	for _, scope := range policy.RuleScopes {
		vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "also", Scope: scope, Limit: 1, Window: time.Minute}), func(r *vtest.Rig) {
			if _, err := r.Svc.Send(t.Context(), vtest.AskFor("a@example.com", vtest.From(netip.Addr{}))); err != nil {
				t.Errorf("a rule with scope %s: %v", scope, err)
			}
		})
	}
}

// A policy that has only a rule on clients admits each request without the client's address, and
// Quota allows the next one. Package config refuses such a policy: each needs a rule on the
// recipient.
func TestARequestWithoutRules(t *testing.T) {
	client := vtest.WithRules(quota.Rule{Name: "client", Scope: quota.IP, Limit: 1, Window: time.Minute})
	vtest.InForms(t, client, func(r *vtest.Rig) {
		ask := vtest.AskFor("a@example.com", vtest.From(netip.Addr{}))
		for range 2 {
			a, err := r.Svc.Send(r.Context(), ask)
			if err != nil || !a.Admitted || a.Quota.RetryAfter() > 0 {
				t.Errorf("%+v, %v", a, err)
			}
		}
		if a, err := r.Svc.Quota(r.Context(), ask.Caller, "email", "a@example.com", ""); err != nil || !a.Quota.Allowed() {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// Two requests share the places of a rule only if they have the same value of its scope. Each scope
// but Global counts the apps separately.
func TestRulesCountByScope(t *testing.T) {
	ask := func(to, ip, app, purpose string) verification.Request {
		return vtest.AskFor(to+"@example.com", vtest.From(netip.MustParseAddr(ip)), vtest.InApp(app), vtest.For(purpose))
	}
	base := ask("a1", "192.0.2.7", "shop", "default")
	// shared are refused after base, and apart are not
	for scope, c := range map[quota.Scope]struct{ shared, apart []verification.Request }{
		quota.IP: {
			[]verification.Request{ask("a2", "::ffff:192.0.2.7", "shop", "login")},
			[]verification.Request{ask("a2", "192.0.2.8", "shop", "default"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Network: {
			[]verification.Request{ask("a2", "192.0.2.200", "shop", "default"), ask("a2", "::ffff:192.0.2.1", "shop", "login")},
			[]verification.Request{ask("a3", "192.0.3.7", "shop", "default"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.App: {
			[]verification.Request{ask("a2", "198.51.100.1", "shop", "login")},
			[]verification.Request{ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Purpose: {
			[]verification.Request{ask("a2", "198.51.100.1", "shop", "default")},
			[]verification.Request{ask("a2", "192.0.2.7", "shop", "login"), ask("a2", "192.0.2.7", "bank", "default")},
		},
		quota.Global: {[]verification.Request{ask("a2", "198.51.100.1", "bank", "login")}, nil},
	} {
		t.Run(string(scope), func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.WithRules(
				quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
				quota.Rule{Name: "shared", Scope: scope, Limit: 1, Window: time.Minute},
			), func(r *vtest.Rig) {
				r.Send(base)
				for _, a := range c.shared {
					r.WantBlockedBy(r.Refuse(a).Quota, "shared", time.Minute)
				}
				for _, a := range c.apart {
					r.Send(a)
				}
			})
		})
	}
}

// Rules on prefixes and countries count only text messages. Numbers that differ only in their last
// four digits share a prefix. No name of a bucket contains the prefix.
func TestRulesOnNumbers(t *testing.T) {
	number, _ := recipient.Parse(recipient.SMS, "+4915123450000")
	for scope, apart := range map[quota.Scope]string{policy.PrefixScope: "+4915123460000", policy.CountryScope: vtest.American} {
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
				r.Want("rules of a mail", len(r.SendTo(vtest.NthAddress(n)).Quota.Rules), 3)
			}
			looked, err := r.Svc.Get(r.Context(), vtest.BackEnd, first.View.ID)
			r.NoError(err)
			r.Want("a look", ruleNames(looked.Quota), "[minute hour day range]")
			r.Want("its count", looked.Quota.Rules[3].Used, 2)
			hash := r.Svc.Vault.PrefixHash(number)
			r.Want("length of a bucket's name", len(hash), 32)
			r.Want("it has the prefix", strings.Contains(hash, strings.Trim(number.Prefix(), "+")), false)
		})
	}
}

// A back end's send without the client's address is counted for no network, and its row has no
// network. With the address, the rules on networks apply. A browser whose address is unknown is
// refused.
func TestRulesOfNetworksNeedAnAddress(t *testing.T) {
	change := vtest.WithRules(
		quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
		quota.Rule{Name: "address", Scope: quota.IP, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "wider", Scope: quota.Network, Limit: 2, Window: time.Hour},
	)
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		from := func(c verification.Caller, n int, ip string) verification.Request {
			address, _ := netip.ParseAddr(ip) // "": the address is not known
			return vtest.AskFor(vtest.NthAddress(n), vtest.By(c), vtest.From(address))
		}
		for n := range 5 {
			a := r.Send(from(vtest.BackEnd, n, ""))
			r.Want("rules", ruleNames(a.Quota), "[day]")
		}
		for _, row := range r.Rows() {
			r.Want("the address in the row", row.Network, "")
		}
		r.Send(from(vtest.BackEnd, 10, "192.0.2.1"))
		r.WantBlockedBy(r.Refuse(from(vtest.BackEnd, 11, "192.0.2.1")).Quota, "address", time.Hour)
		r.Send(from(vtest.BackEnd, 12, "192.0.2.2"))
		r.Refuse(from(vtest.BackEnd, 13, "192.0.2.3"))
		r.Want("a browser of no known address has an error", r.SendError(from(vtest.Browser, 14, "")) != nil, true)
	})
}

// The breaker counts every send of every app and policy, even while the limiter is away. It logs at
// most one alarm a minute.
func TestBreaker(t *testing.T) {
	change := func(s *vtest.Settings) {
		s.Breaker = quota.Rule{Name: policy.BreakerName, Scope: policy.BreakerScope, Limit: 3, Window: time.Minute}
		gift := s.Purposes["login"]
		gift.Name, gift.Policy.Name, gift.PolicyPurposes = "gift", "gift", []string{"gift"}
		s.Purposes["gift"] = gift
	}
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		fill := func() {
			r.SendTo(vtest.Ana)
			r.SendTo(vtest.Ana, vtest.InApp("bank"))
			r.SendTo(vtest.Ana, vtest.For("gift"))
		}
		fill()
		for range 5 {
			r.WantBlockedBy(r.RefuseTo("b@example.com").Quota, policy.BreakerName, time.Minute)
		}
		alarms := func() int { return strings.Count(r.Printed.String(), "refused by breaker") }
		r.Want("alarms", alarms(), 1)
		r.Sleep(time.Minute)
		r.LoseLimiter()
		fill()
		r.RefuseTo("b@example.com", vtest.InApp("bank"))
		r.Want("alarms", alarms(), 2)
		r.FailStore(sqlitetest.Down, "ReadHistory") // the recipient's rows cannot be read
		r.WantError(r.SendError(vtest.AskFor("b@example.com", vtest.InApp("bank"))), fault.Unavailable)
	})
}

// Without Redis, a replica soon learns what another replica counted for the failures of a
// recipient, and what no longer counts.
func TestReplicasShareWhatTheRowsDoNotCount(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		withBoundedFailures(s)
		s.Tick, s.Form = 0, vtest.WithoutRedis
	}, func(r *vtest.Rig) {
		other, stop := r.StartReplica(r.MailServer)
		defer stop()
		refused := func(what, rule string, ask verification.Request) {
			r.Helper()
			r.Sleep(3 * gates.KeepEvery)
			for _, s := range []*vtest.Service{other, r.Svc} {
				r.Want(what, r.AskAt(s, ask, false).Quota.Violated(), vtest.Line([]string{rule}))
			}
		}
		failMany(r, policy.BackoffRule.Limit, vtest.AskFor(vtest.Ana), badReputation)
		refused("failures", policy.BackoffName, vtest.AskFor(vtest.Ana))
		r.WantStatus(r.SendTo(vtest.Ana, vtest.By(vtest.ForStranger)), "sent")
		r.Sleep(3 * gates.KeepEvery)
		for _, s := range []*vtest.Service{other, r.Svc} {
			r.AskAt(s, vtest.AskFor(vtest.Ana), true)
		}
	})
}

func ruleNames(d quota.Decision) (all []string) {
	for _, s := range d.Rules {
		all = append(all, s.Name)
	}
	return all
}

// Strangers for whom a back end names no address are counted as one network: 1,000 an hour, for any
// recipients. Strangers with an address and known people are still served. The log has a line at
// the first such send, then at most once an hour.
func TestUnnamedStrangersAreOneNetwork(t *testing.T) {
	vtest.InBubbleWith(t, wide, func(r *vtest.Rig) {
		unnamed := func(n int) verification.Request {
			return vtest.AskFor(vtest.NthAddress(n), vtest.By(vtest.ForStranger), vtest.From(netip.Addr{}))
		}
		lines := func() int { return strings.Count(r.Printed.String(), "sends for strangers without client_ip") }
		for n := range policy.UnnamedRule.Limit {
			r.Send(unnamed(n))
		}
		r.WantBlockedBy(r.Refuse(unnamed(5000)).Quota, "unnamed", time.Hour)
		r.Send(vtest.AskFor(vtest.NthAddress(5000), vtest.By(vtest.ForStranger)))
		r.Send(vtest.AskFor(vtest.NthAddress(5001), vtest.From(netip.Addr{})))
		r.Want("lines", lines(), 1)
		r.Sleep(time.Hour)
		r.Send(unnamed(5000))
		r.Want("lines after an hour", lines(), 2)
		r.Want("what they say", strings.Count(r.Printed.String(), "shop:999"), 1)
	})
}
