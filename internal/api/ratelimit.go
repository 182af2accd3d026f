package api

import (
	"net/http"
	"strconv"

	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota/quotahttp"
)

// quotaProblem is the 429: everything that a client needs in order to come back at the right moment.
func quotaProblem(a verification.Answer) *server.Problem {
	worst, _ := a.Quota.Blocking()
	h := http.Header{}
	quotahttp.SetRetryAfter(h, a.Quota)
	return &server.Problem{
		Kind: server.QuotaExceeded, Header: h, Extra: quotahttp.Refusal(a.Quota),
		Detail: "The rule " + worst.Name + " has no place left; the next code can be sent in " + strconv.Itoa(quotahttp.Wait(a.Quota)) + " s.",
	}
}
