package exchange

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
)

// maxRetryAfter bounds the wait for which a provider may ask: a code of ours in a text message does
// not live longer.
const maxRetryAfter = 10 * time.Minute

// ErrorByStatus returns the error of a message that the provider did not accept, with a class by
// the HTTP status alone (RFC 9110 section 15); never nil. Unknown: 2xx, and 5xx except 503, since
// the provider may have the message. Temporary: 3xx, 429, 503, and the statuses that refuse our
// account, our URL or our request. Rejected: all other statuses.
func ErrorByStatus(a Response, code string) *delivery.Error {
	e := &delivery.Error{Class: delivery.Rejected, Stage: delivery.StageAnswer, Status: a.Status, Code: SafeErrorCode(code)}
	switch {
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		e.Class, e.RetryAfter = delivery.Temporary, RetryAfter(a)
	case a.Status >= 500, a.Status < 300:
		e.Class = delivery.Unknown
		if a.Status < 300 {
			e.Err = ErrUnreadableAnswer
		}
	case a.Status < 400:
		e.Class, e.Err = delivery.Temporary, errRedirect
	case isOurFault(a.Status):
		e.Class = delivery.Temporary
	}
	return e
}

// isOurFault reports whether a status refuses our key, balance or URL, or the form of our request,
// and not the recipient.
func isOurFault(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict:
		return true
	}
	return false
}

// RetryAfter returns the wait in the header Retry-After, at most ten minutes; 0 if there is none.
func RetryAfter(a Response) time.Duration { return RetryAfterIn(a.Header, maxRetryAfter) }

// RetryAfterIn returns the wait in the header Retry-After, which has seconds or a date (RFC 9110 section 10.2.3); 0 if
// there is none. A date is compared with the response's own Date, so that our clock does not matter.
func RetryAfterIn(h http.Header, most time.Duration) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	now, noDate := http.ParseTime(h.Get("Date"))
	if err != nil || noDate != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), most)
}

var (
	errorCodePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)
	providerIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:^/+=-]{0,127}$`)
)

// SafeErrorCode returns text if it looks like a provider's error code; "" if it could be a phone
// number or other text.
func SafeErrorCode(text string) string {
	if !errorCodePattern.MatchString(text) || len(text) > 5 && strings.Trim(text, "0123456789") == "" {
		return ""
	}
	return text
}

// SafeIDOrEmpty returns text if it looks like a provider's ID, else "".
func SafeIDOrEmpty(text string) string {
	if !providerIDPattern.MatchString(text) {
		return ""
	}
	return text
}
