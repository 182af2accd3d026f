package api

import (
	"net/http"

	"sendcode/internal/http/server"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// quotaProblem returns the 429 of a refused send, with the wait and the rules' states.
func quotaProblem(a verification.Answer) *server.Problem {
	p := refusalProblem(a.Quota, "code can be sent in")
	if worst, _ := a.Quota.Blocking(); worst.Scope == quota.Backoff {
		p.Variant = string(quota.Backoff)
		p.Detail = "The rule " + worst.Name +
			" has no place left: codes to this recipient fail at the moment for a reason of ours, and nothing is wrong with " +
			"the address or number. The next code can be sent in " +
			server.SecondsInWords(quotahttp.RetryAfterSeconds(a.Quota)) + "."
	}
	return p
}

// refusalProblem returns the 429 of a decision. Its detail ends with next and the wait: "the next
// code can be sent in 42 s".
func refusalProblem(d quota.Decision, next string) *server.Problem {
	worst, _ := d.Blocking()
	h := http.Header{}
	quotahttp.SetRetryAfter(h, d)
	return &server.Problem{
		Kind: server.QuotaExceeded, Header: h, Extra: quotahttp.ProblemMembers(d),
		Detail: "The rule " + worst.Name + " has no place left; the next " + next + " " +
			server.SecondsInWords(quotahttp.RetryAfterSeconds(d)) + ".",
	}
}
