package outbox_test

import (
	"testing"
	"time"

	"sendcode/internal/policy"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// A failure is as old on the limiter's clock as it is on this process's, also where the two differ by an hour.
func TestFailuresAreRecordedOnTheLimitersClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
			memory := quota.NewMemory(func() time.Time { return time.Now().Add(off) }, "redis")
			r.Limiter.Set(memory)
			r.FailSends(1) // a minute passes
			rule := quota.Rule{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 24 * time.Hour}
			d, err := memory.Peek(r.Context(), quota.Request{
				Rules: []quota.Rule{rule}, Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email",
					r.Person().Recipient)},
			})
			r.NoError(err)
			if got := d.Rules[0]; got.Used != 1 || got.ResetAfter != 24*time.Hour-time.Minute {
				t.Errorf("%v: %d failures, the oldest counts for %v", off, got.Used, got.ResetAfter)
			}
		})
	}
}

// failures is how many failed sends to ana the limiter counts.
func failures(r *vtest.Rig) int {
	r.Helper()
	d, err := r.Limiter.Peek(r.Context(), quota.Request{
		Rules:   []quota.Rule{{Name: "failures", Scope: quota.Failures, Limit: 1, Window: 24 * time.Hour}},
		Buckets: map[quota.Scope]string{quota.Failures: policy.FailuresBucket("shop", "email", r.Person().Recipient)},
	})
	r.NoError(err)
	return d.Rules[0].Used
}
