package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// believed returns the claims of a proof, checked as a back end checks it, with the keys that are
// served.
func believed(s *apptest.Stack, proof string) (claims map[string]any) {
	s.Helper()
	var set jose.JSONWebKeySet
	apptest.Must(s.T, json.Unmarshal(s.Get("/.well-known/jwks.json").Raw, &set))
	parsed, err := jwt.ParseSigned(proof, []jose.SignatureAlgorithm{jose.EdDSA})
	apptest.Must(s.T, err)
	var standard jwt.Claims
	apptest.Must(s.T, parsed.Claims(set, &claims, &standard))
	apptest.Must(s.T, standard.Validate(jwt.Expected{Issuer: "sendcode", AnyAudience: jwt.Audience{"default"},
		Time: time.Now()}))
	return claims
}

// From the file to the answers: two spellings of a mailbox share a quota, and have a subject each,
// which browsers are not told; a test recipient has a known code; blocked and disposable addresses
// get none; and the breaker refuses what is more than all may be sent.
func TestWhatTheFileSaysOfRecipients(t *testing.T) {
	t.Parallel()
	const tagged, dotted, reviewer = "ana+one@gmail.com", "a.n.a@gmail.com", "reviewer@example.com"
	s := apptest.Embedded(t).Tenants()
	list := filepath.Join(t.TempDir(), "disposable.txt")
	apptest.Must(t, os.WriteFile(list, []byte("short.example\n"), 0o600))
	file, err := os.ReadFile(s.Env["SENDCODE_CONFIG"])
	apptest.Must(t, err)
	s.Write(strings.Replace(string(file), "limit: 10000", "limit: 2", 1)).Add(`folding: {gmail.com: [plus_tags, dots]}
test_recipients: [{to: reviewer@example.com, code: "424242", expires: 2099-01-01}]
stop: [{to: "*@bad.example", reason: abuse}]
disposable_domains: ` + list + `
breaker: {limit: 5, window: 300s}
`).Start(1)
	if !s.Logged("admitted with its fixed code") || s.Logged("reviewer@") {
		t.Error("no warning at the start, or one that shows the address")
	}
	one, other, known := s.Ask(0, tagged), s.Ask(0, dotted), s.Ask(0, reviewer)
	third := s.Ask(0, "ana@gmail.com")
	s.Is("a third spelling", third, http.StatusTooManyRequests, third.BlockedBy == "hour")
	s.Is("two spellings", other, http.StatusAccepted, one.Recipient != "", other.Recipient != "",
		one.Recipient != other.Recipient)
	byBrowser := s.Ask(0, "bea@example.com", apptest.As(apptest.PublicKey))
	s.Is("a browser's own", byBrowser, http.StatusAccepted, byBrowser.Recipient == "")
	s.Approves(0, one.ID, s.CodeIn(s.AwaitMail(tagged, 1)[0]))
	s.Is("a test recipient", known, http.StatusAccepted, strings.Contains(string(known.Raw), `"test":true`))
	for range 8 { // more than the breaker lets through
		s.Is("it again", s.Ask(0, reviewer), http.StatusAccepted)
	}
	approved := s.Check(0, known.ID, "424242")
	claims := believed(s, proofIn(s, approved))
	sub, _ := claims["sub"].(string)
	look := s.Get("/v1/verifications/" + known.ID)
	if named := []string{known.Recipient, look.Recipient, approved.Recipient}; len(sub) != 32 ||
		claims["test"] != true ||
		!slices.Equal(named, []string{sub, sub, sub}) {
		t.Errorf("the proof says %v, the answers name %q", claims, named)
	}
	blocked := s.Post("/v1/verifications", `{"channel":"email","to":"a@bad.example"}`, apptest.Patiently)
	s.Is("a blocked one", blocked, http.StatusBadGateway, strings.Contains(string(blocked.Raw), `"counts":true`),
		strings.Contains(string(blocked.Raw), "; it counts."))
	if now := s.Look(blocked.ID); now.Send.Reason != "blocked" {
		t.Errorf("%s", now.Raw)
	}
	short := s.Ask(0, "a@short.example")
	s.Is("a disposable domain", short, 422, short.Field == "to", strings.Contains(string(short.Raw), "disposable"))
	for n := 0; ; n++ {
		if a := s.Ask(0, string(rune('a'+n))+"@example.com"); a.StatusCode == http.StatusTooManyRequests &&
			a.BlockedBy == "breaker" {
			break
		} else if a.StatusCode != http.StatusAccepted || n == 5 {
			t.Fatalf("the breaker: %d %s", a.StatusCode, a.Raw)
		}
	}
	if !s.Logged("refused by breaker") || s.Logged("gmail.com\"") {
		t.Error("there was no alarm, or an address was logged")
	}
}
