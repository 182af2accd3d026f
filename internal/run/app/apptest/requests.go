package apptest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Patiently adds the header that makes the answer wait for the outcome of the send.
func Patiently(r *http.Request) { r.Header.Set("Prefer", "wait=20") }

// MailServerGot returns how many commands with this beginning the mail server got, whether it
// accepted them or not.
func (s *Stack) MailServerGot(command string) (n int) {
	for _, c := range s.SMTP.Commands() {
		if strings.HasPrefix(c, command) {
			n++
		}
	}
	return n
}

// ByAdmin posts to the admin API with the administrators' token.
func (s *Stack) ByAdmin(i int, path, body string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, path, body, AsAdmin)
}

// WithKey adds an Idempotency-Key.
func WithKey(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// Burst sends n requests for one recipient at once, over all replicas, and returns how many were
// admitted.
func (s *Stack) Burst(n int, to string) (admitted int) {
	s.Helper()
	var in atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			switch a := s.Ask(i%len(s.Replicas), to); a.StatusCode {
			case http.StatusAccepted:
				in.Add(1)
			case http.StatusTooManyRequests:
			default:
				s.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		})
	}
	wg.Wait()
	return int(in.Load())
}

// WantAdmitted makes n requests for one recipient at once. It fails the test unless exactly want of
// them are admitted.
func (s *Stack) WantAdmitted(want, n int, to string) {
	s.Helper()
	if got := s.Burst(n, to); got != want {
		s.Errorf("%d of %d requests for one recipient were admitted, want %d", got, n, want)
	}
}

// Flush deletes everything in Redis.
func (s *Stack) Flush() {
	s.Helper()
	Must(s.T, s.RedisClient().FlushAll(s.Context()).Err())
}

// RedisClient returns a client of the limiter's Redis, which is closed when the test ends.
func (s *Stack) RedisClient() *redis.Client {
	s.Helper()
	return s.Redis.Client(s.T)
}

// These are policies of one rule each. A window of 300 s is longer than a burst takes on a busy
// machine. Roomy refuses nothing, so only failures can end a send.
const (
	SevenAtMost = "    - {name: seven, scope: recipient, limit: 7, window: 300s}\n"
	Roomy       = "    - {name: wide, scope: recipient, limit: 1000, window: 300s}\n"
	FiveAnHour  = "    - {name: hourly, scope: recipient, limit: 5, window: 1h}\n"
	TwoAnHour   = "    - {name: hourly, scope: recipient, limit: 2, window: 1h}\n"
)

// LongRules are the default rules with a longer first window: it is longer than any test.
const LongRules = "    - {name: short, scope: recipient, limit: 1, window: 300s}\n" +
	"    - {name: hour, scope: recipient, limit: 5, window: 1h}\n    - {name: day, scope: recipient, limit: 10, window: 24h}\n"

// PublicKey is a browser's key of the app default. AnotherKey is the secret key of the other app.
// Tenants adds them to the settings.
const (
	PublicKey  = "pk_0123456789abcdefghijABCDEFGHIJ"
	AnotherKey = "sk_anotherappsabcdefghijABCDEFGHI"
)

// Tenants adds a browser's key to the app default, and another app with a secret key. It sets rules
// with such high limits that they refuse nothing.
func (s *Stack) Tenants() *Stack {
	s.Helper()
	return s.Write(fmt.Sprintf(`policies: {default: [{name: hour, scope: recipient, limit: 10000, window: 1h}]}
apps:
  - {name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}
  - {name: another, keys: [{id: k1, kind: secret, sha256: %x}]}
`, sha256.Sum256([]byte(PublicKey)), sha256.Sum256([]byte(AnotherKey))))
}

// As makes a request send a key. If it is a browser's key, the request also sends its origin.
func As(key string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+key)
		if key == PublicKey {
			r.Header.Set("Origin", "https://shop.example")
		}
	}
}

// Stacks are the two ways to run the service. Tests that use them must hold for both.
var Stacks = map[string]func(*testing.T) *Stack{"embedded": Embedded, "on real parts": OnRealParts}

// OnEach runs a test on the embedded service and on the service with real parts.
func OnEach(t *testing.T, test func(s *Stack)) {
	t.Helper()
	for name, make := range Stacks {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(make(t)) })
	}
}

// Check checks a code at replica i.
func (s *Stack) Check(i int, id, code string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code))
}

// Approves ends the test unless replica i accepts the code.
func (s *Stack) Approves(i int, id, code string) {
	s.Helper()
	if a := s.Check(i, id, code); !a.Valid {
		s.Fatalf("the right code: %d %s", a.StatusCode, a.Raw)
	}
}

// AsAdmin sends the administrators' token.
func AsAdmin(r *http.Request) { As(Token)(r) }

// Is ends the test unless an answer has the status and all of holds are true.
func (s *Stack) Is(what string, a Answer, status int, holds ...bool) {
	s.Helper()
	if a.StatusCode != status || slices.Contains(holds, false) {
		s.Fatalf("%s: %d %s, want %d; the rest: %v", what, a.StatusCode, a.Raw, status, holds)
	}
}
