package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

const (
	alice = "alice@example.com" // where two answers are compared: codes were requested for this address
	bob   = "bob@example.com"   // where two answers are compared: no code was requested for this address
)

// client sends requests from one address with one key.
type client struct {
	*testing.T
	e       *echo.Echo
	ip, key string
}

// do makes a request. header has names and values in turn.
func (c client) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = c.ip + ":4711"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.key)
	if c.key == public {
		r.Header.Set("Origin", shop)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	c.e.ServeHTTP(w, r)
	return w
}

// ask requests a code. A request with a secret key says that the back end knows the person.
func (c client) ask(to string, header ...string) *httptest.ResponseRecorder {
	c.Helper()
	trust := ""
	if strings.HasPrefix(c.key, "sk_") {
		trust = "known"
	}
	return c.do(http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"trust":%q}`, to, trust), header...)
}

// admitted requests a code, and fails the test unless the answer is a 202. It returns the
// verification's ID.
func (c client) admitted(to string) string {
	c.Helper()
	w := c.ask(to)
	if w.Code != http.StatusAccepted {
		c.Fatalf("%s: %d %s", to, w.Code, w.Body)
	}
	return read(c.T, w).ID
}

// answer has the members of a verification or a problem that these tests read.
type answer struct {
	ID         string
	BlockedBy  string   `json:"blocked_by"`
	RetryAfter int      `json:"retry_after"`
	Violated   []string `json:"violated-policies"`
	Quota      struct {
		Allowed    bool
		BlockedBy  string `json:"blocked_by"`
		RetryAfter int    `json:"retry_after"`
		Rules      []struct {
			Name       string
			RetryAfter int `json:"retry_after"`
		}
	}
}

func read(t *testing.T, w *httptest.ResponseRecorder) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return a
}

// rules returns the names of the rules in the body. It fails the test if the header lists others.
func rules(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var inBody, inHeader []string
	for _, r := range read(t, w).Quota.Rules {
		inBody = append(inBody, r.Name)
	}
	for _, item := range strings.Split(w.Header().Get("RateLimit-Policy"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(item), ";")
		if name != "" {
			inHeader = append(inHeader, strings.Trim(name, `"`))
		}
	}
	if !slices.Equal(inBody, inHeader) {
		t.Errorf("body %v, RateLimit-Policy %v", inBody, inHeader)
	}
	return strings.Join(inBody, " ")
}

var randomID = regexp.MustCompile(`"request_id":"[^"]+"`)

// same compares two answers of one instant, byte by byte, except for the requests' random IDs.
func same(t *testing.T, a, b *httptest.ResponseRecorder) {
	t.Helper()
	for _, w := range []*httptest.ResponseRecorder{a, b} {
		w.Header().Del(echo.HeaderXRequestID)
	}
	bodyA, bodyB := randomID.ReplaceAll(a.Body.Bytes(), nil), randomID.ReplaceAll(b.Body.Bytes(), nil)
	if a.Code != b.Code || !maps.EqualFunc(a.Header(), b.Header(), slices.Equal) || !bytes.Equal(bodyA, bodyB) {
		t.Errorf("the answers differ:\n%d %v\n%s\n%d %v\n%s", a.Code, a.Header(), a.Body, b.Code, b.Header(), b.Body)
	}
}

// own has the recipient's rules. The window of "day" is longer than that of every wider rule below.
var own = []quota.Rule{
	{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	{Name: "day", Scope: quota.Recipient, Limit: 1, Window: 24 * time.Hour},
}

func policyOf(more ...quota.Rule) func(*verificationtest.Settings) {
	return verificationtest.WithRules(append(slices.Clone(own), more...)...)
}

// A client whose requests are used up learns nothing about a recipient. The clock of a bubble
// stands still, so equal answers are equal byte by byte.
func TestLimitedClientLearnsNoRecipient(t *testing.T) {
	for scope, from := range map[quota.Scope]string{ // another address of the same client, by the scope of the rule
		quota.IP: "203.0.113.9", quota.Network: "203.0.113.77", quota.App: "198.51.100.1", quota.Purpose: "198.51.100.1",
		quota.Global: "198.51.100.1", policy.BreakerScope: "198.51.100.1",
	} {
		t.Run(string(scope), func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				rule := quota.Rule{Name: "wide", Scope: scope, Limit: 3, Window: time.Hour}
				change := policyOf(rule)
				if scope == policy.BreakerScope {
					change = func(s *verificationtest.Settings) { policyOf()(s); s.Breaker = rule }
				}
				e := newAPI(t, change)
				client{t, e, "192.0.2.1", secret}.admitted(alice)
				time.Sleep(10 * time.Minute) // alice's rule minute admits again, but day does not
				for n, status := 0, 0; status != http.StatusTooManyRequests; n++ {
					status = client{t, e, "203.0.113.9", public}.ask(fmt.Sprintf("mallory%d@example.com", n)).Code
				}
				browser := client{t, e, from, public}
				withHistory, without := browser.ask(alice), browser.ask(bob)
				same(t, withHistory, without)
				if withHistory.Code != http.StatusTooManyRequests || rules(t, withHistory) != "wide" ||
					read(t, withHistory).BlockedBy != "wide" {
					t.Errorf("%d %s", withHistory.Code, withHistory.Body)
				}
				// An Idempotency-Key does not change this.
				same(t, browser.ask(alice, "Idempotency-Key", strings.Repeat("0a1b2c3d", 4)),
					browser.ask(bob, "Idempotency-Key", strings.Repeat("3d2c1b0a", 4)))
				all := client{t, e, "203.0.113.9", secret}.ask(alice)
				want := "minute day wide"
				if scope == quota.IP || scope == quota.Network { // the back end named no client
					want = "minute day"
				}
				if got := rules(t, all); !strings.HasPrefix(got, want) || read(t, all).BlockedBy != "day" {
					t.Errorf("a secret key reads %q: %s", got, all.Body)
				}
			})
		})
	}
}

// A page can read every refusal, even the refusal of a body with too large a Content-Length.
func TestAPageReadsThatItsBodyIsTooLarge(t *testing.T) {
	browser := client{t, newAPI(t), "203.0.113.9", public}
	for _, path := range []string{"", "/x/check", "/x/cancel"} {
		w := browser.do(http.MethodPost, "/v1/verifications"+path, `{"to":"`+strings.Repeat("x", 16<<10)+`"}`)
		if origin := w.Header().Get("Access-Control-Allow-Origin"); w.Code != http.StatusRequestEntityTooLarge || origin != shop {
			t.Errorf("%s: %d for %q", path, w.Code, origin)
		}
	}
}

// A browser sees every rule while its verification is pending, and afterwards only the rule that
// blocks, as a browser without a verification does.
func TestWhatABrowserReadsOfItsVerification(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		// the test lasts for a day, so the workers look for work only once a minute
		e := newAPI(t, func(s *verificationtest.Settings) { policyOf()(s); s.Tick = time.Minute })
		browser := client{t, e, "203.0.113.9", public}
		id := browser.admitted(alice)
		look := func() *httptest.ResponseRecorder { return browser.do(http.MethodGet, "/v1/verifications/"+id, "") }
		resend := func() *httptest.ResponseRecorder {
			return browser.do(http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"verification_id":%q}`, id))
		}
		for what, ask := range map[string]func() *httptest.ResponseRecorder{"look": look, "resend": resend} {
			servertest.Same(t, what+": while it is pending", rules(t, ask()), "minute day client network")
		}
		time.Sleep(30 * time.Second)
		refused := client{t, e, "198.51.100.1", public}.ask(alice)
		if a := read(t, refused); rules(t, refused) != "day" || fmt.Sprint(a.Violated) != "[day]" || a.RetryAfter != 24*3600-30 {
			t.Errorf("%s", refused.Body)
		}
		back := client{t, e, "198.51.100.2", secret}.ask(alice) // a back end's answer has every rule that blocks
		if h := back.Header(); back.Code != http.StatusTooManyRequests || fmt.Sprint(read(t, back).Violated) != "[minute day]" ||
			h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v %s", back.Code, h, back.Body)
		}
		canceled := browser.do(http.MethodPost, "/v1/verifications/"+id+"/cancel", "")
		for what, w := range map[string]*httptest.ResponseRecorder{"cancel": canceled, "look": look(), "resend": resend()} {
			if got := rules(t, w); got != "day" || read(t, w).Quota.RetryAfter != 24*3600-30 {
				t.Errorf("%s after its end: %q: %s", what, got, w.Body)
			}
		}
		w := client{t, e, "192.0.2.1", secret}.do(http.MethodGet, "/v1/verifications/"+id, "")
		servertest.Same(t, "a secret key reads", rules(t, w), "minute day")
		time.Sleep(24 * time.Hour)
		w = look()
		if a := read(t, w); !a.Quota.Allowed || rules(t, w) != "" || w.Header().Get("RateLimit") != "" {
			t.Errorf("with room: %s", w.Body)
		}
	})
}

// A browser at another IPv4 address or in another /64 that sends the Idempotency-Key of the first
// browser does not get the ID of that browser's verification, unless the key has 128 random bits.
func TestIdempotencyKeyThatIsGuessedGetsNothing(t *testing.T) {
	for _, c := range []struct {
		name, key, from, other string
		replayed               bool
	}{
		{"weak, another address", "login-attempt-2026-11-21", "203.0.113.9", "203.0.113.10", false},
		{"weak, the same address", "login-attempt-2026-11-21", "203.0.113.9", "203.0.113.9", true},
		{"weak, another /64", "login-attempt-2026-11-21", "[2001:db8::1]", "[2001:db8:0:1::1]", false},
		{"weak, the same /64", "login-attempt-2026-11-21", "[2001:db8::1]", "[2001:db8::2]", true},
		{"a UUID of random bits", "8e03978e-40d5-43dd-bc93-6894a57f9324", "203.0.113.9", "198.51.100.1", false},
		{"128 random bits", "5f0c9a4be1d24786a35e70c81b9f2d63", "203.0.113.9", "198.51.100.1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				e := newAPI(t)
				ask := func(ip string) *httptest.ResponseRecorder {
					return client{t, e, ip, public}.ask(alice, "Idempotency-Key", c.key)
				}
				first, second := ask(c.from), ask(c.other)
				if first.Code != http.StatusAccepted || second.Code != http.StatusAccepted {
					t.Fatalf("%s\n%s", first.Body, second.Body)
				}
				id := read(t, first).ID
				replayed := second.Header().Get("Idempotent-Replayed") == "true"
				if replayed != c.replayed || replayed != (read(t, second).ID == id) ||
					replayed != strings.Contains(second.Body.String()+fmt.Sprint(second.Header()), id) {
					t.Errorf("replayed %v: %s", replayed, second.Body)
				}
				if replayed {
					return
				}
				client{t, e, c.other, public}.do(http.MethodPost, "/v1/verifications/"+read(t, second).ID+"/cancel", "")
				w := client{t, e, c.from, public}.do(http.MethodGet, "/v1/verifications/"+id, "")
				if !strings.Contains(w.Body.String(), `"status":"pending"`) {
					t.Errorf("the first is no longer pending: %s", w.Body)
				}
				if again := ask(c.from); read(t, again).ID != id {
					t.Errorf("the first's retry opened another: %s", again.Body)
				}
			})
		})
	}
}
