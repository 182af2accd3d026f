package verification_test

import (
	"fmt"
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

// A back end need not name its client. Without a client, the rules on the client are left out, and
// all other rules count.
func TestABackEndWithoutAClient(t *testing.T) {
	for _, scope := range policy.RuleScopes {
		vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "also", Scope: scope, Limit: 1, Window: time.Minute}), func(r *vtest.Rig) {
			if _, err := r.Svc.Send(t.Context(), vtest.AskFor("a@example.com", vtest.From(netip.Addr{}))); err != nil {
				t.Errorf("a rule with scope %s: %v", scope, err)
			}
		})
	}
}

// If a policy has no rule for a request, it admits the request, and the answer has no rule. (The
// settings have no such policy.)
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

// Each scope counts separately: two requests with an equal value of the scope share its places, and
// no other requests do.
func TestScopes(t *testing.T) {
	ask := func(to, ip, app, purpose string) verification.Request {
		return vtest.AskFor(to+"@example.com", vtest.From(netip.MustParseAddr(ip)), vtest.InApp(app), vtest.For(purpose))
	}
	base := ask("a1", "192.0.2.7", "shop", "default")
	// are refused after base, and are not
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
// network. With the address, the rules on networks hold. A browser whose address is unknown is
// refused.
func TestRulesOfNetworksNeedAnAddress(t *testing.T) {
	change := vtest.WithRules(
		quota.Rule{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
		quota.Rule{Name: "address", Scope: quota.IP, Limit: 1, Window: time.Hour},
		quota.Rule{Name: "wider", Scope: quota.Network, Limit: 2, Window: time.Hour},
	)
	vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
		from := func(c verification.Caller, n int, ip string) verification.Request {
			address, _ := netip.ParseAddr(ip) // "": not known
			return vtest.AskFor(vtest.NthAddress(n), vtest.By(c), vtest.From(address))
		}
		for n := range 5 {
			a := r.Send(from(vtest.BackEnd, n, ""))
			r.WantLine("rules", "[day]", ruleNames(a.Quota))
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

// The breaker counts every send of every app and policy, also while the limiter is away, and alarms
// once.
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
		r.FailStore(sqlitetest.Down, "ReadHistory") // what else refuses cannot be read
		r.WantError(r.SendError(vtest.AskFor("b@example.com", vtest.InApp("bank"))), fault.Unavailable)
	})
}

// Without Redis, a replica learns within a second what another replica counted for the spellings of
// a mailbox and for the failures of a recipient, and what no longer counts.
func TestReplicasShareWhatTheRowsDoNotCount(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		quiet(s)
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
		r.Sleep(time.Second)
		for n := range 20 {
			failMany(r, 1, spelling(n), badReputation)
		}
		r.Sleep(3 * gates.KeepEvery)
		for n := range 20 {
			r.AskAt(other, spelling(n), true)
		}
		refused("spellings", policy.SpellingsName, spelling(20))
	})
}

// spelled has wide rules of the recipient beside the built-in rule on spellings, 20 a day.
func spelled(s *vtest.Settings) {
	vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 30, Window: time.Hour})(s)
	s.Numbers.Everywhere = true
}

// spelling returns a vtest.Browser's request for the nth spelling of one mailbox, from a separate
// address.
func spelling(n int) verification.Request {
	to := fmt.Sprintf("victim+%d@gmail.com", n)
	switch n % 3 {
	case 1:
		to = fmt.Sprintf("v.ictim+%d@googlemail.com", n)
	case 2:
		to = strings.ToUpper(to)
	}
	return vtest.AskFor(to, vtest.By(vtest.Browser), vtest.From(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})))
}

// Unknown browsers can send at most twenty mails a day to a mailbox, even by sixty spellings of its
// address. The rule neither limits nor counts known browsers and back ends, nor other mailboxes,
// phone numbers and other apps. It counts other purposes together.
func TestBrowsersReachAMailboxTwentyTimesADay(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		checked, _, _ := r.Try(vtest.Browser, r.Send(spelling(0)).View.ID, r.LastCode())
		known := spelling(0)
		known.KnownTokens = []string{checked.KnownToken}
		for range 5 {
			r.Want("a known browser's rules", ruleNames(r.Send(known).Quota), "[hour client network]")
		}
		for n := 1; n < 20; n++ {
			r.Send(spelling(n))
		}
		r.Send(known)
		for n := 20; n < 60; n++ {
			d := r.Refuse(spelling(n)).Quota
			r.WantBlockedBy(d, "spellings", 24*time.Hour)
			r.WantLine("what is told", "1 20 24h0m0s", len(d.Rules), d.Rules[0].Used, d.Rules[0].ResetAfter)
		}
		r.WantMails(26)
		for n := range 25 {
			a := spelling(100 + n)
			a.Caller = vtest.BackEnd
			r.Want("a back end's rules", ruleNames(r.Send(a).Quota), "[hour]")
		}
		for _, to := range []string{"victi.m@example.com", "other@gmail.com", "victim@gmail.example"} {
			a := spelling(30)
			a.To = to
			r.Send(a)
		}
		text, bank, login := spelling(31), spelling(32), spelling(33)
		text.Channel, text.To, bank.App, login.Purpose = "sms", vtest.Mobile, "bank", "login"
		r.Send(text)
		r.Send(bank)
		r.Refuse(login)
		who, err := r.Svc.Administration.ParseTarget("shop", "email", "victim+7@gmail.com", "", "bombed by strangers")
		r.NoError(err)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), who, vtest.AuditEntry("quota.reset")))
		r.Send(spelling(20))
		r.Sleep(24 * time.Hour)
		r.Send(spelling(70)) // back ends have taken none of its places
		r.LoseLimiter()
		for n := range 19 { // this process knows the one before
			r.Send(spelling(n))
		}
		r.Refuse(spelling(19))
	})
}

// Sends that fail because of us take no place of the rule on spellings. After 20 such sends,
// neither an unknown browser nor a back end that acts for a stranger is refused, even if the
// limiter was away when their places were given back.
func TestSpellingsGetTheirPlacesBack(t *testing.T) {
	vtest.EachInBubble(t, map[string]bool{"limiter": false, "limiter away": true}, vtest.MinuteTick(spelled),
		func(r *vtest.Rig, away bool) {
			if away {
				r.Limiter.Around(vtest.Unreachable("Refund"))
			}
			for n := range 20 {
				failMany(r, 1, spelling(n), badReputation)
			}
			if away {
				r.Want("while no refund succeeds", r.Refuse(spelling(20)).Quota.Violated(), "[spellings]")
			}
			r.Limiter.Around(nil)
			r.Sleep(10 * time.Minute)
			r.WantStatus(r.SendTo(spelling(20).To, vtest.By(vtest.ForStranger)), "sent")
			for n := range 19 {
				r.WantStatus(r.Send(spelling(21+n)), "sent")
			}
			r.Want("what was sent counts", r.Refuse(spelling(40)).Quota.Violated(), "[spellings]")
		})
}

func ruleNames(d quota.Decision) (all []string) {
	for _, s := range d.Rules {
		all = append(all, s.Name)
	}
	return all
}

// Until the rule refuses, a browser gets the same answers whatever other spellings were used.
func TestAnswersSayNothingOfOtherSpellings(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		look := func(id string) quota.Decision {
			a, err := r.Svc.Get(r.Context(), spelling(18).Caller, id)
			r.NoError(err)
			return a.Quota
		}
		var id string
		for n := range 19 {
			a := r.Send(spelling(n))
			id = a.View.ID
			r.WantLine("a send", "[hour client network] 0s", ruleNames(a.Quota), a.Quota.RetryAfter())
		}
		r.Want("a look", ruleNames(look(id)), "[hour client network]")
		r.Sleep(time.Second)
		r.WantBlockedBy(r.Send(spelling(19)).Quota, "spellings", 24*time.Hour-time.Second) // the last place
		r.WantWait(look(id), 24*time.Hour-time.Second)
	})
}
