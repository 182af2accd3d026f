package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"sendcode/internal/app/apptest"
)

// recipientIn is the hash in an answer; empty where there is none.
func recipientIn(t *testing.T, a apptest.Answer) string {
	t.Helper()
	var body struct{ Recipient string }
	apptest.Must(t, json.Unmarshal(a.Raw, &body))
	return body.Recipient
}

// A back end knows whom a proof is about: its own answers name the recipient by the proof's sub. Browsers are not told, and a proof
// of a test recipient says that it is one.
func TestAProofsSubjectIsInTheAnswersToBackEnds(t *testing.T) {
	s := apptest.Embedded(t).Tenants()
	file := s.Env["SENDCODE_CONFIG"]
	text, err := os.ReadFile(file)
	apptest.Must(t, err)
	apptest.Must(t, os.WriteFile(file, append(text, "folding: [{domain: example.com, plus_tags: true}]\ntest_recipients: [{channel: email, to: reviewer@example.com, code: \"424242\", expires: 2099-01-01}]\n"...), 0o600))
	s.Start(1)
	keys := s.Do(0, http.MethodGet, "/.well-known/jwks.json", "")
	seen := map[string]bool{}
	for _, to := range []string{apptest.Ana, "ana.maria.canary+tag@example.com", "reviewer@example.com"} {
		sent := s.Do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q}`, to))
		apptest.Must(t, apptest.Conforms(s.SpecRouter(), http.MethodPost, "/v1/verifications", sent))
		code := "424242"
		if to != "reviewer@example.com" {
			code = s.CodeIn(s.AwaitMail(to, 1)[0])
		}
		path := "/v1/verifications/" + sent.ID
		look := s.Do(0, http.MethodGet, path, "")
		apptest.Must(t, apptest.Conforms(s.SpecRouter(), http.MethodGet, path, look))
		byBrowser := s.Do(0, http.MethodGet, path, "", apptest.As(apptest.PublicKey))
		checked := s.Check(0, sent.ID, code)
		claims, err := believed(keys.Raw, proofIn(s, checked))
		apptest.Must(t, err)
		sub := claims["sub"].(string)
		if len(sub) != 32 || seen[sub] {
			t.Errorf("%s: sub %q", to, sub)
		}
		seen[sub] = true
		for what, a := range map[string]apptest.Answer{"send": sent, "look": look, "check": checked} {
			if got := recipientIn(t, a); got != sub {
				t.Errorf("%s, %s: recipient %q, sub %q", to, what, got, sub)
			}
		}
		if got := recipientIn(t, byBrowser); byBrowser.StatusCode != http.StatusOK || got != "" {
			t.Errorf("a browser reads %q of %s: %d", got, to, byBrowser.StatusCode)
		}
		if test, there := claims["test"]; there != (code == "424242") || there && test != true {
			t.Errorf("%s: test is %v", to, test)
		}
	}
	asked := s.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"reviewer@example.com"}`, apptest.As(apptest.PublicKey))
	if got := recipientIn(t, s.Do(0, http.MethodPost, "/v1/verifications/"+asked.ID+"/check", `{"code":"424242"}`, apptest.As(apptest.PublicKey))); got != "" || recipientIn(t, asked) != "" {
		t.Errorf("a browser reads %q", got)
	}
}
