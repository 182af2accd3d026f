package rig

import (
	"fmt"
	"time"

	"sendcode/quota"
)

// left is what is told to be left of each rule.
func Left(d quota.Decision) string {
	var all []int
	for _, s := range d.Rules {
		all = append(all, s.Remaining())
	}
	return fmt.Sprint(all)
}

// says fails the test unless so much of each rule is left, and the wait is so long.
func (r *Rig) Says(what string, d quota.Decision, want string, wait time.Duration) {
	r.Helper()
	if Left(d) != want || d.RetryAfter() != wait {
		r.Errorf("%s: %s left, wait %v; want %s, %v", what, Left(d), d.RetryAfter(), want, wait)
	}
}

func (r *Rig) Looked(s *Service) quota.Decision {
	r.Helper()
	a, err := s.Quota(r.Context(), BackEnd, "email", Ana, "")
	if err != nil {
		r.Fatal(err)
	}
	return a.Quota
}

// holds fails the test unless the limiter itself counts so many events of the hour.
func (r *Rig) Holds(when string, want int) {
	r.Helper()
	p := r.Svc.Terms().Purposes["default"]
	h, _ := r.Svc.Desk.Hash("email", Ana)
	d, err := r.Limiter.Peek(r.Context(), quota.Request{Rules: p.Policy.Rules, Buckets: BucketsOf(p, h)})
	if err != nil || d.Rules[1].Used != want {
		r.Errorf("%s: the limiter has %+v, %v; want %d", when, d.Rules, err, want)
	}
}
