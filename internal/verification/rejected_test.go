package verification_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

func TestQuota15TwentyFailuresADay(t *testing.T) {
	day := 24 * time.Hour
	for name, before := range map[string]func(r *rig.Rig){
		"as ever":             func(*rig.Rig) {},
		"flushed":             func(r *rig.Rig) { r.Find() },
		"away":                (*rig.Rig).Lose,
		"back after a flush":  func(r *rig.Rig) { r.Lose(); rig.Waited(2 * rig.Minute); r.Find() },
		"in process, rebuilt": func(r *rig.Rig) { r.Find(); r.Rebuild() },
	} {
		t.Run(name, func(t *testing.T) {
			rig.InBubbleWith(t, rig.Seldom(rig.Hammered), func(r *rig.Rig) {
				r.Hammer(rig.Bad - 1)
				if d := r.Look(""); !d.Allowed() || len(d.Rules) != 1 || d.Rules[0].Used != 0 {
					t.Errorf("one is left: %+v", d)
				}
				r.Hammer(1)
				began := time.Now()
				before(r)
				spent := time.Since(began)
				r.BarredFor(day - rig.Bad*rig.Minute - spent)
				rig.Waited(day - rig.Bad*rig.Minute - spent - time.Microsecond)
				r.BarredFor(time.Microsecond)
				rig.Waited(time.Microsecond)
				r.Send(rig.AskFor(rig.Ana))
				rig.Waited(rig.Minute)
				if d := r.Look(""); !d.Allowed() || len(d.Rules) != 1 {
					t.Errorf("afterwards: %+v", d)
				}
			})
		})
	}
}

// A limiter that starts empty in this process, or looks back further from now on, is told of the failures in the log.
func TestRebuildTellsFailures(t *testing.T) {
	rig.InBubbleWith(t, rig.Hammered, func(r *rig.Rig) {
		r.Hammer(rig.Bad)
		h, _ := r.Svc.Desk.Hash("email", rig.Ana)
		rules := quota.OfScope(r.Svc.Terms().Purposes["default"].Policy.Rules, quota.Failures)
		look := quota.Request{Rules: rules, Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email", h)}}
		empty := r.Find()
		if d, err := empty.Peek(r.Context(), look); err != nil || !d.Allowed() {
			t.Errorf("an empty limiter: %+v, %v", d, err)
		}
		r.Rebuild()
		if d, err := empty.Peek(r.Context(), look); err != nil || fmt.Sprint(d.Violated()) != "[failures]" {
			t.Errorf("rebuilt: %+v, %v", d, err)
		}
		longer := r.Svc.Terms()
		longer.Purposes = maps.Clone(longer.Purposes)
		if r.Svc.Change(longer) {
			t.Error("nothing changed, and more has to be known")
		}
		longer.Purposes = maps.Clone(longer.Purposes)
		p := longer.Purposes["default"]
		p.Policy.Rules = slices.Clone(p.Policy.Rules)
		p.Policy.Rules[1].Window = 48 * time.Hour
		longer.Purposes["default"] = p
		if !r.Svc.Change(longer) {
			t.Error("failures count for longer, and nothing more has to be known")
		}
	})
}

// What has no cause in the address, or an unknown outcome, is no failure of the recipient.
func TestQuota15WhatIsNoFailure(t *testing.T) {
	rig.InBubbleWith(t, rig.Hammered, func(r *rig.Rig) {
		r.Hammer(rig.Bad - 1)
		r.Post.Tell(rig.Failing(delivery.Unknown, "dot", 0, ""))
		r.Send(rig.AskFor(rig.Ana))
		r.Post.Tell(rig.Failing(delivery.Temporary, "rcpt", 451, "4.7.1")) // and then taken
		r.Send(rig.AskFor(rig.Ana))
		rig.Waited(rig.Minute)
		for range 60 {
			r.Post.Tell(rig.Failing(delivery.Temporary, "dial", 0, ""))
		}
		a := r.Send(rig.AskFor(rig.Ana)) // put off until its code has run out
		rig.Waited(11 * rig.Minute)
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "expired" {
			t.Fatalf("%+v", v.Send)
		}
		r.Post.Answers = nil
		r.Send(rig.AskFor(rig.Ana))
		r.Find()
		r.Send(rig.AskFor(rig.Ana))
		r.Hammer(1)
		r.Refuse(rig.AskFor(rig.Ana))
	})
}

// A failure that the limiter could not be told of is told once it is back, as old as it is.
func TestFailureWhileTheLimiterIsAway(t *testing.T) {
	rig.InBubbleWith(t, rig.Hammered, func(r *rig.Rig) {
		r.Hammer(rig.Bad - 1)
		memory := *r.Limiter.Now.Load()
		r.Lose()
		r.Hammer(1)
		rig.Waited(rig.Minute)
		r.Limiter.Set(memory)
		rig.Waited(2 * time.Second)
		if d := r.Look(""); fmt.Sprint(d.Violated()) != "[failures]" || d.Clock != "process" {
			t.Errorf("%+v", d)
		}
		to := r.Rows()[0]
		for window, n := range map[time.Duration]int{122 * time.Second: 0, 123 * time.Second: 1} {
			d, err := memory.Peek(r.Context(), quota.Request{
				Rules:   []quota.Rule{{Scope: quota.Failures, Limit: 1, Window: window}},
				Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket(to.App, to.Channel, to.Recipient)},
			})
			if err != nil || d.Rules[0].Used != n {
				t.Errorf("%d within %v, %v", d.Rules[0].Used, window, err)
			}
		}
	})
}

func TestFailuresThatAreOnlyObserved(t *testing.T) {
	observed := func(s *rig.Settings) {
		rig.Hammered(s)
		for _, p := range s.Purposes {
			p.Policy.Rules[1].Limit, p.Policy.Rules[1].Observe = 2, true
		}
	}
	rig.InBubbleWith(t, observed, func(r *rig.Rig) {
		r.Hammer(3)
		r.Find() // the log does not decide it either
		r.Hammer(1)
		r.SendsObserved(nil, nil, []string{"failures"}, nil)
		if d := r.Look(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("%+v", d)
		}
		r.Lose()
		r.Hammer(1)
	})
}
