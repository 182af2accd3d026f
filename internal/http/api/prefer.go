package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/server"
	"sendcode/internal/verify/verification"
)

// preferredWait returns the wait of the header "Prefer: wait=N" (RFC 7240, section 4.3). The wait
// is N seconds, but not longer than maxWait. Without this preference, the result is 0. The error is
// a *fault.InvalidError.
func preferredWait(h http.Header, maxWait time.Duration) (time.Duration, error) {
	for _, header := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || n < 0 {
				return 0, fault.Invalid("prefer", "invalid", "The preference wait is a number of seconds.")
			}
			return min(time.Duration(min(n, 3600))*time.Second, maxWait), nil
		}
	}
	return 0, nil
}

// allowWait lets a request wait for longer than the server's timeout for an answer allows.
func allowWait(c echo.Context, wait time.Duration) {
	if wait > 0 {
		server.SetAnswerTime(c, wait+10*time.Second)
	}
}

// setPreferenceApplied sets the header Preference-Applied to the wait that was applied (RFC 7240,
// section 3). If the wait is 0, it sets no header.
func setPreferenceApplied(h http.Header, wait time.Duration) {
	if wait > 0 {
		h.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
}

// deliveryFailedProblem returns the 502 answer for a send that failed for good while its caller
// waited.
func deliveryFailedProblem(a verification.Answer, kind verification.CallerKind) *server.Problem {
	v, detail := toVerificationJSON(a, kind), "The message was refused for good or not sent at all; it did not count."
	if v.Send.Counts {
		detail = "The message was refused for good or not sent at all; it counts."
	}
	return &server.Problem{
		Kind: server.DeliveryFailed, Detail: detail,
		Extra: map[string]any{"id": v.ID, "send": v.Send, "quota": v.Quota},
	}
}
