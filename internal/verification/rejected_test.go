package verification_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/policy"
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

// A limiter that starts empty in this process is told of the failures in the log.
func TestRebuildTellsFailures(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures)
		r.EmptyLimiter()
		for _, want := range []int{0, vtest.MaxFailures} {
			if n := r.CountedFailures().Used; n != want {
				t.Errorf("the limiter counts %d failures, want %d", n, want)
			}
			r.Rebuild()
		}
	})
}

// An outcome that is unknown, or not caused by the address, is no failure of the recipient.
func TestQuota15WhatIsNoFailure(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(vtest.MaxFailures - 1)
		r.MailServer.Answer(vtest.FailWith(delivery.Unknown, "dot", 0, ""))
		r.SendTo(vtest.Ana)
		r.MailServer.Answer(vtest.FailWith(delivery.Temporary, "rcpt", 451, "4.7.1")) // and then taken
		r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.MailServer.Answer(func(context.Context) error {
			return &delivery.Error{Class: delivery.Temporary, Stage: "dial", RetryAfter: time.Hour, Err: errors.New("after the code's end")}
		})
		if a := r.SendTo(vtest.Ana); r.Status(a) != "failed expired" {
			t.Fatal(r.Status(a))
		}
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
		r.LoseLimiter()
		r.FailSends(1)
		r.Sleep(time.Minute)
		r.Limiter.Around(nil)
		r.Sleep(2 * time.Second)
		if d := r.QuotaOf(""); fmt.Sprint(d.Violated()) != "[failures]" || d.Clock != "process" {
			t.Errorf("%+v", d)
		}
		for window, n := range map[time.Duration]int{122 * time.Second: 0, 123 * time.Second: 1} {
			d, err := r.Limiter.Peek(r.Context(), quota.Request{
				Rules:   []quota.Rule{{Scope: quota.Failures, Limit: 1, Window: window}},
				Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email", r.Person().Recipient)},
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
