package apptest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"sendcode/docs"
)

// WithWebhook gives the app default a webhook that posts to the receiver.
func (s *Stack) WithWebhook(r *Receiver, more string) *Stack {
	s.Helper()
	s.Env["SENDCODE_WEBHOOK_SECRETS"] = "default:" + HookSecrets[0]
	return s.WriteWebhook(r.URL+"/hooks", more)
}

// WriteWebhook writes a configuration file in which the app default has a webhook to url.
func (s *Stack) WriteWebhook(url, more string) *Stack {
	s.Helper()
	return s.Write("apps: [{name: default, webhook: {url: \"" + url + "\"}}]\nwebhook_networks: [127.0.0.0/8]\n" + more)
}

// Verify reports whether a request came from sendcode within the last five minutes. body is the
// body as received.
func Verify(secret string, h http.Header, body []byte, now time.Time) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	at, errAt := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || len(key) == 0 || errAt != nil || now.Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
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

// HookSecrets are the secrets of the tests' receivers.
var HookSecrets = []string{"whsec_Q2hlZXIgdXAsIGl0IGlzIGEgdGVzdCBzZWNyZXQh", "whsec_QW5vdGhlciBzZWNyZXQgb2YgZW5vdWdoIGJ5dGVz"}

// Receiver is the server behind an app's webhook. AwaitEvents returns what it got.
type Receiver struct {
	*httptest.Server
	Secret   string
	mu       sync.Mutex
	events   []ReceivedEvent
	problems []string
}

// ReceivedEvent is an event that a receiver got.
type ReceivedEvent struct {
	Type string
	Raw  []byte `json:"-"`
	id   string
}

// NewReceiver starts a webhook receiver, which answers each request with 204. AwaitEvents fails the
// test if a request had no valid signature, or did not match the OpenAPI document.
func NewReceiver(t *testing.T) *Receiver {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	Must(t, err)
	schema := doc.Webhooks["event"].Post.RequestBody.Value.Content.Get("application/json").Schema.Value
	r := &Receiver{Secret: HookSecrets[0]}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		event := ReceivedEvent{Raw: body, id: req.Header.Get("webhook-id")}
		switch {
		case err != nil || !Verify(r.Secret, req.Header, body, time.Now()):
			r.problems = append(r.problems, "a signature")
		case json.Unmarshal(body, &event) != nil:
			r.problems = append(r.problems, "JSON")
		default:
			var value any
			_ = json.Unmarshal(body, &value)
			if err := schema.VisitJSON(value); err != nil {
				r.problems = append(r.problems, err.Error())
			}
		}
		// After a late answer, the service sends the event again.
		if !slices.ContainsFunc(r.events, func(t ReceivedEvent) bool { return t.id == event.id }) {
			r.events = append(r.events, event)
		}
		r.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// AwaitEvents waits until the receiver got n events, and returns them.
func (s *Stack) AwaitEvents(r *Receiver, n int) (events []ReceivedEvent) {
	s.Helper()
	s.Await(fmt.Sprintf("%d events", n), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		events = slices.Clone(r.events)
		return len(events) >= n
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.problems) > 0 {
		s.Errorf("the receiver refused: %v", r.problems)
	}
	return events
}
