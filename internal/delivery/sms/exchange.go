package sms

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/delivery"
)

// request is what goes to a carrier.
type request struct {
	method, url string
	header      http.Header
	body        []byte
}

// answer is what came back, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
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

// exchange makes requests, each on a connection of its own.
type exchange struct {
	client  *http.Client
	timeout time.Duration
}

func newExchange(timeout time.Duration) *exchange {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &exchange{timeout: timeout, client: &http.Client{
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			DisableKeepAlives: true, // see the package's comment
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &counted{Conn: conn}, nil
			},
			TLSHandshakeTimeout: dialTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// counted counts what is given to the socket, before it is: a write that fails may have left in part.
type counted struct {
	net.Conn
	mu      sync.Mutex // not held while writing
	written int64
	sealed  bool
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	c.mu.Lock()
	sealed := c.sealed
	if !sealed {
		c.written += int64(len(b))
	}
	c.mu.Unlock()
	if sealed {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// departure knows whether a byte of the request has left.
type departure struct {
	conn   atomic.Pointer[counted]
	before int64
}

func (d *departure) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		conn := got.Conn
		if secured, ok := conn.(*tls.Conn); ok {
			conn = secured.NetConn()
		}
		if c, ok := conn.(*counted); ok {
			c.mu.Lock()
			d.before = c.written
			c.mu.Unlock()
			d.conn.Store(c)
		}
	}}
}

// left answers for good: from here on nothing leaves, whatever net/http still has in hand of a request that was given up.
func (d *departure) left() bool {
	c := d.conn.Load()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.written > d.before
}

// do makes one request. Any whole answer is returned, whatever it says; Retry-After is for the caller to read.
func (x *exchange) do(ctx context.Context, r request) (answer, *Error) {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	var gone departure
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, gone.trace()), r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, &Error{Class: delivery.Temporary, Stage: StageMessage, Err: errMessage}
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	response, err := x.client.Do(req)
	if err != nil {
		return answer{}, broken(ctx, gone.left(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, broken(ctx, true, err)
	case len(body) > maxAnswer:
		return answer{}, &Error{Class: delivery.Unknown, Stage: StageRequest, Status: response.StatusCode, Err: errTooMuch}
	}
	return answer{response.StatusCode, response.Header, body}, nil
}

// broken is a request without a whole answer.
func broken(ctx context.Context, left bool, err error) *Error {
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

// byStatus is what a status alone says of a message that was not accepted (RFC 9110 section 15). Nothing is read into the
// answer of a server that broke, or of a gateway that did not hear from it: it may have the message.
func byStatus(a answer, code string) *Error {
	e := &Error{Class: delivery.Rejected, Stage: StageAnswer, Status: a.status, Code: code}
	switch {
	case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable:
		e.Class, e.RetryAfter = delivery.Temporary, retryAfter(a.header)
	case a.status >= 500, a.status < 300:
		e.Class = delivery.Unknown
		if a.status < 300 {
			e.Err = errAnswer
		}
	case a.status < 400:
		e.Class, e.Err = delivery.Temporary, errRedirect
	case aboutUs(a.status):
		e.Class = delivery.Temporary
	}
	return e
}

// aboutUs are refusals in which the recipient has no part: our key, our balance, our URL.
func aboutUs(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict:
		return true
	}
	return false
}

// retryAfter reads seconds or a date (RFC 9110 section 10.2.3), at most maxRetryAfter. A date is taken against the answer's
// own Date, so that our clock has no part in it.
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

var plainCode = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// asCode keeps of a carrier's words only what looks like a code and not like a number of a person.
func asCode(text string) string {
	if !plainCode.MatchString(text) || len(text) > 5 && strings.Trim(text, "0123456789") == "" {
		return ""
	}
	return text
}

// asID keeps of a carrier's answer what looks like an identifier.
func asID(text string) string {
	if !plainID.MatchString(text) {
		return ""
	}
	return text
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:^/+=-]{0,127}$`)

// CheckURL wants https, or http to this very machine: codes cross no network in the clear. "" says that all is well.
func CheckURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "is not a URL such as https://sms.example.com/send"
	case u.User != nil:
		return "holds a user name or a password; they have settings of their own"
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	}
	return "must begin with https:// (http:// is for loopback addresses only)"
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
