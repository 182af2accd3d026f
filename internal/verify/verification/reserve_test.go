package verification_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// withWideRule sets a rule of the scope with the limit 5 and the reserve 2.
func withWideRule(scope quota.Scope) func(*vtest.Settings) {
	own := quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 100, Window: time.Second}
	wide := quota.Rule{Name: "wide", Scope: scope, Limit: 5, Window: 10 * time.Minute}
	return func(s *vtest.Settings) {
		vtest.ServeCountries("DE")(s)
		if scope == policy.BreakerScope {
			vtest.WithRules(own)(s)
			s.Breaker, s.BreakerReserve = wide, 2
			return
		}
		vtest.WithReserve(map[string]int{"wide": 2}, vtest.WithRules(own, wide))(s)
	}
}

// In a rule that many recipients share, strangers get at most the limit less the reserve. A secret
// key gets the rest of the same bucket, and all together never get more than the limit. The wait in
// a stranger's answer ends when the count falls below the strangers' limit. They are admitted
// exactly then, also while the limiter is away.
func TestStrangersLeaveTheReserveOfWideRules(t *testing.T) {
	for _, scope := range []quota.Scope{quota.App, policy.CountryScope, policy.BreakerScope} {
		for what, by := range map[string]verification.Caller{"browser": vtest.Browser, "back end for a stranger": vtest.ForStranger} {
			t.Run(string(scope)+" "+what, func(t *testing.T) {
				vtest.InForms(t, vtest.MinuteTick(withWideRule(scope)), func(r *vtest.Rig) {
					n := 0
					ask := func(c verification.Caller) verification.Request {
						n++
						if scope == policy.CountryScope {
							text := vtest.TextTo(vtest.NthNumber(n))
							text.Caller = c
							return text
						}
						return vtest.AskFor(vtest.NthAddress(n), vtest.By(c))
					}
					for range 3 {
						r.Send(ask(by))
						r.Sleep(time.Minute)
					}
					r.WantBlockedBy(r.Refuse(ask(by)).Quota, "wide", 7*time.Minute)
					r.Send(ask(vtest.BackEnd))
					r.WantBlockedBy(r.Refuse(ask(by)).Quota, "wide", 8*time.Minute) // two sends must leave the window
					r.Sleep(time.Minute)
					r.Send(ask(vtest.BackEnd))
					r.WantBlockedBy(r.Refuse(ask(vtest.BackEnd)).Quota, "wide", 6*time.Minute)
					r.WantBlockedBy(r.Refuse(ask(by)).Quota, "wide", 8*time.Minute) // three sends must leave the window
					r.Sleep(6 * time.Minute)
					r.Send(ask(vtest.BackEnd))
					r.WantBlockedBy(r.Refuse(ask(by)).Quota, "wide", 3*time.Minute)
					r.Sleep(3*time.Minute - time.Microsecond)
					r.WantBlockedBy(r.Refuse(ask(by)).Quota, "wide", time.Microsecond)
					r.Sleep(time.Microsecond)
					r.Send(ask(by))
				})
			})
		}
	}
}

// While many strangers wait for their turn with a recipient, the request of a secret key does not
// wait.
func TestStrangersDelayNoOthers(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		var answered atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				a, err := r.Svc.Send(r.Context(), byBrowser(vtest.Ana))
				if answered.Add(1); err != nil || a.Admitted {
					t.Errorf("a stranger: %v, %v", a.Admitted, err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		r.RefuseTo(vtest.Ana)
		vtest.Equal(r, "the wait of a secret key", time.Since(began), 0)
		vtest.Equal(r, "strangers answered before", answered.Load(), 16)
		all.Wait()
	})
}
