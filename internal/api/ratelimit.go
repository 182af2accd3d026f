package api

import (
	"net/http"

	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// quotaProblem returns the 429 of a refused send, with the wait and the rules' states.
func quotaProblem(a verification.Answer) *server.Problem {
	return refusalProblem(a.Quota, "code can be sent in")
}

// refusalProblem returns the 429 of a decision. Its detail ends with next and the wait: "the next code can be sent in 42 s".
func refusalProblem(d quota.Decision, next string) *server.Problem {
	worst, _ := d.Blocking()
	h := http.Header{}
	quotahttp.SetRetryAfter(h, d)
	return &server.Problem{
		Kind: server.QuotaExceeded, Header: h, Extra: quotahttp.ProblemMembers(d),
		Detail: "The rule " + worst.Name + " has no place left; the next " + next + " " + server.InWords(quotahttp.RetryAfterSeconds(d)) + ".",
	}
}
