package verification_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

// trial adds a stricter rule for recipients, with the longest window of all, and one for addresses; both observe.
func trial(s *rig.Settings) {
	for name, p := range s.Purposes {
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules[:1]),
			quota.Rule{Name: "stricter", Scope: quota.Recipient, Limit: 2, Window: 48 * time.Hour, Observe: true},
			quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: time.Hour, Observe: true})
		s.Purposes[name] = p
	}
}

func TestObservingRulesRefuseNothingAndAreInTheLog(t *testing.T) {
	rig.InBubbleWith(t, trial, func(r *rig.Rig) {
		w := &rig.Watcher{}
		r.Svc.Observe(w)
		for range 4 {
			a := r.Send(rig.AskFor(rig.Ana))
			if len(a.Quota.Rules) != 1 || a.Quota.RetryAfter() != rig.Minute {
				t.Fatalf("a success: %+v", a.Quota)
			}
			if refused := r.Refuse(rig.AskFor(rig.Ana)); len(refused.Quota.Rules) != 1 || fmt.Sprint(refused.Quota.Violated()) != "[minute]" {
				t.Fatalf("a refusal: %+v", refused.Quota)
			}
			rig.Waited(rig.Minute)
		}
		look, err := r.Svc.Quota(r.Context(), rig.BackEnd, "email", rig.Ana, "")
		if err != nil || !look.Quota.Allowed() || len(look.Quota.Rules) != 1 {
			t.Errorf("a look: %v %+v", err, look.Quota)
		}
		r.SendsObserved(nil, nil, []string{"stricter"}, []string{"stricter", "office"})
		if want := "[email shop stricter email shop stricter email shop office]"; fmt.Sprint(w.Told) != want {
			t.Errorf("metrics: %v", w.Told)
		}
	})
}

// The log holds three sends of a rule that observes two; a limiter that forgot all asks it, and is let in.
func TestTheLogDoesNotDecideWhatObserves(t *testing.T) {
	rig.InBubbleWith(t, trial, func(r *rig.Rig) {
		for range 3 {
			r.Send(rig.AskFor(rig.Ana))
			rig.Waited(rig.Minute)
		}
		r.Find()
		r.Send(rig.AskFor(rig.Ana))
		r.Find()
		if a := r.Refuse(rig.AskFor(rig.Ana)); fmt.Sprint(a.Quota.Violated()) != "[minute]" || a.Quota.RetryAfter() != rig.Minute {
			t.Errorf("refused by the log: %+v", a.Quota)
		}
	})
}

func TestAloneObservingRulesAreDecidedInProcess(t *testing.T) {
	rig.InBubbleWith(t, trial, func(r *rig.Rig) {
		r.Lose()
		r.Post.Tell(rig.Failing(1, "rcpt", 550, "5.1.1"))
		r.Send(rig.AskFor(rig.Ana)) // given back by the recipient, not by the address
		for range 3 {
			a := r.Send(rig.AskFor(rig.Ana))
			if len(a.Quota.Rules) != 1 {
				t.Errorf("%+v", a.Quota.Rules)
			}
			rig.Waited(rig.Minute)
		}
		r.SendsObserved(nil, nil, nil, []string{"stricter", "office"})
	})
}

// A limiter that starts with the process counts for an observing rule what the log has for as long as that rule looks back.
func TestRebuildForObservingRules(t *testing.T) {
	rig.InBubbleWith(t, rig.Seldom(trial), func(r *rig.Rig) {
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(rig.Minute)
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(47 * time.Hour)
		r.Find()
		if err := r.Svc.Rebuilder.Rebuild(r.Context(), "process"); err != nil {
			t.Fatal(err)
		}
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(time.Hour)
		r.Send(rig.AskFor(rig.Ana))
		r.SendsObserved(nil, nil, []string{"stricter"}, nil)
	})
}
