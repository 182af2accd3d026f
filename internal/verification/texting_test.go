package verification_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/verification/rig"
	"sendcode/quota"
)

// Numbers that differ in their last four digits alone share a prefix; what the limiter's buckets are called tells nothing of it.
func TestRulesOnPrefixes(t *testing.T) {
	change := func(s *rig.Settings) {
		rig.ToNumbers("DE", "US")(s)
		p := s.Purposes["default"]
		p.Policy.Rules = append(slices.Clone(p.Policy.Rules), quota.Rule{Name: "range", Scope: quota.Prefix, Limit: 2, Window: time.Hour})
		s.Purposes["default"] = p
	}
	rig.InBubbleWith(t, change, func(r *rig.Rig) {
		first := r.Send(rig.TextTo("+4915123450000"))
		r.Send(rig.TextTo("+4915123459999"))
		refused := r.Refuse(rig.TextTo("+4915123455555"))
		if worst, _ := refused.Quota.Blocking(); worst.Name != "range" || worst.RetryAfter != time.Hour {
			r.Errorf("%+v", worst)
		}
		r.Send(rig.TextTo("+4915123460000"))
		r.Send(rig.TextTo(rig.American))
		for n := range 4 {
			r.Send(rig.AskFor(fmt.Sprintf("person%d@example.com", n)))
		}
		looked, err := r.Svc.Get(r.Context(), rig.BackEnd, first.View.ID)
		if i := slices.IndexFunc(looked.Quota.Rules, func(s quota.State) bool { return s.Name == "range" }); err != nil || i < 0 || looked.Quota.Rules[i].Used != 2 {
			r.Errorf("%+v, %v", looked.Quota, err)
		}
		a, err := r.Svc.Understand(r.Context(), rig.TextTo("+4915123450000"))
		if err != nil || strings.Contains(a.Subject().Buckets()[quota.Prefix], "1512345") {
			r.Errorf("%v: a bucket names %q", err, a.Subject().Buckets()[quota.Prefix])
		}
	})
}
