package providerhttp

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
)

// maxRetryAfter is the longest wait that a provider may request. A longer wait would not help,
// because no code in a text message lives longer.
const maxRetryAfter = 10 * time.Minute

// statusRow has the meaning of a provider's HTTP status.
type statusRow struct {
	from, to int
	class    delivery.ErrorClass
	about    delivery.About
	// forAll is true if the status concerns all messages. This holds even if the provider's code in
	// the same answer may concern one recipient. If forAll is false, the status may concern only
	// one message. For example, 404 may mean that a number has no route.
	forAll bool
	err    error
}

// statuses has a row for every status (RFC 9110 section 15). The first row that matches is used.
var statuses = []statusRow{
	// This row is for 2xx answers without the words by which the provider says that it accepted the
	// message. Such an answer may come from a proxy or from the provider itself.
	{200, 299, delivery.Unknown, delivery.AboutServer, false, ErrUnreadableAnswer},
	{303, 303, delivery.Unknown, delivery.AboutServer, false, errRedirect}, // section 15.4.4: it leads to the answer to the request
	{300, 399, delivery.Temporary, delivery.AboutServer, false, errRedirect},
	{401, 401, delivery.Temporary, delivery.AboutAccount, true, nil},  // our key
	{402, 402, delivery.Temporary, delivery.AboutAccount, true, nil},  // our balance
	{403, 403, delivery.Temporary, delivery.AboutAccount, true, nil},  // the rights of our key
	{404, 405, delivery.Temporary, delivery.AboutAccount, false, nil}, // our URL
	{407, 407, delivery.Temporary, delivery.AboutAccount, true, nil},  // our proxy
	{408, 408, delivery.Temporary, delivery.AboutAccount, false, nil}, // the request came too slowly, and was not accepted
	{409, 409, delivery.Temporary, delivery.AboutAccount, false, nil}, // our request conflicts with another of our requests
	{429, 429, delivery.Temporary, delivery.AboutPace, true, nil},     // RFC 6585 section 4: too many requests; the provider itself works
	{503, 503, delivery.Temporary, delivery.AboutServer, true, nil},   // the request was refused before it was accepted
	{500, 599, delivery.Unknown, delivery.AboutServer, true, nil},     // perhaps the request was accepted before the failure
	{400, 499, delivery.Rejected, delivery.AboutMessage, false, nil},  // the content of the request: 400, 413, 422
	{0, 999, delivery.Unknown, delivery.AboutServer, false, ErrUnreadableAnswer},
}

func rowOfStatus(status int) statusRow {
	return statuses[slices.IndexFunc(statuses, func(r statusRow) bool { return r.from <= status && status <= r.to })]
}

// IsProviderFault reports whether this status means that the provider failed. If so, the provider's
// code also says nothing about the message.
func IsProviderFault(status int) bool {
	row := rowOfStatus(status)
	return row.class == delivery.Unknown && row.forAll
}

// ErrorByStatus returns the error of a message that the provider did not accept. Only the HTTP
// status determines the class of the error. ErrorByStatus never returns nil.
func ErrorByStatus(a Response, code string) *delivery.Error {
	row := rowOfStatus(a.Status)
	e := Meaning{Class: row.class, About: row.about}.ToError(a, code)
	e.Err = row.err
	return e
}

// Meaning is the meaning of a provider's code for a message that was not accepted.
type Meaning struct {
	Class     delivery.ErrorClass
	About     delivery.About
	Reason    string        // Error.Reason
	Hold      time.Duration // Error.Hold
	Elsewhere bool          // Error.Elsewhere
}

// ToError returns the error of a message with this meaning. A Temporary error also has the wait in
// the answer's header Retry-After. If the status concerns all messages (forAll), a Temporary error
// has the About of the status instead of the About of the meaning.
func (m Meaning) ToError(a Response, code string) *delivery.Error {
	e := &delivery.Error{
		Class: m.Class, Stage: delivery.StageAnswer, Status: a.Status, Code: SafeErrorCode(code),
		About: m.About, Reason: m.Reason, Hold: m.Hold, Elsewhere: m.Elsewhere,
	}
	if m.Class == delivery.Temporary {
		e.RetryAfter = RetryAfter(a)
		if row := rowOfStatus(a.Status); row.forAll {
			e.About = row.about
		}
	}
	return e
}

// RetryAfter returns the wait in the header Retry-After, at most ten minutes. It returns 0 if there
// is no such header.
func RetryAfter(a Response) time.Duration { return RetryAfterIn(a.Header, maxRetryAfter) }

// RetryAfterIn returns the wait in the header Retry-After, or maxWait if that is shorter. It
// returns 0 if there is no such header, or if it cannot be read. The header has seconds or a date
// (RFC 9110 section 10.2.3). A date is compared with the response's own header Date, so that this
// machine's clock does not matter. Both dates are whole seconds, and Date is rounded down, so the
// wait never ends too early.
func RetryAfterIn(h http.Header, maxWait time.Duration) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	now, noDate := http.ParseTime(h.Get("Date"))
	if err != nil || noDate != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxWait)
}

var (
	errorCodePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)
	providerIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:^/+=-]{0,127}$`)
)

// SafeErrorCode returns text if the text looks like a provider's error code. It returns "" if the
// text could be a phone number or other text.
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
