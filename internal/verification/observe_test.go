package verification_test

import (
	"fmt"
	"testing"
	"time"

	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// trial adds a stricter rule for recipients, with the longest window of all, and one for addresses; both observe.
var trial = vtest.WithRules(
	quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 2, Window: 48 * time.Hour, Observe: true},
	quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: time.Hour, Observe: true},
)

func TestObservingRulesRefuseNothingAndAreInTheLog(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		w := &vtest.Noted{}
		r.Svc.Observe(w)
		for range 4 {
			a := r.SendTo(vtest.Ana)
			if len(a.Quota.Rules) != 1 || a.Quota.RetryAfter() != time.Minute {
				t.Fatalf("a success: %+v", a.Quota)
			}
			if refused := r.RefuseTo(vtest.Ana); len(refused.Quota.Rules) != 1 || fmt.Sprint(refused.Quota.Violated()) != "[minute]" {
				t.Fatalf("a refusal: %+v", refused.Quota)
			}
			r.Sleep(time.Minute)
		}
		if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("a look: %+v", d)
		}
		r.WantObserved(nil, nil, []string{"stricter"}, []string{"stricter", "office"})
		if want := "[email shop stricter email shop stricter email shop office]"; fmt.Sprint(w.All) != want {
			t.Errorf("metrics: %v", w.All)
		}
	})
}

// The log holds three sends of a rule that observes two; a limiter that forgot all asks it, and is let in.
func TestTheLogDoesNotDecideWhatObserves(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		for range 3 {
			r.SendTo(vtest.Ana)
			r.Sleep(time.Minute)
		}
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "minute", time.Minute)
	})
}

func TestAloneObservingRulesAreDecidedInProcess(t *testing.T) {
	vtest.InBubbleWith(t, trial, func(r *vtest.Rig) {
		r.LoseLimiter()
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana) // given back by the recipient, not by the address
		for range 3 {
			a := r.SendTo(vtest.Ana)
			if len(a.Quota.Rules) != 1 {
				t.Errorf("%+v", a.Quota.Rules)
			}
			r.Sleep(time.Minute)
		}
		r.WantObserved(nil, nil, nil, []string{"stricter", "office"})
	})
}

// A limiter that starts with the process counts for an observing rule what the log has for as long as that rule looks back.
func TestRebuildForObservingRules(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(trial), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.SendTo(vtest.Ana)
		r.Sleep(47 * time.Hour)
		r.EmptyLimiter()
		r.Rebuild()
		r.SendTo(vtest.Ana)
		r.Sleep(time.Hour)
		r.SendTo(vtest.Ana)
		r.WantObserved(nil, nil, []string{"stricter"}, nil)
	})
}
