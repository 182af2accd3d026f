package verification

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/quota"
)

const bad = 20 // failures in a day

// hammered has room for sends, bounds failures, and gives the purpose login a policy of its own.
func hammered(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy = quota.Policy{Name: name, Rules: []quota.Rule{
			{Name: "wide", Scope: quota.Recipient, Limit: 1000, Window: time.Hour},
			{Name: "failures", Scope: quota.Failures, Limit: bad, Window: 24 * time.Hour},
		}}
		p.Shares = []string{name}
		s.Purposes[name] = p
	}
}

var noSuchUser = failing(delivery.Rejected, "rcpt", 550, "5.1.1")

// hammer has n sends to ana rejected, a minute apart.
func (r *rig) hammer(n int) {
	r.Helper()
	for range n {
		r.post.tell(noSuchUser)
		a := r.send(askFor(ana))
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "rejected" {
			r.Fatalf("%+v", v.Send)
		}
		waited(minute)
	}
}

func (r *rig) look(purpose string) quota.Decision {
	r.Helper()
	a, err := r.svc.Quota(r.Context(), backEnd, "email", ana, purpose)
	if err != nil {
		r.Fatal(err)
	}
	return a.Quota
}

// barredFor checks that failures, and nothing else, keep ana out for so long.
func (r *rig) barredFor(wait time.Duration) {
	r.Helper()
	for _, purpose := range []string{"default", "login"} {
		ask := askFor(ana)
		ask.Purpose = purpose
		d := r.refuse(ask).Quota
		if fmt.Sprint(d.Violated()) != "[failures]" || d.RetryAfter() != wait || len(d.Rules) != 2 || d.Rules[1].Used < bad || d.Rules[0].Used != 0 {
			r.Errorf("%s: blocked by %v for %v, want %v: %+v", purpose, d.Violated(), d.RetryAfter(), wait, d.Rules)
		}
		if d := r.look(purpose); d.RetryAfter() != wait || fmt.Sprint(d.Violated()) != "[failures]" {
			r.Errorf("%s: a look: %+v", purpose, d)
		}
	}
	r.send(askFor("bo@example.com"))
}

func TestQuota15TwentyFailuresADay(t *testing.T) {
	day := 24 * time.Hour
	for name, before := range map[string]func(r *rig){
		"as ever":             func(*rig) {},
		"flushed":             func(r *rig) { r.find() },
		"away":                (*rig).lose,
		"back after a flush":  func(r *rig) { r.lose(); waited(2 * minute); r.find() },
		"in process, rebuilt": func(r *rig) { r.find(); r.rebuild() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, seldom(hammered), func(r *rig) {
				r.hammer(bad - 1)
				if d := r.look(""); !d.Allowed() || len(d.Rules) != 1 || d.Rules[0].Used != 0 {
					t.Errorf("one is left: %+v", d)
				}
				r.hammer(1)
				began := time.Now()
				before(r)
				spent := time.Since(began)
				r.barredFor(day - bad*minute - spent)
				waited(day - bad*minute - spent - time.Microsecond)
				r.barredFor(time.Microsecond)
				waited(time.Microsecond)
				r.send(askFor(ana))
				waited(minute)
				if d := r.look(""); !d.Allowed() || len(d.Rules) != 1 {
					t.Errorf("afterwards: %+v", d)
				}
			})
		})
	}
}

func (r *rig) rebuild() {
	r.Helper()
	if err := r.svc.Rebuild(r.Context(), "process"); err != nil {
		r.Fatal(err)
	}
}

// A limiter that starts empty in this process, or looks back further from now on, is told of the failures in the log.
func TestRebuildTellsFailures(t *testing.T) {
	inBubbleWith(t, hammered, func(r *rig) {
		r.hammer(bad)
		h, _ := r.svc.Hash("email", ana)
		rules := quota.OfScope(r.svc.Terms().Purposes["default"].Policy.Rules, quota.Failures)
		look := quota.Request{Rules: rules, Buckets: map[quota.Scope]string{quota.Failures: failuresBucket("shop", "email", h)}}
		empty := r.find()
		if d, err := empty.Peek(r.Context(), look); err != nil || !d.Allowed() {
			t.Errorf("an empty limiter: %+v, %v", d, err)
		}
		r.rebuild()
		if d, err := empty.Peek(r.Context(), look); err != nil || fmt.Sprint(d.Violated()) != "[failures]" {
			t.Errorf("rebuilt: %+v, %v", d, err)
		}
		longer := r.svc.Terms()
		longer.Purposes = maps.Clone(longer.Purposes)
		if r.svc.Change(longer) {
			t.Error("nothing changed, and more has to be known")
		}
		longer.Purposes = maps.Clone(longer.Purposes)
		p := longer.Purposes["default"]
		p.Policy.Rules = slices.Clone(p.Policy.Rules)
		p.Policy.Rules[1].Window = 48 * time.Hour
		longer.Purposes["default"] = p
		if !r.svc.Change(longer) {
			t.Error("failures count for longer, and nothing more has to be known")
		}
	})
}

// What nobody is to blame for, or nobody knows, is no failure of the recipient.
func TestQuota15WhatIsNoFailure(t *testing.T) {
	inBubbleWith(t, hammered, func(r *rig) {
		r.hammer(bad - 1)
		r.post.tell(failing(delivery.Unknown, "dot", 0, ""))
		r.send(askFor(ana))
		r.post.tell(failing(delivery.Temporary, "rcpt", 451, "4.7.1")) // and then taken
		r.send(askFor(ana))
		waited(minute)
		for range 60 {
			r.post.tell(failing(delivery.Temporary, "dial", 0, ""))
		}
		a := r.send(askFor(ana)) // put off until its code has run out
		waited(11 * minute)
		if v := r.get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "expired" {
			t.Fatalf("%+v", v.Send)
		}
		r.post.answers = nil
		r.send(askFor(ana))
		r.find()
		r.send(askFor(ana))
		r.hammer(1)
		r.refuse(askFor(ana))
	})
}

// A failure that the limiter could not be told of is told once it is back, as old as it is.
func TestFailureWhileTheLimiterIsAway(t *testing.T) {
	inBubbleWith(t, hammered, func(r *rig) {
		r.hammer(bad - 1)
		memory := *r.limiter.now.Load()
		r.lose()
		r.hammer(1)
		waited(minute)
		r.limiter.set(memory)
		waited(2 * time.Second)
		if d := r.look(""); fmt.Sprint(d.Violated()) != "[failures]" || d.Clock != "process" {
			t.Errorf("%+v", d)
		}
		to := r.rows()[0]
		for window, n := range map[time.Duration]int{122 * time.Second: 0, 123 * time.Second: 1} {
			d, err := memory.Peek(r.Context(), quota.Request{
				Rules:   []quota.Rule{{Scope: quota.Failures, Limit: 1, Window: window}},
				Buckets: map[quota.Scope]string{quota.Failures: failuresBucket(to.App, to.Channel, to.Recipient)},
			})
			if err != nil || d.Rules[0].Used != n {
				t.Errorf("%d within %v, %v", d.Rules[0].Used, window, err)
			}
		}
	})
}

func TestFailuresThatAreOnlyObserved(t *testing.T) {
	observed := func(s *Settings) {
		hammered(s)
		for _, p := range s.Purposes {
			p.Policy.Rules[1].Limit, p.Policy.Rules[1].Observe = 2, true
		}
	}
	inBubbleWith(t, observed, func(r *rig) {
		r.hammer(3)
		r.find() // the log does not decide it either
		r.hammer(1)
		r.sendsObserved(nil, nil, []string{"failures"}, nil)
		if d := r.look(""); !d.Allowed() || len(d.Rules) != 1 {
			t.Errorf("%+v", d)
		}
		r.lose()
		r.hammer(1)
	})
}
