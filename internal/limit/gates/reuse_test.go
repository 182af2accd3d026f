package gates_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// A replica refuses, another one admits a send just afterwards, and the first one refuses again.
// The database counts the send 3 ms later than the limiter. The second refusal has the rows' wait,
// although the rows were read a moment before.
func TestReusedRefusalCountsOtherReplicas(t *testing.T) {
	const late, moment = 3 * time.Millisecond, 2 * time.Millisecond
	tenSeconds := func(limit int) quota.Rule {
		return quota.Rule{Name: "rule", Scope: quota.Recipient, Limit: limit, Window: 10 * time.Second}
	}
	ask, stranger := vtest.AskFor(vtest.Ana), vtest.AskFor(vtest.Ana, vtest.By(vtest.ForStranger))
	slow := func(r *vtest.Rig) *vtest.Service {
		return r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() { r.Sleep(late) }}, r.MailServer, r.Carrier)
	}
	// failing returns a replica whose sends fail for good when fail is called.
	failing := func(r *vtest.Rig) (_ *vtest.Service, fail func()) {
		dead, failed := &vtest.MailServer{}, make(chan struct{})
		dead.Answer(func(ctx context.Context) error { <-failed; return vtest.NoMailbox(ctx) })
		return r.Replica(dead), func() { close(failed) }
	}
	for name, c := range map[string]struct {
		rules func(*vtest.Settings)
		// test returns the wait in the second refusal, and the wait that it must have.
		test func(r *vtest.Rig, refuse func() time.Duration) (got, want time.Duration)
	}{
		"the wait ended": {secondAndHour, func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
			r.SendTo(vtest.Ana)
			r.Sleep(990 * time.Millisecond)
			refuse()
			r.Sleep(10 * time.Millisecond)
			r.AskAt(slow(r), ask, true)
			r.Sleep(moment)
			return refuse(), time.Second - moment
		}},
		"a reset": {secondAndHour, func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
			r.SendTo(vtest.Ana)
			r.Sleep(500 * time.Millisecond)
			refuse()
			r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
			r.AskAt(slow(r), ask, true)
			r.Sleep(moment)
			return refuse(), time.Second - moment
		}},
		"a refund": {secondAndHour, func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
			_, _, fail := r.SendByDeadProcess(vtest.NoMailbox)
			r.Sleep(500 * time.Millisecond)
			refuse()
			fail()
			r.AskAt(slow(r), ask, true)
			r.Sleep(moment)
			return refuse(), time.Second - moment
		}},
		"a refund, by a replica that does not reach Redis any more": {secondAndHour, func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
			other, fail := failing(r)
			r.AskAt(other, ask, true)
			other.Limiter.Intercept(vtest.Unreachable())
			r.Sleep(500 * time.Millisecond)
			refuse()
			fail()
			r.Sleep(moment)
			r.AskAt(other, ask, true)
			r.Sleep(moment)
			return refuse(), time.Second - moment
		}},
		"a refund, and strangers may send less": {
			vtest.WithReserve(map[string]int{"rule": 1}, vtest.WithRules(tenSeconds(2))),
			func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
				r.AskAt(r.Svc, stranger, true)
				r.Sleep(time.Second)
				_, _, fail := r.SendByDeadProcess(vtest.NoMailbox)
				r.Sleep(time.Second)
				refuse()
				fail()
				r.AskAt(slow(r), ask, true)
				r.Sleep(moment)
				return refuse(), 10*time.Second - moment
			},
		},
		"it was under way": {vtest.WithRules(tenSeconds(2)), func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
			r.AskAt(slow(r), ask, true)
			r.Sleep(time.Second)
			var second sync.WaitGroup
			second.Go(func() { r.AskAt(slow(r), ask, true) })
			r.Sleep(late / 3)
			refuse()
			second.Wait()
			r.Sleep(moment)
			return refuse(), 10*time.Second - time.Second - late - moment
		}},
		"strangers may send less, and the other one does not reach Redis": {
			vtest.WithReserve(map[string]int{"rule": 1}, vtest.WithRules(tenSeconds(2))),
			func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
				r.AskAt(r.Svc, stranger, true)
				r.Sleep(500 * time.Millisecond)
				refuse()
				other := r.Replica(r.MailServer)
				other.Limiter.Intercept(vtest.Unreachable())
				r.AskAt(other, ask, true)
				r.Sleep(moment)
				return refuse(), 10*time.Second - moment
			},
		},
		"a second failure, of a replica that does not reach Redis any more": {
			vtest.WithRules(tenSeconds(1), quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 4, Window: time.Hour}),
			func(r *vtest.Rig, refuse func() time.Duration) (_, _ time.Duration) {
				r.MailServer.Answer(vtest.NoMailbox)
				r.SendTo(vtest.Ana)
				r.MailServer.Answer(nil)
				r.Sleep(time.Second)
				other, fail := failing(r)
				r.AskAt(other, ask, true)
				other.Limiter.Intercept(vtest.Unreachable())
				r.Sleep(time.Second)
				refuse()
				fail()
				r.Sleep(moment)
				return refuse(), time.Hour - 2*time.Second - moment
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, c.rules, func(r *vtest.Rig) {
				first := r.Replica(r.MailServer)
				got, want := c.test(r, func() time.Duration {
					return r.AskAt(first, stranger, false).Quota.RetryAfter()
				})
				r.Want("told", got, want)
			})
		})
	}
}

// A flood of refusals on one recipient reads the rows twenty times a second, and each refusal has
// the right wait for its own instant.
func TestAFloodOfRefusalsReadsFewRows(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		reads := 0
		db := r.Store.Replica()
		db.SetFault(func(method string) sqlitetest.Fault {
			if method == "ReadHistory" {
				reads++
			}
			return sqlitetest.None
		})
		s := r.ReplicaOn(db, r.MailServer, r.Carrier)
		sent := time.Now()
		r.AskAt(s, vtest.AskFor(vtest.Ana), true)
		r.Sleep(10 * time.Second)
		reads = 0
		for began := time.Now(); time.Since(began) < time.Second; r.Sleep(time.Millisecond) {
			r.WantBlockedBy(r.AskAt(s, vtest.AskFor(vtest.Ana), false).Quota, "minute", time.Minute-time.Since(sent))
		}
		r.Want("reads in a second", reads, 20)
	})
}
