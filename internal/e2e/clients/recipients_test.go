package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/app/apptest"
)

// proofIn returns the proof in the answer to a check.
func proofIn(s *apptest.Stack, a apptest.Answer) string {
	s.Helper()
	apptest.Must(s.T, apptest.Conforms(s.SpecRouter(), http.MethodPost, "/v1/verifications/"+a.ID+"/check", a))
	return a.Proof
}

// believed returns the claims of a proof, checked as a back end checks it, with the keys that are served.
func believed(s *apptest.Stack, proof string) (claims map[string]any) {
	s.Helper()
	var set jose.JSONWebKeySet
	apptest.Must(s.T, json.Unmarshal(s.Get("/.well-known/jwks.json").Raw, &set))
	parsed, err := jwt.ParseSigned(proof, []jose.SignatureAlgorithm{jose.EdDSA})
	apptest.Must(s.T, err)
	var standard jwt.Claims
	apptest.Must(s.T, parsed.Claims(set, &claims, &standard))
	apptest.Must(s.T, standard.Validate(jwt.Expected{Issuer: "sendcode", AnyAudience: jwt.Audience{"default"}, Time: time.Now()}))
	return claims
}

// From the file to the answers: a mailbox with several spellings has one quota, one history and, for each spelling, a code and a subject
// of its own, which the answers to back ends name and those to browsers do not; a test recipient has a known code; blocked and
// disposable addresses get none; and the breaker refuses what is more than all may be sent.
func TestWhatTheFileSaysOfRecipients(t *testing.T) {
	t.Parallel()
	const tagged, dotted, plain, reviewer = "ana+one@gmail.com", "a.n.a@gmail.com", "ana@gmail.com", "reviewer@example.com"
	s := apptest.Embedded(t).Tenants()
	list := filepath.Join(t.TempDir(), "disposable.txt")
	apptest.Must(t, os.WriteFile(list, []byte("short.example\n"), 0o600))
	file, err := os.ReadFile(s.Env["SENDCODE_CONFIG"])
	apptest.Must(t, err)
	s.Write(strings.Replace(string(file), "limit: 10000", "limit: 2", 1)).Add(`folding: [{domain: gmail.com, plus_tags: true, dots: true}]
test_recipients: [{channel: email, to: reviewer@example.com, code: "424242", expires: 2099-01-01}]
block: [{domain: bad.example, reason: abuse}]
disposable_domains: ` + list + `
breaker: {limit: 6, window: 300s}
`).Start(1)
	if !s.Logged("let in with a code that is known") || s.Logged("reviewer@") {
		t.Error("no warning at the start, or one that shows the address")
	}
	named := func(to, code string) apptest.Answer {
		return s.Post("/v1/verifications/check", `{"channel":"email","to":"`+to+`","code":"`+code+`"}`)
	}
	router, seen, codes := s.SpecRouter(), map[string]bool{}, map[string]string{reviewer: "424242"}
	asked := map[string]apptest.Answer{}
	for _, to := range []string{tagged, dotted, reviewer} {
		asked[to] = s.Ask(0, to)
		if to != reviewer {
			codes[to] = s.CodeIn(s.AwaitMail(to, 1)[0])
		}
	}
	third := s.Ask(0, plain)
	s.Is("a third spelling", third, http.StatusTooManyRequests, third.BlockedBy == "hour")
	s.Is("a spelling without a code", named(plain, codes[tagged]), http.StatusNotFound)
	if c := named(dotted, codes[tagged]); c.Valid && codes[dotted] != codes[tagged] {
		t.Errorf("the code of another spelling: %s", c.Raw)
	}
	for to, sent := range asked {
		path := "/v1/verifications/" + sent.ID
		look, byBrowser := s.Get(path), s.Get(path, apptest.As(apptest.PublicKey))
		apptest.Must(t, apptest.Conforms(router, http.MethodPost, "/v1/verifications", sent))
		apptest.Must(t, apptest.Conforms(router, http.MethodGet, path, look))
		checked := named(to, codes[to])
		if !checked.Valid || checked.ID != sent.ID {
			t.Fatalf("%s: %s", to, checked.Raw)
		}
		claims := believed(s, proofIn(s, checked))
		sub, _ := claims["sub"].(string)
		if len(sub) != 32 || seen[sub] {
			t.Errorf("%s: sub %q", to, sub)
		}
		seen[sub] = true
		for what, a := range map[string]apptest.Answer{"send": sent, "look": look, "check": checked} {
			if a.Recipient != sub || strings.Contains(string(a.Raw), `"test":true`) != (to == reviewer) {
				t.Errorf("%s, %s: recipient %q, sub %q: %s", to, what, a.Recipient, sub, a.Raw)
			}
		}
		s.Is("a browser's look at "+to, byBrowser, http.StatusOK, byBrowser.Recipient == "")
		if test, there := claims["test"]; there != (to == reviewer) || there && test != true {
			t.Errorf("%s: test is %v", to, test)
		}
	}
	s.Await("both sends and the refusal in one history", func() bool {
		var found struct{ Sends []json.RawMessage }
		apptest.Must(t, json.Unmarshal(s.ByAdmin(0, "/v1/admin/search", `{"channel":"email","to":"An.a+new@gmail.com"}`).Raw, &found))
		return len(found.Sends) == 3
	})
	blocked := s.Ask(0, "a@bad.example")
	s.AwaitState(blocked.ID, "failed")
	if now := s.Look(blocked.ID); now.Send.Reason != "blocked" {
		t.Errorf("%s", now.Raw)
	}
	short := s.Ask(0, "a@short.example")
	s.Is("a disposable domain", short, 422, short.Field == "to", strings.Contains(string(short.Raw), "disposable"))
	for n := 0; ; n++ {
		if a := s.Ask(0, string(rune('a'+n))+"@example.com"); a.StatusCode == http.StatusTooManyRequests && a.BlockedBy == "breaker" {
			break
		} else if a.StatusCode != http.StatusAccepted || n == 6 {
			t.Fatalf("the breaker: %d %s", a.StatusCode, a.Raw)
		}
	}
	if !s.Logged("the breaker refuses") || s.Logged("gmail.com\"") {
		t.Error("there was no alarm, or an address was logged")
	}
}
