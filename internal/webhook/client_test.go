package webhook

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/dns/dnsmessage"

	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

var loopback = Guard{Allow: prefixes("127.0.0.0/8")}

var someEvent = store.AppEvent{
	ID: uuid.UUID{1}, App: "shop", Type: "send.failed", SendID: uuid.UUID{2}, VerificationID: "v-1", Status: "failed", Reason: "rejected",
	At: time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC), Channel: "email", Purpose: "login", To: "a•••@example.com", Reference: "order 7",
}

// names is a resolver for which every name leads to the next of the addresses; the last one stays.
func names(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	var asked atomic.Int32
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for buf := make([]byte, 1500); ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response = true
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				i := min(int(asked.Add(1)), len(addresses)) - 1
				a := netip.MustParseAddr(addresses[i]).As4()
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: &dnsmessage.AResource{A: a},
				}}
			}
			m.Additionals = nil
			if reply, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", server.LocalAddr().String())
	}}
}

func TestPostSignsAndTellsNoMoreThanItMay(t *testing.T) {
	now := time.Unix(1900000000, 0)
	secrets := [][]byte{[]byte("the first secret of 24 bytes"), []byte("the other secret of 24 bytes")}
	var header http.Header
	var body []byte
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/hooks?of=shop" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(hook.Close)
	c := newClient(loopback, func() time.Time { return now }, world{})
	heard := c.post(t.Context(), Receiver{URL: hook.URL + "/hooks?of=shop", Secrets: secrets}, someEvent)
	if want := (answer{word: "204", ok: true}); heard != want {
		t.Errorf("%+v", heard)
	}
	if header.Get("webhook-id") != someEvent.ID.String() || header.Get("webhook-timestamp") != "1900000000" ||
		header.Get("webhook-signature") != sign(secrets, someEvent.ID.String(), now, body) || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", header)
	}
	const want = `{"type":"send.failed","timestamp":"2030-03-01T12:00:00.123Z","data":{"verification_id":"v-1",` +
		`"send_id":"02000000-0000-0000-0000-000000000000","app":"shop","channel":"email","purpose":"login","to":"a•••@example.com",` +
		`"status":"failed","reason":"rejected","reference":"order 7","test":false}}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
	bare, err := bodyOf(store.AppEvent{Type: "verification.approved", Status: "approved", Test: true})
	var p struct{ Data map[string]any }
	if err != nil || json.Unmarshal(bare, &p) != nil {
		t.Fatal(err)
	}
	if d := p.Data; d["send_id"] != nil || d["reason"] != nil || d["reference"] != nil || d["test"] != true || len(d) != 10 {
		t.Errorf("%s", bare)
	}
}

// Receivers that misbehave: each gets its word, and nothing else happens.
func TestPostMisbehavingReceivers(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
		}
	}
	at := time.Unix(1900000000, 0)
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  answer
	}{
		"200":           {status(200), answer{word: "200", ok: true}},
		"299":           {status(299), answer{word: "299", ok: true}},
		"400":           {status(400), answer{word: "400"}},
		"410":           {status(410), answer{word: "410", gone: true}},
		"500":           {status(500), answer{word: "500"}},
		"redirect":      {status(302, "Location", other.URL), answer{word: "302"}},
		"redirect, 307": {status(307, "Location", other.URL), answer{word: "307"}},
		"wait, seconds": {status(503, "Retry-After", " 120 "), answer{word: "503", after: 2 * time.Minute}},
		"wait, a date": {status(429, "Retry-After", at.Add(time.Minute).UTC().Format(http.TimeFormat)),
			answer{word: "429", after: time.Minute}},
		"wait for ever":  {status(503, "Retry-After", "99999999999"), answer{word: "503", after: time.Hour}},
		"wait, past":     {status(503, "Retry-After", "-5"), answer{word: "503"}},
		"wait, nonsense": {status(503, "Retry-After", "soon"), answer{word: "503"}},
		"closes":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, answer{word: "no answer"}},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n")
			_ = conn.Close()
		}, answer{word: "no answer"}},
		"long headers": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for range 100 {
				_, _ = fmt.Fprintf(conn, "X-A: %s\r\n", strings.Repeat("a", 1000))
			}
			_, _ = io.WriteString(conn, "Content-Length: 0\r\n\r\n")
			_ = conn.Close()
		}, answer{word: "no answer"}},
		"endless body": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := make([]byte, 64<<10)
			for n := 0; ; n += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
				if n > 64<<20 {
					t.Error("read on and on")
					return
				}
			}
		}, answer{word: "200", ok: true}},
		"silence": {func(http.ResponseWriter, *http.Request) { <-release }, answer{word: "timeout"}},
		"silence after the status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-release
		}, answer{word: "200", ok: true}},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(c.serve)
			t.Cleanup(hook.CloseClientConnections)
			client := newClient(loopback, func() time.Time { return at }, world{})
			if strings.HasPrefix(name, "silence") {
				client.timeout = 300 * time.Millisecond
			}
			servertest.Same(t, "answer", client.post(t.Context(), Receiver{URL: hook.URL}, someEvent), c.want)
		})
	}
	servertest.Same(t, "redirects were followed", elsewhere.Load(), 0)
}

// Where a name leads is looked at when it is dialled, at each attempt: what led outside before gains nothing, and neither
// does a name that leads to both. A proxy is never asked: it would resolve names itself, where no guard stands.
func TestPostGuardsWhatItDials(t *testing.T) {
	var hits, proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	plain, encrypted := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	roots := x509.NewCertPool()
	roots.AddCert(encrypted.Certificate())
	port := func(s *httptest.Server) string { return s.URL[strings.LastIndex(s.URL, ":"):] }
	for _, c := range []struct {
		name      string
		guard     Guard
		url       string
		addresses []string
		want      string
	}{
		{"loopback by its address", Guard{}, encrypted.URL, nil, "forbidden address"},
		{"loopback in the clear", Guard{}, plain.URL, nil, "forbidden address"},
		{"loopback as one number", Guard{}, "https://2130706433" + port(encrypted), []string{"127.0.0.1"}, "unknown host"},
		{"loopback mapped into IPv6", Guard{}, "https://[::ffff:127.0.0.1]" + port(encrypted), nil, "forbidden address"},
		{"a name that leads inside", Guard{}, "https://hook.example" + port(encrypted), []string{"127.0.0.1"}, "forbidden address"},
		{"a name that leads to metadata, all allowed", Guard{Allow: prefixes("0.0.0.0/1", "128.0.0.0/1")}, "http://hook.example",
			[]string{"169.254.169.254"}, "forbidden address"},
		{"allowed, but another certificate", loopback, "https://hook.other" + port(encrypted), []string{"127.0.0.1"}, "bad certificate"},
		{"allowed, TLS where there is none", loopback, "https://hook.example" + port(plain), []string{"127.0.0.1"}, "no TLS"},
		{"another protocol", loopback, "ftp://hook.example/", nil, "no answer"},
		{"no address", loopback, "http://\x7f", nil, "bad address"},
		{"nothing", loopback, "", nil, "no answer"},
		{"allowed", loopback, "https://example.com" + port(encrypted), []string{"127.0.0.1"}, "200"},
		{"allowed, in the clear", loopback, "http://hook.example" + port(plain), []string{"127.0.0.1"}, "200"},
	} {
		hits.Store(0)
		w := world{roots: roots}
		if c.addresses != nil {
			w.resolver = names(t, c.addresses...)
		}
		client := newClient(c.guard, time.Now, w)
		got := client.post(t.Context(), Receiver{URL: c.url}, someEvent)
		if got.word != c.want || (hits.Load() > 0) != (c.want == "200") {
			t.Errorf("%s: %q, %d requests", c.name, got.word, hits.Load())
		}
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := newClient(loopback, time.Now, world{}).post(gone, Receiver{URL: plain.URL}, someEvent); got.word != "canceled" {
		t.Errorf("canceled: %+v", got)
	}

	// First to where it may go, then inside.
	client := newClient(Guard{Allow: prefixes("127.0.0.1/32")}, time.Now, world{resolver: names(t, "127.0.0.1", "127.0.0.2")})
	client.Transport.(*http.Transport).DisableKeepAlives = true
	to := Receiver{URL: "http://hook.example" + port(plain)}
	for _, want := range []string{"200", "forbidden address", "forbidden address"} {
		if got := client.post(t.Context(), to, someEvent); got.word != want {
			t.Errorf("rebound: %q, want %q", got.word, want)
		}
	}
	servertest.Same(t, "requests to the proxy", proxied.Load(), 0)
}

// The vector that the specification's reference libraries are tested with (libraries/go/webhook_test.go, TestWebhookSign).
func TestSignAgainstThePublishedVector(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at, body := time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`)
	servertest.Same(t, "signature", sign([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body), want)
	// While secrets are exchanged: one signature each, the first secret's first.
	both := strings.Split(sign([][]byte{secret, []byte("another secret of 24 bytes")}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body), " ")
	if len(both) != 2 || both[0] != want || both[1] == want || !strings.HasPrefix(both[1], "v1,") {
		t.Errorf("%q", both)
	}
}
