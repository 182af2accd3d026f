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
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// wantBlocked fails the test unless failures, and nothing else, keep Ana out for so long.
func wantBlocked(r *vtest.Rig, wait time.Duration) {
	r.Helper()
	for _, purpose := range []string{"default", "login"} {
		ask := vtest.AskFor(vtest.Ana)
		ask.Purpose = purpose
		d := r.Refuse(ask).Quota
		if fmt.Sprint(d.Violated()) != "[failures]" || d.RetryAfter() != wait || len(d.Rules) != 2 ||
			d.Rules[1].Used < vtest.MaxFailures || d.Rules[0].Used != 0 {
			r.Errorf("%s: blocked by %v for %v, want %v: %+v", purpose, d.Violated(), d.RetryAfter(), wait, d.Rules)
		}
		if d := r.QuotaOf(purpose); d.RetryAfter() != wait || fmt.Sprint(d.Violated()) != "[failures]" {
			r.Errorf("%s: a look: %+v", purpose, d)
		}
	}
	r.SendTo("bo@example.com")
}

func TestQuota15TwentyFailuresADay(t *testing.T) {
	day := 24 * time.Hour
	for name, before := range map[string]func(r *vtest.Rig){
		"as ever":             func(*vtest.Rig) {},
		"flushed":             func(r *vtest.Rig) { r.EmptyLimiter() },
		"away":                (*vtest.Rig).LoseLimiter,
		"back after a flush":  func(r *vtest.Rig) { r.LoseLimiter(); r.Sleep(2 * time.Minute); r.EmptyLimiter() },
		"in process, rebuilt": func(r *vtest.Rig) { r.EmptyLimiter(); r.Rebuild() },
	} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, vtest.MinuteTick(vtest.BoundFailures), func(r *vtest.Rig) {
				r.FailSends(vtest.MaxFailures - 1)
				if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 || d.Rules[0].Used != 0 {
					t.Errorf("one is left: %+v", d)
				}
				r.FailSends(1)
				began := time.Now()
				before(r)
				spent := time.Since(began)
				wantBlocked(r, day-vtest.MaxFailures*time.Minute-spent)
				r.Sleep(day - vtest.MaxFailures*time.Minute - spent - time.Microsecond)
				wantBlocked(r, time.Microsecond)
				r.Sleep(time.Microsecond)
				r.SendTo(vtest.Ana)
				r.Sleep(time.Minute)
				if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
					t.Errorf("afterwards: %+v", d)
				}
			})
		})
	}
}

// A limiter that starts empty in this process, or looks back further from now on, is told of the failures in the log.
func TestRebuildTellsFailures(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures)
		h, _ := r.Svc.Desk.Hash("email", vtest.Ana)
		rules := quota.OfScope(r.Svc.Terms().Purposes["default"].Policy.Rules, quota.Failures)
		look := quota.Request{Rules: rules, Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email", h)}}
		empty := r.EmptyLimiter()
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
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		r.MailServer.Answer(vtest.FailWith(delivery.Unknown, "dot", 0, ""))
		r.SendTo(vtest.Ana)
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1")) // and then taken
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		for range 60 {
			r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "dial", 0, ""))
		}
		a := r.SendTo(vtest.Ana) // put off until its code has run out
		r.Sleep(11 * time.Minute)
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "expired" {
			t.Fatalf("%+v", v.Send)
		}
		r.MailServer.Answers = nil
		r.SendTo(vtest.Ana)
		r.EmptyLimiter()
		r.SendTo(vtest.Ana)
		r.FailSends(1)
		r.RefuseTo(vtest.Ana)
	})
}

// A failure that the limiter could not be told of is told once it is back, as old as it is.
func TestFailureWhileTheLimiterIsAway(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		memory := *r.Limiter.Now.Load()
		r.LoseLimiter()
		r.FailSends(1)
		r.Sleep(time.Minute)
		r.Limiter.Set(memory)
		r.Sleep(2 * time.Second)
		if d := r.QuotaOf(""); fmt.Sprint(d.Violated()) != "[failures]" || d.Clock != "process" {
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
	observed := func(s *vtest.Settings) {
		vtest.BoundFailures(s)
		for _, p := range s.Purposes {
			p.Policy.Rules[1].Limit, p.Policy.Rules[1].Observe = 2, true
		}
	}
	vtest.InBubbleWith(t, observed, func(r *vtest.Rig) {
		r.FailSends(3)
		r.EmptyLimiter() // the log does not decide it either
		r.FailSends(1)
		r.WantObserved(nil, nil, []string{"failures"}, nil)
		if d := r.QuotaOf(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("%+v", d)
		}
		r.LoseLimiter()
		r.FailSends(1)
	})
}
