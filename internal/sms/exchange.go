package sms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/loopback"
)

// Request is what goes to a carrier.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Response is what came back, whole.
type Response struct {
	Status int
	header http.Header
	Body   []byte
}

const (
	dialTimeout = 10 * time.Second
	// defaultTimeout bounds one attempt, whole.
	defaultTimeout = 20 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 10
	// maxRetryAfter bounds what a carrier may ask for: a code does not live longer.
	maxRetryAfter = 10 * time.Minute
)

// Client makes the requests of one carrier, each on a connection of its own.
type Client struct{ Setup }

// NewClient makes the client of a carrier, which embeds it.
func NewClient(s Setup) *Client {
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	return &Client{s}
}

// Name implements Carrier.
func (x *Client) Name() string { return x.Setup.Name }

// departure tells whether a byte of a request has left.
type departure struct {
	mu     sync.Mutex // not held while writing
	begun  bool       // the connection is ready: what is written from now on is the request
	left   bool       // something of it was given to the socket: a write that fails may have left in part
	sealed bool
}

// socket is a connection that tells what is written.
type socket struct {
	net.Conn
	*departure
}

func (d *departure) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return socket{conn, d}, nil
}

// Write implements net.Conn.
func (s socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	sealed := s.sealed
	s.left = s.left || s.begun && !sealed
	s.mu.Unlock()
	if sealed {
		return 0, net.ErrClosed
	}
	return s.Conn.Write(b)
}

// onConnected is called when the connection is ready, TLS included.
func (d *departure) onConnected(httptrace.GotConnInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = true
}

// sealAndReport closes the connection for writing and reports whether a byte of the request has left. The answer stays true, although
// net/http may still be writing a request that was given up.
func (d *departure) sealAndReport() (left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sealed = true
	return d.left
}

// Do makes one request and returns any whole answer. The error says whether the carrier may have the message.
func (x *Client) Do(ctx context.Context, r Request) (Response, *Error) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	var gone departure
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: gone.onConnected})
	req, err := http.NewRequestWithContext(traced, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, &Error{Class: delivery.Temporary, Stage: StageMessage, Err: ErrMessage}
	}
	maps.Copy(req.Header, r.Header)
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: gone.dial, TLSHandshakeTimeout: dialTimeout,
			DisableKeepAlives: true, // see the package's comment
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(req)
	if err != nil {
		return Response{}, transportError(ctx, gone.sealAndReport(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Response{}, transportError(ctx, true, err)
	case len(body) > maxAnswer:
		return Response{}, &Error{Class: delivery.Unknown, Stage: StageRequest, Status: response.StatusCode, Err: errTooMuch}
	}
	return Response{response.StatusCode, response.Header, body}, nil
}

// transportError returns the error of a request without a whole answer: Unknown if a byte of the request has left, else Temporary.
func transportError(ctx context.Context, left bool, err error) *Error {
	e := &Error{Class: delivery.Temporary, Stage: StageDial, Err: errConnect}
	if left {
		e.Class, e.Stage, e.Err = delivery.Unknown, StageRequest, errBroken
	}
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Err = context.Canceled
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		e.Err = os.ErrDeadlineExceeded
	}
	return e
}

// ErrorByStatus returns the error of a message that was not accepted, classed by the HTTP status alone; never nil (RFC 9110
// section 15). Unknown: 2xx, and 5xx but 503, for the gateway may have the message. Temporary: 3xx, 429, 503, and what is wrong with
// our account or URL. Rejected: the rest.
func ErrorByStatus(a Response, code string) *Error {
	e := &Error{Class: delivery.Rejected, Stage: StageAnswer, Status: a.Status, Code: SafeCode(code)}
	switch {
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		e.Class, e.RetryAfter = delivery.Temporary, retryAfter(a.header)
	case a.Status >= 500, a.Status < 300:
		e.Class = delivery.Unknown
		if a.Status < 300 {
			e.Err = ErrAnswer
		}
	case a.Status < 400:
		e.Class, e.Err = delivery.Temporary, errRedirect
	case aboutUs(a.Status):
		e.Class = delivery.Temporary
	}
	return e
}

// aboutUs reports whether a status refuses our key, our balance, our URL or the request as we made it, and not the recipient.
func aboutUs(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict:
		return true
	}
	return false
}

// retryAfter returns the wait in Retry-After, seconds or a date (RFC 9110 section 10.2.3), at most maxRetryAfter; 0 if there is none. A
// date is compared with the answer's own Date, so that our clock does not matter.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(text)
	now, noDate := http.ParseTime(h.Get("Date"))
	if err != nil || noDate != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

var codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// SafeCode returns a carrier's code if it looks like one; "" if it could be a phone number or other text.
func SafeCode(text string) string {
	if !codePattern.MatchString(text) || len(text) > 5 && strings.Trim(text, "0123456789") == "" {
		return ""
	}
	return text
}

// SafeID returns a carrier's ID if it looks like one, else "".
func SafeID(text string) string {
	if !idPattern.MatchString(text) {
		return ""
	}
	return text
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:^/+=-]{0,127}$`)

// URLProblem returns "" for an https URL, or an http URL of this machine, else what is wrong: codes cross no network in the clear.
func URLProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "is not a URL such as https://sms.example.com/send"
	case u.User != nil:
		return "holds a user name or a password; they have settings of their own"
	case u.Scheme == "https", u.Scheme == "http" && loopback.IsHost(u.Hostname()):
		return ""
	}
	return "must begin with https:// (http:// is for loopback addresses only)"
}

// NoteEndpointProblem sets wrong["endpoint"] to the problem with an endpoint, if one is given and anything is.
func NoteEndpointProblem(wrong map[string]error, endpoint string) {
	if problem := URLProblem(endpoint); endpoint != "" && problem != "" {
		wrong["endpoint"] = errors.New(problem)
	}
}

// EscapeURL escapes for paths, queries and forms alike: a space is %20 in all of them.
func EscapeURL(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Attempt makes one request to send a message. read takes from the response the carrier's ID of the message, the carrier's result code,
// and the failure, which is nil if the carrier accepted the message. The receipt has ID and code also if read returns a failure, and is
// empty if no whole response came.
func (x *Client) Attempt(ctx context.Context, r Request, read func(Response) (id, code string, fail *Error)) (Receipt, *Error) {
	a, fail := x.Do(ctx, r)
	if fail != nil {
		return Receipt{}, fail
	}
	id, code, fail := read(a)
	return Receipt{ID: SafeID(id), Code: delivery.FormatReply(a.Status, SafeCode(code))}, fail
}

// BasicAuth returns the header Authorization of RFC 7617 section 2.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Verdict is the meaning of a carrier's code for a message that was not accepted.
type Verdict struct {
	class     delivery.Class
	reason    string
	hold      time.Duration
	badNumber bool
	perNumber bool
}

// The verdicts of the tables.
var (
	VerdictRejected  = Verdict{class: delivery.Rejected}
	VerdictBadNumber = Verdict{class: delivery.Rejected, badNumber: true}
	VerdictTemporary = Verdict{class: delivery.Temporary}
	VerdictPerNumber = Verdict{class: delivery.Temporary, perNumber: true}
	VerdictUnknown   = Verdict{class: delivery.Unknown}
	VerdictOptedOut  = Verdict{class: delivery.Rejected, reason: ReasonOptOut, badNumber: true}
)

// VerdictLimited returns the verdict that the carrier takes no messages for this recipient until hold is over.
func VerdictLimited(hold time.Duration) Verdict {
	return Verdict{class: delivery.Rejected, reason: ReasonLimit, hold: hold}
}

// ErrorByCode returns the error of a message that was not accepted, by its code in the table. A code that is not there is Unknown with a
// status of 5xx other than 503, else VerdictPerNumber.
func ErrorByCode(a Response, code string, table map[string]Verdict) *Error {
	v, known := table[code]
	switch {
	case known:
	case a.Status >= 500 && a.Status != http.StatusServiceUnavailable:
		v = VerdictUnknown
	default:
		v = VerdictPerNumber
	}
	return v.ToError(a, code)
}

// ToError returns the error of a message with this verdict. A temporary one has the wait that the answer asks for; it is not PerNumber if
// the status says that it is about our account or the carrier.
func (v Verdict) ToError(a Response, code string) *Error {
	e := &Error{Class: v.class, Stage: StageAnswer, Status: a.Status, Code: SafeCode(code), Reason: v.reason, Hold: v.hold, BadNumber: v.badNumber}
	if v.class == delivery.Temporary {
		e.RetryAfter = retryAfter(a.header)
		e.PerNumber = v.perNumber && a.Status < 500 && !slices.Contains(statusesOfAccount, a.Status)
	}
	return e
}

// statusesOfAccount refuse all our requests, whatever their number and code.
var statusesOfAccount = []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests}
