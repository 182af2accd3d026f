package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"sendcode/docs"
)

// verify says whether a request came from sendcode within the last five minutes. body is as it was received.
func verify(secret string, h http.Header, body []byte, now time.Time) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	at, errAt := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || errAt != nil || now.Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), at, body)
	for _, signature := range strings.Fields(h.Get("webhook-signature")) {
		encoded, isV1 := strings.CutPrefix(signature, "v1,")
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if isV1 && err == nil && hmac.Equal(sum, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// The lines of docs/webhooks.md are those above.
func TestThePageOfWebhooksShowsThisReceiver(t *testing.T) {
	page, err := os.ReadFile("../../docs/webhooks.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "```go\n")
	block, _, found := strings.Cut(rest, "```")
	source, err := os.ReadFile("hooks_receiver_test.go")
	must(t, err)
	if !found || !strings.Contains(string(source), block) {
		t.Errorf("the page shows other lines:\n%s", block)
	}
}

func TestVerifyRefuses(t *testing.T) {
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	now := time.Unix(1614265330, 0)
	header := func(change func(http.Header)) http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		h.Set("webhook-timestamp", "1614265330")
		h.Set("webhook-signature", "v1,bm9uZQ== v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		change(h)
		return h
	}
	if !verify(secret, header(func(http.Header) {}), []byte(body), now) {
		t.Error("the published vector is refused")
	}
	for name, refused := range map[string]bool{
		"late":             verify(secret, header(func(http.Header) {}), []byte(body), now.Add(5*time.Minute+time.Second)),
		"early":            verify(secret, header(func(http.Header) {}), []byte(body), now.Add(-5*time.Minute-time.Second)),
		"another body":     verify(secret, header(func(http.Header) {}), []byte(body+" "), now),
		"another id":       verify(secret, header(func(h http.Header) { h.Set("webhook-id", "x") }), []byte(body), now),
		"another time":     verify(secret, header(func(h http.Header) { h.Set("webhook-timestamp", "1614265331") }), []byte(body), now),
		"no time":          verify(secret, header(func(h http.Header) { h.Del("webhook-timestamp") }), []byte(body), now),
		"no signature":     verify(secret, header(func(h http.Header) { h.Del("webhook-signature") }), []byte(body), now),
		"another secret":   verify(hookSecrets[0], header(func(http.Header) {}), []byte(body), now),
		"a broken secret":  verify("whsec_*", header(func(http.Header) {}), []byte(body), now),
		"another's scheme": verify(secret, header(func(h http.Header) { h.Set("webhook-signature", "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=") }), []byte(body), now),
	} {
		if refused {
			t.Errorf("%s is taken", name)
		}
	}
}

// hookSecrets are those of the tests' receivers.
var hookSecrets = []string{"whsec_Q2hlZXIgdXAsIGl0IGlzIGEgdGVzdCBzZWNyZXQh", "whsec_QW5vdGhlciBzZWNyZXQgb2YgZW5vdWdoIGJ5dGVz"}

// receiver is an app's back end.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	heard  []told
	wrong  []string
	answer func(n int) int // the status for the nth request; nil: 204. A negative one is silence until the client is gone
}

// told is a request that a receiver has verified.
type told struct {
	id, Type string
	raw      []byte
	Data     struct {
		VerificationID string `json:"verification_id"`
		SendID         string `json:"send_id"`
		App, Status    string
		Reason, To     string
		Test           bool
	}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	schema := eventSchema(t)
	r := &receiver{secret: hookSecrets[0]}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		event := told{id: req.Header.Get("webhook-id"), raw: body}
		switch {
		case err != nil || !verify(r.secret, req.Header, body, time.Now()):
			r.wrong = append(r.wrong, "a signature")
		case json.Unmarshal(body, &event) != nil:
			r.wrong = append(r.wrong, "JSON")
		default:
			var value any
			_ = json.Unmarshal(body, &value)
			if err := schema.VisitJSON(value); err != nil {
				r.wrong = append(r.wrong, err.Error())
			}
		}
		r.heard = append(r.heard, event)
		status := http.StatusNoContent
		if r.answer != nil {
			status = r.answer(len(r.heard))
		}
		r.mu.Unlock()
		if status < 0 {
			<-req.Context().Done()
			return
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	t.Cleanup(r.CloseClientConnections)
	return r
}

// eventSchema is what the specification says of an event.
func eventSchema(t *testing.T) *openapi3.Schema {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	must(t, err)
	if doc.Components.Schemas["Event"] == nil {
		t.Fatal("the specification has no Event")
	}
	return doc.Components.Schemas["Event"].Value
}

func (r *receiver) answers(f func(n int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) all() []told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]told(nil), r.heard...)
}

// awaitTold waits until a receiver has heard of n events, and returns them.
func (s *stack) awaitTold(r *receiver, n int) []told {
	s.Helper()
	s.await(fmt.Sprintf("%d events", n), func() bool { return len(r.all()) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		s.Errorf("the receiver refused: %v", r.wrong)
	}
	return append([]told(nil), r.heard...)
}
