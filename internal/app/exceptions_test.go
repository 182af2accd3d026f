package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// From the file to the answer: known codes, and who gets none.
func TestTestRecipientsAndBlocks(t *testing.T) {
	onEach(t, func(s *stack) {
		dir := s.TempDir()
		list := filepath.Join(dir, "disposable.txt")
		file := filepath.Join(dir, "sendcode.yaml")
		text := "test_recipients: [{channel: email, to: reviewer@example.com, code: \"424242\", expires: 2099-01-31}]\n" +
			"block: [{domain: bad.example, reason: abuse}]\ndisposable_domains: " + list + "\n"
		for name, content := range map[string]string{list: "short.example\n", file: text} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				s.Fatal(err)
			}
		}
		s.env["SENDCODE_CONFIG"] = file
		s.start(1)
		if !strings.Contains(s.printed.String(), "let in with a code that is known") || strings.Contains(s.printed.String(), "reviewer@") {
			s.Error("no warning at start, or one that shows the address")
		}
		a := s.ask(0, "reviewer@example.com")
		if a.status != 202 || !strings.Contains(string(a.raw), `"test":true`) {
			s.Errorf("%d %s", a.status, a.raw)
		}
		if c := s.check(0, a.ID, "424242"); !c.Valid || !strings.Contains(string(c.raw), `"test":true`) {
			s.Errorf("%s", c.raw)
		}
		blocked := s.ask(0, "a@bad.example")
		s.await("a failure", func() bool {
			now := s.do(0, http.MethodGet, "/v1/verifications/"+blocked.ID, "")
			return now.Send.Status == "failed" && now.Send.Reason == "blocked"
		})
		if d := s.ask(0, "a@short.example"); d.status != 422 || d.Field != "to" || !strings.Contains(string(d.raw), "disposable") {
			s.Errorf("%d %s", d.status, d.raw)
		}
		s.ask(0, ana)
		s.awaitMail(ana, 1)
		if n := len(s.mails()); n != 1 {
			s.Errorf("%d mails", n)
		}
	})
}

// Two replicas share the breaker, and the page's own requests are limited by address.
func TestBreakerAndBrowsers(t *testing.T) {
	s := onRealParts(t)
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("breaker: {limit: 3, window: 300s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"] = file
	s.start(2)
	for i, to := range []string{"a@example.com", "b@example.com", "c@example.com"} {
		if a := s.ask(i%2, to); a.status != 202 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	for i := range 2 {
		if a := s.ask(i, "d@example.com"); a.status != 429 || a.BlockedBy != "breaker" {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if !strings.Contains(s.printed.String(), "the breaker refuses") {
		t.Error("nobody was called")
	}
	web := embedded(t).tenants().start(1)
	a := web.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+ana+`"}`, as(publicKey))
	if policy := a.header.Get("RateLimit-Policy"); a.status != 202 || !strings.Contains(policy, `"client";q=100;w=3600`) || !strings.Contains(policy, `"network";q=1000;w=3600`) {
		t.Errorf("%d %s", a.status, policy)
	}
}
