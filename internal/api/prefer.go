package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/server"
	"sendcode/internal/verification"
)

// preferredWait returns the wait of "Prefer: wait=N" (RFC 7240, section 4.3), N seconds but at most MaxWait; 0 without this preference.
// Error: *verification.InvalidError.
func preferredWait(h http.Header) (time.Duration, error) {
	for _, header := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || n < 0 {
				return 0, &verification.InvalidError{Field: "prefer", Reason: "invalid", Detail: "The preference wait is a number of seconds."}
			}
			return min(time.Duration(min(n, 3600))*time.Second, verification.MaxWait), nil
		}
	}
	return 0, nil
}

// deliveryProblem returns the 502 for a caller who waited for a send that failed for good.
func deliveryProblem(a verification.Answer, kind verification.Kind) *server.Problem {
	v, detail := toVerificationJSON(a, kind), "The message was refused for good or not sent at all; it did not count."
	if v.Send.Counts {
		detail = "The message was refused for good or not sent at all; it counts."
	}
	return &server.Problem{
		Kind: server.DeliveryFailed, Detail: detail,
		Extra: map[string]any{"id": v.ID, "send": v.Send, "quota": v.Quota},
	}
}
