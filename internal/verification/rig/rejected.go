package rig

import (
	"fmt"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/store"
	"sendcode/quota"
)

const Bad = 20 // failures in a day

// hammered has room for sends, bounds failures, and gives the purpose login a policy of its own.
func Hammered(s *Settings) {
	for name, p := range s.Purposes {
		p.Policy = quota.Policy{Name: name, Rules: []quota.Rule{
			{Name: "wide", Scope: quota.Recipient, Limit: 1000, Window: time.Hour},
			{Name: "failures", Scope: quota.Failures, Limit: Bad, Window: 24 * time.Hour},
		}}
		p.Shares = []string{name}
		s.Purposes[name] = p
	}
}

var NoSuchUser = Failing(delivery.Rejected, "rcpt", 550, "5.1.1")

// hammer has n sends to ana rejected, a minute apart.
func (r *Rig) Hammer(n int) {
	r.Helper()
	for range n {
		r.Post.Tell(NoSuchUser)
		a := r.Send(AskFor(Ana))
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != "rejected" {
			r.Fatalf("%+v", v.Send)
		}
		Waited(Minute)
	}
}

func (r *Rig) Look(purpose string) quota.Decision {
	r.Helper()
	a, err := r.Svc.Quota(r.Context(), BackEnd, "email", Ana, purpose)
	if err != nil {
		r.Fatal(err)
	}
	return a.Quota
}

// barredFor checks that failures, and nothing else, keep ana out for so long.
func (r *Rig) BarredFor(wait time.Duration) {
	r.Helper()
	for _, purpose := range []string{"default", "login"} {
		ask := AskFor(Ana)
		ask.Purpose = purpose
		d := r.Refuse(ask).Quota
		if fmt.Sprint(d.Violated()) != "[failures]" || d.RetryAfter() != wait || len(d.Rules) != 2 || d.Rules[1].Used < Bad ||
			d.Rules[0].Used != 0 {
			r.Errorf("%s: blocked by %v for %v, want %v: %+v", purpose, d.Violated(), d.RetryAfter(), wait, d.Rules)
		}
		if d := r.Look(purpose); d.RetryAfter() != wait || fmt.Sprint(d.Violated()) != "[failures]" {
			r.Errorf("%s: a look: %+v", purpose, d)
		}
	}
	r.Send(AskFor("bo@example.com"))
}

func (r *Rig) Rebuild() {
	r.Helper()
	if err := r.Svc.Rebuilder.Rebuild(r.Context(), "process"); err != nil {
		r.Fatal(err)
	}
}
