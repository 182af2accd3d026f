package providerhttp

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Only bytes written after the connection was ready belong to the request, and no byte leaves after
// the request was given up. The next request on the connection is tracked separately.
func TestWriteTrackerCountsTheRequestAlone(t *testing.T) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	defer func() { _ = near.Close() }()
	conn := &trackedConn{Conn: near}
	write := func(text string) error {
		_, err := conn.Write([]byte(text))
		return err
	}
	if err := write("handshake"); err != nil {
		t.Fatal(err)
	}
	for _, written := range []bool{false, true} {
		var d writeTracker
		d.onConnected(httptrace.GotConnInfo{Conn: tls.Client(conn, nil)})
		if written && write("P") != nil || d.stopAndReportSent() != written {
			t.Errorf("left: %v", !written)
		}
		if write("OST") == nil || d.stopAndReportSent() != written {
			t.Error("the rest left after that")
		}
	}
}

// provider is a server that counts its connections and the requests that it has read. It can abort
// a connection in place of an answer.
type provider struct {
	*httptest.Server
	opened, read atomic.Int32
	hangUp       atomic.Bool // abort each connection after its next request was read
}

func newProvider(t *testing.T) *provider {
	p := &provider{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if p.read.Add(1); p.hangUp.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	p.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.opened.Add(1)
		}
	}
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// The requests to a provider share connections. If a kept connection breaks after a request was
// read, the outcome of the request is unknown, and it is never repeated.
func TestClientDoOnKeptConns(t *testing.T) {
	for name, r := range map[string]Request{
		"POST": {Method: http.MethodPost, Body: []byte("{}")}, "GET": {Method: http.MethodGet},
		"empty": {Method: http.MethodPost}, "with a key": {Method: http.MethodPost, Body: []byte("{}"), Header: http.Header{"Idempotency-Key": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			r.URL = p.URL
			const noError = delivery.ErrorClass("")
			var c Client
			ask := func(class delivery.ErrorClass, opened, read int32) {
				t.Helper()
				var got delivery.ErrorClass
				if _, err := c.Do(t.Context(), r); err != nil {
					got = err.Class
				}
				if got != class || p.opened.Load() != opened || p.read.Load() != read {
					t.Errorf("%q, %d connections, %d requests; want %q, %d, %d", got, p.opened.Load(), p.read.Load(), class, opened, read)
				}
			}
			ask(noError, 1, 1)
			ask(noError, 1, 2)
			p.hangUp.Store(true)
			ask(delivery.Unknown, 1, 3)
			p.hangUp.Store(false)
			ask(noError, 2, 4)
		})
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "1.5": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		"Fri, 20 Nov 2026 13:00:09 GMT": 9 * time.Second, "Fri, 20 Nov 2026 12:00:00 GMT": 0,
		"Fri, 20 Nov 2030 12:00:00 GMT": maxRetryAfter,
	} {
		if got := RetryAfter(Response{Header: http.Header{"Date": {"Fri, 20 Nov 2026 13:00:00 GMT"}, "Retry-After": {text}}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSafeErrorCodeAndID(t *testing.T) {
	for text, want := range map[string]string{
		"isv.MOBILE_NUMBER_ILLEGAL": "isv.MOBILE_NUMBER_ILLEGAL", "21211": "21211", "739154": "", "8613812345678": "",
		"a b": "", "": "",
		"+49": "", "x\n": "",
	} {
		if got := SafeErrorCode(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if SafeIDOrEmpty("900619746936498440^0") == "" || SafeIDOrEmpty("a b") != "" || SafeIDOrEmpty(strings.Repeat("x", 129)) != "" {
		t.Error("identifiers")
	}
}
