package quotahttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sendcode/quota"
)

// unavailableWait is the Retry-After of a 503.
const unavailableWait = 2 * time.Second

func (c *Config) refuse(w http.ResponseWriter, _ *http.Request, d quota.Decision) {
	members := ProblemMembers(d)
	members["type"], members["title"] = c.ProblemType, ProblemTitle
	members["detail"] = fmt.Sprintf("The rule %s has reached its limit; the next request is admitted after %d s.",
		members["blocked_by"], members["retry_after"])
	writeProblem(w, http.StatusTooManyRequests, members)
}

func answerUnavailable(w http.ResponseWriter, _ *http.Request, _ error) {
	SetRetryAfter(w.Header(), unavailableWait)
	writeProblem(w, http.StatusServiceUnavailable, map[string]any{
		"type": "about:blank", "title": http.StatusText(http.StatusServiceUnavailable),
		"detail": "The limiter is unavailable, so no request is admitted. No limit was exceeded.",
	})
}

func writeProblem(w http.ResponseWriter, status int, members map[string]any) {
	members["status"] = status
	body, _ := json.Marshal(members) // texts and numbers always encode
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that hung up reads nothing
}
