package api

import (
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// A refusal names the rule and the wait. If the rule has the scope of backoff, the refusal also
// says that nothing is wrong with the recipient. The name of the rule does not matter for this.
func TestQuotaProblemDetail(t *testing.T) {
	for scope, want := range map[quota.Scope][2]string{
		quota.Recipient:      {"", "The rule backoff has no place left; the next code can be sent in 42 s."},
		policy.FailuresScope: {"", "The rule backoff has no place left; the next code can be sent in 42 s."},
		policy.BackoffScope: {
			"backoff",
			"The rule backoff has no place left: codes to this recipient fail at the moment for a reason of ours, and nothing is wrong " +
				"with the address or number. The next code can be sent in 42 s.",
		},
	} {
		p := quotaProblem(verification.Answer{Quota: quota.Decision{Rules: []quota.State{
			{Rule: quota.Rule{Name: "backoff", Scope: scope, Limit: 1, Window: time.Hour}, Used: 1, RetryAfter: 42 * time.Second},
		}}})
		if got := [2]string{p.Variant, p.InEnglish()}; got != want {
			t.Errorf("%s: %q, want %q", scope, got, want)
		}
	}
}
