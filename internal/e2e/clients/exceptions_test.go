package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// From the file to the answer: known codes, and who gets none.
func TestTestRecipientsAndBlocks(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
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
	s.Env["SENDCODE_CONFIG"] = file
	s.Start(1)
	if !strings.Contains(s.Printed.String(), "let in with a code that is known") || strings.Contains(s.Printed.String(), "reviewer@") {
		s.Error("no warning at start, or one that shows the address")
	}
	a := s.Ask(0, "reviewer@example.com")
	if a.StatusCode != 202 || !strings.Contains(string(a.Raw), `"test":true`) {
		s.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	if c := s.Check(0, a.ID, "424242"); !c.Valid || !strings.Contains(string(c.Raw), `"test":true`) {
		s.Errorf("%s", c.Raw)
	}
	blocked := s.Ask(0, "a@bad.example")
	s.Await("a failure", func() bool {
		now := s.Do(0, http.MethodGet, "/v1/verifications/"+blocked.ID, "")
		return now.Send.Status == "failed" && now.Send.Reason == "blocked"
	})
	if d := s.Ask(0, "a@short.example"); d.StatusCode != 422 || d.Field != "to" || !strings.Contains(string(d.Raw), "disposable") {
		s.Errorf("%d %s", d.StatusCode, d.Raw)
	}
	s.Ask(0, apptest.Ana)
	s.AwaitMail(apptest.Ana, 1)
	if n := len(s.Mails()); n != 1 {
		s.Errorf("%d mails", n)
	}
}

// Two replicas share the breaker, and the page's own requests are limited by address.
func TestBreakerAndBrowsers(t *testing.T) {
	s := apptest.OnRealParts(t)
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("breaker: {limit: 3, window: 300s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"] = file
	s.Start(2)
	for i, to := range []string{"a@example.com", "b@example.com", "c@example.com"} {
		if a := s.Ask(i%2, to); a.StatusCode != 202 {
			t.Errorf("%d %s", a.StatusCode, a.Raw)
		}
	}
	for i := range 2 {
		if a := s.Ask(i, "d@example.com"); a.StatusCode != 429 || a.BlockedBy != "breaker" {
			t.Errorf("%d %s", a.StatusCode, a.Raw)
		}
	}
	if !strings.Contains(s.Printed.String(), "the breaker refuses") {
		t.Error("there was no alarm")
	}
	web := apptest.Embedded(t).Tenants().Start(1)
	a := web.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.As(apptest.PublicKey))
	if policy := a.Header.Get("RateLimit-Policy"); a.StatusCode != 202 || !strings.Contains(policy, `"client";q=100;w=3600`) || !strings.Contains(policy, `"network";q=1000;w=3600`) {
		t.Errorf("%d %s", a.StatusCode, policy)
	}
}
