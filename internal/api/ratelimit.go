package api

import (
	"net/http"
	"strconv"

	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// quotaProblem is the 429: everything that a client needs in order to come back at the right moment.
func quotaProblem(a verification.Answer) *server.Problem {
	return refusal(a.Quota, server.QuotaExceeded, "code can be sent in")
}

// refusal is the problem of a decision; next says what the wait is for.
func refusal(d quota.Decision, kind server.Kind, next string) *server.Problem {
	worst, _ := d.Blocking()
	h := http.Header{}
	quotahttp.SetRetryAfter(h, d)
	return &server.Problem{
		Kind: kind, Header: h, Extra: quotahttp.ProblemMembers(d),
		Detail: "The rule " + worst.Name + " has no place left; the next " + next + " " + strconv.Itoa(quotahttp.RetryAfterSeconds(d)) + " s.",
	}
}
