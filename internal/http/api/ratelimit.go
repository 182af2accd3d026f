package api

import (
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/server"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// quotaProblem returns the 429 of a refused send, with the wait and the rules' states.
func quotaProblem(a verification.Answer) *server.Problem {
	p := refusalProblem(a.Quota, "The rule {blocked_by} has no place left; the next code can be sent in {wait}.")
	if a.AsksNext {
		p.Extra["quota"] = toQuotaJSON(a)
	}
	if blocking, _ := a.Quota.Blocking(); blocking.Scope == policy.BackoffScope {
		p.Variant = string(policy.BackoffScope)
		p.Detail = "The rule {blocked_by} has no place left: codes to this recipient fail at the moment for a reason of ours, " +
			"and nothing is wrong with the address or number. The next code can be sent in {wait}."
	}
	return p
}

// humanCheckProblem returns the problem for a send that needs a passed human check. The status is
// 428, or 422 if the token in the request did not pass. The problem describes the required check.
// If a rule also refuses the send, the problem has the members of a 429 as well. A page that cannot
// do the check shows the wait in these members.
func humanCheckProblem(a verification.Answer) *server.Problem {
	p := &server.Problem{Extra: map[string]any{}}
	if a.Quota.RetryAfter() > 0 {
		p = quotaProblem(a)
		p.Variant, p.Detail = "", ""
	}
	p.Kind, p.Extra["human_check"] = server.HumanCheck, a.HumanCheck
	if a.CheckFailed != "" {
		p.Kind, p.Extra["reason"] = server.HumanCheckFailed, string(a.CheckFailed)
	}
	return p
}

// refusalProblem returns the 429 of a decision.
func refusalProblem(d quota.Decision, detail string) *server.Problem {
	return &server.Problem{Kind: server.QuotaExceeded, Detail: detail, Wait: d.RetryAfter(), Extra: quotahttp.ProblemMembers(d)}
}
