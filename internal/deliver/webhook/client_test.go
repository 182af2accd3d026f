package webhook

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/dns/dnsmessage"

	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

var loopback = Guard{AlsoAllow: mustParsePrefixes("127.0.0.0/8")}

var someEvent = store.AppEvent{
	ID: uuid.UUID{1}, App: "shop", Type: "send.failed", SendID: uuid.UUID{2}, VerificationID: "v-1", Status: "failed",
	Reason: "rejected",
	At:     time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC), Channel: "email", Purpose: "login",
	To: "a•••@example.com", Reference: "order 7",
}

// names returns a resolver. Each of its lookups returns the next element of addresses, which has
// IPv4 addresses with spaces between them. After the last element, the lookups return that one
// again.
func names(addresses ...string) *net.Resolver {
	var asked atomic.Int32
	answer := func(conn net.Conn) {
		defer conn.Close()
		buf := make([]byte, 1500)
		n, err := conn.Read(buf)
		var m dnsmessage.Message
		if err != nil || m.Unpack(buf[2:n]) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			for _, a := range strings.Fields(addresses[min(int(asked.Add(1)), len(addresses))-1]) {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
		if reply, err := m.AppendPack(make([]byte, 2)); err == nil {
			binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
			_, _ = conn.Write(reply)
		}
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		// Messages over the pipe begin with their length, as over TCP (RFC 1035 section 4.2.2).
		client, server := net.Pipe()
		go answer(server)
		return client, nil
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
	c := newClient(loopback, func() time.Time { return now }, dialSettings{})
	got := c.postEvent(t.Context(), Endpoint{URL: hook.URL + "/hooks?of=shop", Secrets: secrets}, someEvent)
	if want := (attemptResult{word: "204", ok: true}); got != want {
		t.Errorf("%+v", got)
	}
	if header.Get("webhook-id") != someEvent.ID.String() || header.Get("webhook-timestamp") != "1900000000" ||
		header.Get("webhook-signature") != standardwebhooks.Sign(secrets, someEvent.ID.String(), now, body) ||
		header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", header)
	}
	const want = `{"type":"send.failed","timestamp":"2030-03-01T12:00:00.123Z","data":{"verification_id":"v-1",` +
		`"send_id":"02000000-0000-0000-0000-000000000000","app":"shop","channel":"email","purpose":"login","to":"a•••@example.com",` +
		`"status":"failed","reason":"rejected","reference":"order 7","test":false}}`
	servertest.Same(t, "the body", string(body), want)
	bare, err := marshalEvent(store.AppEvent{Type: "verification.approved", Status: "approved", Test: true})
	if err != nil || !strings.Contains(string(bare), `"send_id":null`) ||
		!strings.HasSuffix(string(bare), `"reason":null,"reference":null,"test":true}}`) {
		t.Errorf("%s, %v", bare, err)
	}
}

// Each receiver misbehaves in its own way. postEvent returns the right word for each, and follows
// no redirect.
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
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
	at := time.Unix(1900000000, 0)
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  attemptResult
	}{
		"200":           {status(200), attemptResult{word: "200", ok: true}},
		"400":           {status(400), attemptResult{word: "400"}},
		"410":           {status(410), attemptResult{word: "410", gone: true}},
		"redirect":      {status(302, "Location", other.URL), attemptResult{word: "302"}},
		"wait, seconds": {status(503, "Retry-After", " 120 "), attemptResult{word: "503", retryAfter: 2 * time.Minute}},
		"wait, a date": {
			status(429, "Date", "Fri, 20 Nov 2026 13:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 13:01:00 GMT"),
			attemptResult{word: "429", retryAfter: time.Minute},
		},
		"wait for ever": {status(503, "Retry-After", "99999999999"), attemptResult{word: "503", retryAfter: time.Hour}},
		"closes":        {raw(""), attemptResult{word: "no answer"}},
		"garbage":       {raw("220 mail.example ESMTP\r\n"), attemptResult{word: "no answer"}},
		"long headers": {
			raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: 0123456789\r\n", 10_000) + "\r\n"),
			attemptResult{word: "no answer"},
		},
		"endless body": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, maxAnswerBytes)); err != nil {
					return
				}
			}
			t.Error("read on and on")
		}, attemptResult{word: "200", ok: true}},
		"silence": {func(http.ResponseWriter, *http.Request) { <-release }, attemptResult{word: "timeout"}},
		"silence after the status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-release
		}, attemptResult{word: "200", ok: true}},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(c.serve)
			t.Cleanup(hook.CloseClientConnections)
			client := newClient(loopback, func() time.Time { return at }, dialSettings{})
			if strings.HasPrefix(name, "silence") {
				client.timeout = 300 * time.Millisecond
			}
			got := client.postEvent(t.Context(), Endpoint{URL: hook.URL}, someEvent)
			// A busy machine may read the status too late in the first try.
			for c.want.ok && got.word == "timeout" && client.timeout < servertest.Patience/10 {
				client.timeout *= 2
				got = client.postEvent(t.Context(), Endpoint{URL: hook.URL}, someEvent)
			}
			servertest.Same(t, "answer", got, c.want)
		})
	}
	servertest.Same(t, "redirects were followed", elsewhere.Load(), 0)
}

// The client checks the addresses of a name when it dials them, at each attempt. It refuses a name
// that resolves to a forbidden address now, even if it resolved to an allowed one before. It never
// uses a proxy, since a proxy would resolve names itself, without the guard.
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
		{"loopback as one number", Guard{}, "https://2130706433" + port(encrypted), []string{"127.0.0.1"}, "unknown host"},
		{"a name that leads inside", Guard{}, "https://hook.example" + port(encrypted), []string{"127.0.0.1"}, "forbidden address"},
		{
			"a name that leads to metadata, all allowed",
			Guard{AlsoAllow: mustParsePrefixes("0.0.0.0/1", "128.0.0.0/1")},
			"http://hook.example",
			[]string{"169.254.169.254"},
			"forbidden address",
		},
		{
			"a name with two addresses inside", Guard{}, "https://hook.example" + port(encrypted), []string{"10.0.0.1 127.0.0.1"},
			"forbidden address",
		},
		{
			"a name with an address inside and an allowed one", loopback, "https://example.com" + port(encrypted), []string{"10.0.0.1 127.0.0.1"},
			"200",
		},
		{"allowed, but another certificate", loopback, "https://hook.other" + port(encrypted), []string{"127.0.0.1"}, "bad certificate"},
		{"allowed, TLS where there is none", loopback, "https://hook.example" + port(plain), []string{"127.0.0.1"}, "no TLS"},
		{"no address", loopback, "http://\x7f", nil, "bad address"},
		{"allowed", loopback, "https://example.com" + port(encrypted), []string{"127.0.0.1"}, "200"},
		{"allowed, in the clear", loopback, "http://hook.example" + port(plain), []string{"127.0.0.1"}, "200"},
	} {
		hits.Store(0)
		w := dialSettings{roots: roots}
		if c.addresses != nil {
			w.resolver = names(c.addresses...)
		}
		client := newClient(c.guard, time.Now, w)
		got := client.postEvent(t.Context(), Endpoint{URL: c.url}, someEvent)
		if got.word != c.want || (hits.Load() > 0) != (c.want == "200") {
			t.Errorf("%s: %q, %d requests", c.name, got.word, hits.Load())
		}
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := newClient(loopback, time.Now, dialSettings{}).postEvent(gone, Endpoint{URL: plain.URL}, someEvent); got.word != "canceled" {
		t.Errorf("canceled: %+v", got)
	}

	// The first address is allowed, and the second one is forbidden.
	client := newClient(Guard{AlsoAllow: mustParsePrefixes("127.0.0.1/32")}, time.Now,
		dialSettings{resolver: names("127.0.0.1", "127.0.0.2")})
	client.Transport.(*http.Transport).DisableKeepAlives = true
	to := Endpoint{URL: "http://hook.example" + port(plain)}
	for _, want := range []string{"200", "forbidden address", "forbidden address"} {
		if got := client.postEvent(t.Context(), to, someEvent); got.word != want {
			t.Errorf("rebound: %q, want %q", got.word, want)
		}
	}
	servertest.Same(t, "requests to the proxy", proxied.Load(), 0)
}

// A sample of each type is signed and marked as a test. The result has the receiver's answer.
func TestPostSample(t *testing.T) {
	secrets, status := [][]byte{[]byte("the first secret of 24 bytes")}, http.StatusNoContent
	var got eventPayload
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = eventPayload{}
		at, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
		if json.Unmarshal(body, &got) != nil ||
			r.Header.Get("Webhook-Signature") != standardwebhooks.Sign(secrets, r.Header.Get("Webhook-Id"), time.Unix(at, 0), body) {
			t.Errorf("%s: %v", body, r.Header)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(hook.Close)
	d := New(Settings{Guard: loopback, Endpoints: map[string]Endpoint{"shop": {URL: hook.URL, Secrets: secrets}}}, Dependencies{})
	servertest.Same(t, "apps", strings.Join(d.Apps(), " "), "shop")
	for _, e := range store.EventTypes {
		answer, ok, err := d.PostSample(t.Context(), "shop", e.Name)
		servertest.OK(t, err)
		servertest.Same(t, "answer to "+e.Name, answer, "204")
		servertest.Same(t, "taken: "+e.Name, ok, true)
		servertest.Same(t, "type", got.Type, e.Name)
		servertest.Same(t, "status of "+e.Name, got.Data.Status, e.Status)
		servertest.Same(t, "app of "+e.Name, got.Data.App, "shop")
		servertest.Same(t, "test of "+e.Name, got.Data.Test, true)
		if e.Name == store.ConversionLow || e.Name == store.ConversionRecovered { // about the app, not about a code
			if got.Data.Reason == nil || *got.Data.Reason != "31 of 4210 codes entered" {
				t.Errorf("%s: reason %v", e.Name, got.Data.Reason)
			}
			got.Data.Reason = nil
			servertest.Same(t, e.Name, got.Data, eventData{App: "shop", Status: e.Status, Test: true})
		} else {
			servertest.Same(t, "verification of "+e.Name, got.Data.VerificationID, "sample")
			servertest.Same(t, "mask of "+e.Name, got.Data.To != "", true)
		}
	}
	status = http.StatusUnauthorized
	answer, ok, err := d.PostSample(t.Context(), "shop", store.SendBounced)
	servertest.OK(t, err)
	servertest.Same(t, "refused: answer", answer, "401")
	servertest.Same(t, "refused: taken", ok, false)
	for _, other := range [][2]string{{"gym", store.SendBounced}, {"shop", "send.arrived"}} {
		if _, _, err := d.PostSample(t.Context(), other[0], other[1]); err == nil {
			t.Errorf("%v was sent", other)
		}
	}
}
