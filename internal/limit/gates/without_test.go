package gates_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// askWithout sends a mail to Ana, and returns whether the process admitted it, the used places of its
// recipient's rule, and the wait.
func (p *keptProcess) askWithout(r *vtest.Rig) (admitted bool, used int, wait time.Duration) {
	r.Helper()
	a, err := p.Service.Send(r.Context(), vtest.AskFor(vtest.Ana))
	r.NoError(err)
	synctest.Wait()
	d := p.look(r)
	return a.Admitted, d.Rules[len(d.Rules)-1].Used, d.RetryAfter()
}

func (p *keptProcess) look(r *vtest.Rig) quota.Decision {
	r.Helper()
	a, err := p.Service.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, "")
	r.NoError(err)
	return a.Quota
}

var oneAnHour = vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour})

// Without Redis a replica knows at once what another one gave back or reset, since the rows tell it, and
// a process that starts tells the same waits.
func TestWithoutRedisReplicasTellTheSame(t *testing.T) {
	vtest.InBubbleIdle(t, oneAnHour, func(r *vtest.Rig) {
		a, b := startKept(r, 0, true), startKept(r, 0, true)
		defer a.stop()
		defer b.stop()
		say := func(what, want string, p *keptProcess) {
			r.Helper()
			admitted, used, wait := p.askWithout(r)
			r.WantLine(what, want, admitted, used, wait)
		}
		say("the first", "true 1 1h0m0s", a)
		r.Sleep(time.Minute)
		say("the other", "false 1 59m0s", b)
		say("again", "false 1 59m0s", b)
		r.NoError(a.Desk.ResetQuota(r.Context(), r.Person(), vtest.AuditEntry("quota.reset")))
		r.Want("after the reset", b.look(r).RetryAfter(), "0s")
		say("the other after the reset", "true 1 1h0m0s", b)
		r.Sleep(time.Minute)
		c := startKept(r, 0, true)
		defer c.stop()
		r.Want("after a start", c.look(r).RetryAfter(), 59*time.Minute)
		say("after a start", "false 1 59m0s", c)
	})
}

// A flood on a refused recipient shares reads and counts nothing in the rules of the app.
func TestWithoutRedisAFloodSharesReads(t *testing.T) {
	rules := vtest.WithRules(quota.Rule{Name: "app", Scope: quota.App, Limit: 100, Window: time.Hour},
		quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour})
	vtest.InBubbleIdle(t, rules, func(r *vtest.Rig) {
		a := startKept(r, 0, true)
		defer a.stop()
		a.askWithout(r)
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				answer, err := a.Service.Send(r.Context(), vtest.AskFor(vtest.Ana))
				r.WantLine("refused", "false <nil>", answer.Admitted, err)
			})
		}
		all.Wait()
		r.WantLine("used", "1 1", a.look(r).Rules[0].Used, a.look(r).Rules[1].Used)
		r.Sleep(time.Hour)
		admitted, _, _ := a.askWithout(r)
		r.Want("afterwards", admitted, true)
	})
}
