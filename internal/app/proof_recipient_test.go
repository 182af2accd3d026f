package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
)

// recipientIn is the hash in an answer; empty where there is none.
func recipientIn(t *testing.T, a answer) string {
	t.Helper()
	var body struct{ Recipient string }
	must(t, json.Unmarshal(a.raw, &body))
	return body.Recipient
}

// A back end knows whom a proof is about: its own answers name the recipient by the proof's sub. Browsers are not told, and a proof
// of a test recipient says that it is one.
func TestAProofsSubjectIsInTheAnswersToBackEnds(t *testing.T) {
	s := embedded(t).tenants()
	file := s.env["SENDCODE_CONFIG"]
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(text, "folding: [{domain: example.com, plus_tags: true}]\ntest_recipients: [{channel: email, to: reviewer@example.com, code: \"424242\", expires: 2099-01-01}]\n"...), 0o600))
	s.start(1)
	keys := s.do(0, http.MethodGet, "/.well-known/jwks.json", "")
	seen := map[string]bool{}
	for _, to := range []string{ana, "ana.maria.canary+tag@example.com", "reviewer@example.com"} {
		sent := s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q}`, to))
		must(t, conforms(s.specification(), http.MethodPost, "/v1/verifications", sent))
		code := "424242"
		if to != "reviewer@example.com" {
			code = s.codeIn(s.awaitMail(to, 1)[0])
		}
		path := "/v1/verifications/" + sent.ID
		look := s.do(0, http.MethodGet, path, "")
		must(t, conforms(s.specification(), http.MethodGet, path, look))
		byBrowser := s.do(0, http.MethodGet, path, "", as(publicKey))
		checked := s.check(0, sent.ID, code)
		claims, err := believed(keys.raw, s.proofIn(checked))
		must(t, err)
		sub := claims["sub"].(string)
		if len(sub) != 32 || seen[sub] {
			t.Errorf("%s: sub %q", to, sub)
		}
		seen[sub] = true
		for what, a := range map[string]answer{"send": sent, "look": look, "check": checked} {
			if got := recipientIn(t, a); got != sub {
				t.Errorf("%s, %s: recipient %q, sub %q", to, what, got, sub)
			}
		}
		if got := recipientIn(t, byBrowser); byBrowser.status != http.StatusOK || got != "" {
			t.Errorf("a browser reads %q of %s: %d", got, to, byBrowser.status)
		}
		if test, there := claims["test"]; there != (code == "424242") || there && test != true {
			t.Errorf("%s: test is %v", to, test)
		}
	}
	asked := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"reviewer@example.com"}`, as(publicKey))
	if got := recipientIn(t, s.do(0, http.MethodPost, "/v1/verifications/"+asked.ID+"/check", `{"code":"424242"}`, as(publicKey))); got != "" || recipientIn(t, asked) != "" {
		t.Errorf("a browser reads %q", got)
	}
}

// A back end exchanges a proof for the address, once; neither another app's key nor a browser's is told anything.
func TestAProofIsRedeemedOnce(t *testing.T) {
	onEach(t, func(s *stack) {
		s.tenants().start(1)
		router := s.specification()
		sent := s.do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q}`, ana))
		body := fmt.Sprintf(`{"proof":%q}`, s.proofIn(s.check(0, sent.ID, s.codeIn(s.awaitMail(ana, 1)[0]))))
		redeem := func(body string, change ...func(*http.Request)) answer {
			a := s.do(0, http.MethodPost, "/v1/proofs/redeem", body, change...)
			must(t, conforms(router, http.MethodPost, "/v1/proofs/redeem", a))
			return a
		}
		if a := redeem(body, as(anotherKey)); a.status != http.StatusUnprocessableEntity || a.Field != "proof" {
			s.Errorf("another app: %d %s", a.status, a.raw)
		}
		if a := redeem(body, as(publicKey)); a.status != http.StatusForbidden {
			s.Errorf("a browser: %d %s", a.status, a.raw)
		}
		first := redeem(body, withKey(`"our-sign-up-00001"`))
		var told struct {
			VerificationID string `json:"verification_id"`
			To, Recipient  string
		}
		must(t, json.Unmarshal(first.raw, &told))
		if first.status != http.StatusOK || told.To != ana || told.VerificationID != sent.ID || told.Recipient != recipientIn(t, sent) {
			s.Errorf("%d %s", first.status, first.raw)
		}
		if again := redeem(body, withKey(`"our-sign-up-00001"`)); string(again.raw) != string(first.raw) {
			s.Errorf("repeated: %s", again.raw)
		}
		if a := redeem(body, withKey(`"our-sign-up-00002"`)); a.status != http.StatusConflict || a.Type != "/problems/proof-redeemed" {
			s.Errorf("once more: %d %s", a.status, a.raw)
		}
		if a := redeem(`{}`); a.status != http.StatusUnprocessableEntity {
			s.Errorf("nothing: %d %s", a.status, a.raw)
		}
	})
}
