package apptest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Patiently adds the header that makes the answer wait for the outcome of the send.
func Patiently(r *http.Request) { r.Header.Set("Prefer", "wait=20") }

// Wait asks for a code and waits for the outcome of the send.
func (s *Stack) Wait(i int, to string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, Patiently)
}

// CountRcptTo counts the RCPT commands that contain the text, whether the mail server accepted them or not.
func (s *Stack) CountRcptTo(to string) (n int) {
	for _, c := range s.SMTP.Commands() {
		if strings.HasPrefix(c, "RCPT") && strings.Contains(c, to) {
			n++
		}
	}
	return n
}

// MailServerGot reports whether the mail server got a command with this beginning.
func (s *Stack) MailServerGot(command string) bool {
	return slices.ContainsFunc(s.SMTP.Commands(), func(c string) bool { return strings.HasPrefix(c, command) })
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

// RetryBusy repeats a request while the answer is 503, as it may be on a machine that is busy with other tests.
func RetryBusy(ask func() Answer) (a Answer) {
	a = ask()
	for tries := 0; a.StatusCode == http.StatusServiceUnavailable && tries < 5; tries++ {
		Sleep(time.Second)
		a = ask()
	}
	return a
}

// Burst sends n requests for one recipient at once, over all replicas, and returns how many were admitted.
func (s *Stack) Burst(n int, to string) (admitted int) {
	s.Helper()
	var in atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a := RetryBusy(func() Answer { return s.Ask(i%len(s.Replicas), to) })
			switch a.StatusCode {
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

// Flush deletes everything in Redis.
func (s *Stack) Flush() {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Redis.Addr()})
	defer c.Close()
	if err := c.FlushAll(s.Context()).Err(); err != nil {
		s.Fatal(err)
	}
}

// SevenAtMost and OneAtMost are rules without a cooldown. The window is longer than any burst takes, on the busiest machine too.
const (
	SevenAtMost = "    - {name: seven, scope: recipient, limit: 7, window: 300s}\n"
	OneAtMost   = "    - {name: one, scope: recipient, limit: 1, window: 300s}\n"
)

// Keys of the browsers of the app default, and of the other app, of Tenants.
const (
	PublicKey  = "pk_0123456789abcdefghijABCDEFGHIJ"
	AnotherKey = "sk_anotherappsabcdefghijABCDEFGHI"
)

// Tenants adds a browser's key to the app default, and another app with a secret key. Rules are wide, so that they refuse nothing.
func (s *Stack) Tenants() *Stack {
	s.Helper()
	hash := func(key string) string { h := sha256.Sum256([]byte(key)); return hex.EncodeToString(h[:]) }
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	text := "policies:\n  default:\n    - {name: hour, scope: recipient, limit: 10000, window: 1h}\napps:\n" +
		"  - {name: default, origins: [\"https://shop.example\"], keys: [{id: web, kind: public, sha256: " + hash(PublicKey) + "}]}\n" +
		"  - {name: another, keys: [{id: k1, kind: secret, sha256: " + hash(AnotherKey) + "}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"] = file
	return s
}

// As adds a key and, if it is a browser's key, its origin.
func As(key string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+key)
		if key == PublicKey {
			r.Header.Set("Origin", "https://shop.example")
		}
	}
}

// Bearer sends a key.
func Bearer(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
}

// Stacks are the two ways of running it; what holds for one must hold for the other.
var Stacks = map[string]func(*testing.T) *Stack{"embedded": Embedded, "on real parts": OnRealParts}

// OnEach runs a test on the embedded service and on the service with real parts.
func OnEach(t *testing.T, test func(s *Stack)) {
	t.Helper()
	for name, make := range Stacks {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(make(t)) })
	}
}

// Check checks a code.
func (s *Stack) Check(i int, id, code string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications/"+id+"/check", fmt.Sprintf(`{"code":%q}`, code))
}

// Wrong returns a code other than this one.
func Wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}

// InTheLog checks that an administrator's script finds the send and the refusal in the admin API.
func (s *Stack) InTheLog(id string) {
	s.Helper()
	s.Await("send and refusal in the log", func() bool {
		list := s.Do(0, http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":%q}`, Ana), AsAdmin)
		return strings.Contains(string(list.Raw), `"status":"refused"`) && strings.Contains(string(list.Raw), id)
	})
	one := s.Do(0, http.MethodGet, "/v1/admin/sends/"+id, "", AsAdmin)
	if one.StatusCode != 200 || !strings.Contains(string(one.Raw), `"status":"sent"`) || strings.Contains(string(one.Raw), "ana.maria") {
		s.Errorf("%d %s", one.StatusCode, one.Raw)
	}
	if refused := s.Do(0, http.MethodGet, "/v1/admin/sends", ""); refused.StatusCode != http.StatusUnauthorized {
		s.Errorf("an API key opens the log: %d", refused.StatusCode)
	}
}

// AsAdmin sends the administrators' token.
func AsAdmin(r *http.Request) { Bearer(Token)(r) }

// Metric returns the line of /metrics with this beginning; "" if there is none.
func (s *Stack) Metric(i int, begin string) string {
	s.Helper()
	for line := range strings.Lines(string(s.Do(i, http.MethodGet, "/metrics", "").Raw)) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Roomy is room for sends, so that nothing but failures can be the reason of a refusal.
const Roomy = "    - {name: wide, scope: recipient, limit: 1000, window: 300s}\n"
