package gates_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// withoutRedis sets up replicas without Redis, with a rule on recipients and a rule whose events
// have no rows.
func withoutRedis(s *vtest.Settings) {
	s.Tick = 0 // each replica reads what the others counted as often as in production
	s.Form = vtest.WithoutRedis
	vtest.WithRules(quota.Rule{Name: "app", Scope: quota.App, Limit: 100, Window: time.Hour},
		quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour})(s)
}

// Without Redis, the answers of all replicas show at once what one of them counted, gave back or
// reset, even if a replica has refused before. A process that starts returns the same waits, since
// the rows have them.
func TestReplicasWithoutRedisTellTheSame(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(withoutRedis), func(r *vtest.Rig) {
		b, stop := r.StartReplica(r.MailServer)
		defer stop()
		wantOnAll := func(what string, used int, wait time.Duration) {
			r.Helper()
			for _, s := range []*vtest.Service{r.Svc, b, r.Replica(r.MailServer)} {
				d := r.QuotaAt(s)
				vtest.Equal(r, what+": Used", d.Rules[1].Used, used)
				vtest.Equal(r, what+": RetryAfter", d.RetryAfter(), wait)
			}
			if wait > 0 {
				r.AskAt(b, vtest.AskFor(vtest.Ana), false)
				d := r.AskAt(b, vtest.AskFor(vtest.Ana), false).Quota
				r.WantBlockedBy(d, "hour", wait)
			}
		}
		release := make(chan struct{})
		r.MailServer.Answer(func(ctx context.Context) error { <-release; return vtest.NoMailbox(ctx) })
		r.AskAt(r.Svc, vtest.AskFor(vtest.Ana), true)
		r.Sleep(time.Second)
		wantOnAll("under way", 1, time.Hour-time.Second)
		close(release)
		r.Sleep(0)
		wantOnAll("given back", 0, 0)
		r.AskAt(b, vtest.AskFor(vtest.Ana), true)
		r.Sleep(time.Minute)
		wantOnAll("sent", 1, 59*time.Minute)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		wantOnAll("reset", 0, 0)
		r.AskAt(b, vtest.AskFor(vtest.Ana), true)
		r.Sleep(time.Hour - time.Microsecond)
		wantOnAll("1 µs early", 1, time.Microsecond)
		r.Sleep(time.Microsecond)
		r.AskAt(r.Replica(r.MailServer), vtest.AskFor(vtest.Ana), true)
	})
}

// Without Redis, a flood on a refused recipient shares reads, writes nothing, and takes no place of
// a wider rule. A process that restarted counts its first refusal, and gives that place back.
func TestWithoutRedisAFloodSharesReads(t *testing.T) {
	vtest.InBubbleWith(t, withoutRedis, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(2 * gates.KeepEvery)
		restarted := r.ReplicaOn(&lateLook{DB: r.Store, late: 10 * time.Millisecond}, r.MailServer, r.Carrier)
		for name, s := range map[string]*vtest.Service{"sent": r.Svc, "restarted": restarted} {
			calls := map[string]int{}
			if name == "restarted" {
				r.AskAt(s, vtest.AskFor(vtest.Ana), false)
			}
			r.Store.SetFault(func(method string) sqlitetest.Fault { calls[method]++; return sqlitetest.None })
			var all sync.WaitGroup
			for range 500 {
				all.Go(func() {
					a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
					vtest.Equal(r, "refused: Admitted", a.Admitted, false)
					r.NoError(err)
					vtest.Equal(r, "refused: Used", a.Quota.Rules[0].Used, 1)
				})
			}
			all.Wait()
			r.Store.SetFault(nil)
			few := calls["ReadHistory"] < 100 || name == "sent" // only the other replica's reads take time, and are shared
			vtest.Equal(r, name+": few reads, no Begin: few", few, true)
			vtest.Equal(r, name+": few reads, no Begin", calls["Begin"], 0)
		}
		vtest.Equal(r, "used: Used", r.QuotaAt(restarted).Rules[0].Used, 1)
		vtest.Equal(r, "used: Used", r.QuotaAt(restarted).Rules[1].Used, 1)
		r.Sleep(time.Hour)
		r.SendTo(vtest.Ana)
	})
}

// peekCounter counts the calls of Peek of a limiter in this process.
type peekCounter struct {
	gates.Limiter
	peeks *int
}

func (p peekCounter) Unwrap() gates.Limiter { return p.Limiter }

func (p peekCounter) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	*p.peeks++
	return p.Limiter.Peek(ctx, r)
}

// Without Redis, a refusal in a flood reads this process's events once, and a refund is made at
// once, even if the request has ended.
func TestWithoutRedisNothingIsDoneTwice(t *testing.T) {
	vtest.InBubbleWith(t, withoutRedis, func(r *vtest.Rig) {
		peeks := 0
		g := gates.New(peekCounter{quota.NewMemory(time.Now), &peeks}, r.Store, policy.NewCurrentSet(r.Settings.Set, time.Now),
			func() {}, time.Now, time.Now, r.Logger)
		p := r.Svc.Policies().Purposes["default"]
		ana := buckets.NewPlan(
			buckets.Subject{App: "shop", IP: vtest.BackEnd.IP, Channel: "email", Recipient: r.AnaTarget().Recipient, Purpose: p}, p.Policy.Rules)
		r.SendTo(vtest.Ana)
		g.RefundOverruled(r.Context(), ana, uuid.New(), quota.Decision{}, time.Now(),
			store.BeginAnswer{Now: time.Now(), History: []quota.Event{{ID: "a", At: time.Now()}}})
		peeks = 0
		_, refused, err := g.AnswerRefusedBefore(r.Context(), ana)
		vtest.Equal(r, "refused", refused, true)
		r.NoError(err)
		vtest.Equal(r, "looks", peeks, 1)
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		r.NoError(g.Refund(ended, "a", "another bucket"))
	})
}

// Gates without a limiter remember refused recipients, as they do with a limiter in this process.
func TestNewWithoutALimiter(t *testing.T) {
	vtest.InBubbleWith(t, withoutRedis, func(r *vtest.Rig) {
		g := gates.New(nil, r.Store, policy.NewCurrentSet(r.Settings.Set, time.Now), func() {}, time.Now, time.Now, r.Logger)
		p := r.Svc.Policies().Purposes["default"]
		ana := buckets.NewPlan(
			buckets.Subject{App: "shop", IP: vtest.BackEnd.IP, Channel: "email", Recipient: r.AnaTarget().Recipient, Purpose: p},
			p.Policy.Rules)
		before := func(want bool) {
			_, refused, err := g.AnswerRefusedBefore(r.Context(), ana)
			vtest.Equal(r, "refused before", refused, want)
			r.NoError(err)
		}
		before(false)
		r.SendTo(vtest.Ana)
		g.RefundOverruled(r.Context(), ana, uuid.New(), quota.Decision{}, time.Now(),
			store.BeginAnswer{Now: time.Now(), History: []quota.Event{{ID: "a", At: time.Now()}}})
		before(true)
	})
}
