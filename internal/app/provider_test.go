package app

import (
	"bytes"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/openid/openidtest"
)

// beside has the stack's console take a provider's word.
func (s *stack) beside() *openidtest.Provider {
	s.Helper()
	p := openidtest.New(s, "http://127.0.0.1/admin/oidc/callback")
	dir := s.TempDir()
	files := map[string]string{
		"secret": openidtest.ClientSecret + "\n",
		"yaml": "admin:\n  oidc:\n    issuer: " + p.URL + "\n    client_id: " + openidtest.ClientID + "\n    redirect_url: " + p.Redirect +
			"\n    roles: {claim: groups, values: {support: reader}}\n",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	s.env["SENDCODE_CONFIG"], s.env["SENDCODE_OIDC_CLIENT_SECRET_FILE"] = filepath.Join(dir, "yaml"), filepath.Join(dir, "secret")
	return p
}

// A login that is begun at one replica and comes back to another; it comes back once, and holds on both.
func TestProviderOverReplicas(t *testing.T) {
	t.Parallel()
	s := onRealParts(t)
	delete(s.env, "SENDCODE_ADMIN_PASSWORD")
	p := s.beside()
	p.Claims = map[string]any{"email": "mei@example.org", "email_verified": true}
	s.start(2)
	err := ChangeAccount(t.Context(), s.config(), AccountChange{Name: "mei", Role: "operator", Do: "add", Reason: "on call", Identity: "mei@example.org"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	read := func(resp *http.Response, err error) (int, string, http.Header) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		return resp.StatusCode, body.String(), resp.Header
	}
	_, page, _ := read(browser.PostForm(s.replicas[0].base+"/admin/oidc/start", url.Values{}))
	_, rest, _ := strings.Cut(page, "0; url=")
	address, _, _ := strings.Cut(rest, `"`)
	_, _, header := read(browser.Get(html.UnescapeString(address)))
	answer := strings.TrimPrefix(header.Get("Location"), "http://127.0.0.1")
	here, _ := url.Parse(s.replicas[0].base)
	errand := jar.Cookies(here)
	if status, body, _ := read(browser.Get(s.replicas[1].base + answer)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for i := range 2 {
		if status, body, _ := read(browser.Get(s.replicas[i].base + "/v1/admin/acts?what=login")); status != http.StatusOK || !strings.Contains(body, `"who":"mei"`) {
			t.Errorf("replica %d: %d %s", i, status, body)
		}
	}
	jar.SetCookies(here, errand)
	if status, _, _ := read(browser.Get(s.replicas[0].base + answer)); status != http.StatusBadRequest {
		t.Errorf("the same once more: %d", status)
	}
	if strings.Contains(s.printed.String(), openidtest.ClientSecret) {
		t.Error("the secret is in the log")
	}
}

func TestDoctorAsksTheProvider(t *testing.T) {
	s := embedded(t)
	p := s.beside()
	var out bytes.Buffer
	if err := Doctor(t.Context(), s.config(), &out); err != nil || !strings.Contains(out.String(), "✓ provider of logins: 127.0.0.1") {
		t.Errorf("%v: %s", err, &out)
	}
	p.Do(func() { p.Document = map[string]any{"issuer": "https://evil.example"} })
	out.Reset()
	if err := Doctor(t.Context(), s.config(), &out); err == nil || !strings.Contains(out.String(), "✗ provider of logins: openid: untrusted: other_issuer") {
		t.Errorf("%v: %s", err, &out)
	}
}
