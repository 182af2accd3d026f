package api

import (
	"sendcode/internal/http/server"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// quotaProblem returns the 429 of a refused send, with the wait and the rules' states.
func quotaProblem(a verification.Answer) *server.Problem {
	p := refusalProblem(a.Quota, "The rule {blocked_by} has no place left; the next code can be sent in {wait}.")
	if worst, _ := a.Quota.Blocking(); worst.Scope == quota.Backoff {
		p.Variant = string(quota.Backoff)
		p.Detail = "The rule {blocked_by} has no place left: codes to this recipient fail at the moment for a reason of ours, " +
			"and nothing is wrong with the address or number. The next code can be sent in {wait}."
	}
	return p
}

// refusalProblem returns the 429 of a decision.
func refusalProblem(d quota.Decision, detail string) *server.Problem {
	return &server.Problem{Kind: server.QuotaExceeded, Detail: detail, Wait: d.RetryAfter(), Extra: quotahttp.ProblemMembers(d)}
}
