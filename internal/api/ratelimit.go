package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// setRateLimit writes RateLimit-Policy and RateLimit as structured fields (draft-ietf-httpapi-ratelimit-headers-10):
// every rule as a policy, and the one rule that a client has to mind first. No partition key is sent: it could only
// come from the recipient (API-2).
func setRateLimit(h http.Header, d quota.Decision) error {
	if len(d.Rules) == 0 {
		return nil
	}
	var policies httpsfv.List
	for _, s := range d.Rules {
		policies = append(policies, item(s.Name, "q", s.Limit, "w", quota.Seconds(s.Window)))
	}
	next, left := tightest(d)
	limits := httpsfv.List{item(next.Name, "r", next.Remaining(), "t", quota.Seconds(left))}
	for name, list := range map[string]httpsfv.List{"RateLimit-Policy": policies, "RateLimit": limits} {
		text, err := httpsfv.Marshal(list)
		if err != nil {
			return err
		}
		h.Set(name, text)
	}
	return nil
}

// tightest is the rule that blocks longest or, when none does, the one with the least left; and the time until it
// lets more in.
func tightest(d quota.Decision) (quota.State, time.Duration) {
	if s, blocked := d.Blocking(); blocked {
		return s, s.RetryAfter
	}
	least := d.Rules[0]
	for _, s := range d.Rules[1:] {
		if s.Remaining() < least.Remaining() {
			least = s
		}
	}
	return least, least.ResetAfter
}

func item(name, k1 string, v1 int, k2 string, v2 int) httpsfv.Item {
	it := httpsfv.NewItem(name)
	it.Params.Add(k1, int64(v1))
	it.Params.Add(k2, int64(v2))
	return it
}

// quotaProblem is the 429: everything that a client needs in order to come back at the right moment.
func quotaProblem(a verification.Answer) *server.Problem {
	q := quotaOf(a.Quota)
	wait := max(1, q.RetryAfter)
	h := http.Header{"Retry-After": {strconv.Itoa(wait)}}
	return &server.Problem{
		Kind: server.QuotaExceeded, Header: h,
		Detail: "The rule " + q.BlockedBy + " has no place left; the next code can be sent in " + strconv.Itoa(wait) + " s.",
		Extra: map[string]any{
			"blocked_by": q.BlockedBy, "retry_after": wait, "retry_after_ms": max(1, quota.Milliseconds(a.Quota.RetryAfter())),
			"violated-policies": a.Quota.Violated(), "quota": q,
		},
	}
}
