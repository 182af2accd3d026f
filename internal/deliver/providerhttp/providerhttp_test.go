package providerhttp

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// Only bytes after the connection was ready are the request's, and none leaves once it was given
// up.
func TestDeparture(t *testing.T) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	defer func() { _ = near.Close() }()
	for _, written := range []bool{false, true} {
		var d writeTracker
		conn := trackedConn{near, &d}
		if _, err := conn.Write([]byte("handshake")); err != nil {
			t.Fatal(err)
		}
		d.onConnected(httptrace.GotConnInfo{})
		if written {
			_, _ = conn.Write([]byte("P"))
		}
		if d.stopAndReportSent() != written {
			t.Errorf("left: %v", !written)
		}
		if _, err := conn.Write([]byte("OST")); err == nil || d.stopAndReportSent() != written {
			t.Error("the rest left after that")
		}
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

func TestWhatIsKeptOfTheirWords(t *testing.T) {
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
