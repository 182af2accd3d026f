package rig

import (
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/verification"
)

const Month = 30 * 24 * time.Hour

// barring has bounces suppress, and room for sends.
func Barring(s *Settings) {
	Hammered(s)
	s.SuppressFor = Month
	s.Apps["default"] = policy.App{}
}

// fails asks, waits for the outcome, and checks that it is failed for this reason, its place given back.
func (r *Rig) Fails(to, reason string) verification.Answer {
	r.Helper()
	ask := AskFor(to)
	ask.Wait = time.Second
	a := r.Send(ask)
	if s := a.View.Send; s.Status != store.Failed || s.Reason != reason {
		r.Fatalf("%s: %s, %s; wanted failed, %s", to, s.Status, s.Reason, reason)
	}
	if a.Quota.Rules[0].Used != 0 {
		r.Errorf("%s: it cost a place: %+v", to, a.Quota.Rules)
	}
	return a
}

func (r *Rig) Suppressions() []store.Suppression {
	r.Helper()
	list, _, err := r.Store.Suppressions(r.Context(), store.SuppressionFilter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	return list
}

func (r *Rig) Bar(to string, lasts time.Duration) store.Suppression {
	r.Helper()
	s, err := r.Svc.Desk.Suppress(r.Context(), support.SuppressRequest{Channel: "email", To: to, Why: "asked by telephone", For: lasts,
		By: "ops"})
	if err != nil {
		r.Fatal(err)
	}
	return s
}
