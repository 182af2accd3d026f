package operators

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

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/openid/openidtest"
)

// beside has the stack's console take a provider's word.
func beside(s *apptest.Stack) *openidtest.Provider {
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
	s.Env["SENDCODE_CONFIG"], s.Env["SENDCODE_OIDC_CLIENT_SECRET_FILE"] = filepath.Join(dir, "yaml"), filepath.Join(dir, "secret")
	return p
}

// A login that is begun at one replica and comes back to another; it comes back once, and holds on both.
func TestProviderOverReplicas(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	delete(s.Env, "SENDCODE_ADMIN_PASSWORD")
	p := beside(s)
	p.Claims = map[string]any{"email": "mei@example.org", "email_verified": true}
	s.Start(2)
	err := app.ChangeAccount(t.Context(), s.Config(), app.AccountChange{Name: "mei", Role: "operator", Do: "add", Reason: "on call", Identity: "mei@example.org"}, &bytes.Buffer{})
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
	_, page, _ := read(browser.PostForm(s.Replicas[0].Base+"/admin/oidc/start", url.Values{}))
	_, rest, _ := strings.Cut(page, "0; url=")
	address, _, _ := strings.Cut(rest, `"`)
	_, _, header := read(browser.Get(html.UnescapeString(address)))
	answer := strings.TrimPrefix(header.Get("Location"), "http://127.0.0.1")
	here, _ := url.Parse(s.Replicas[0].Base)
	errand := jar.Cookies(here)
	if status, body, _ := read(browser.Get(s.Replicas[1].Base + answer)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for i := range 2 {
		if status, body, _ := read(browser.Get(s.Replicas[i].Base + "/v1/admin/acts?what=login")); status != http.StatusOK || !strings.Contains(body, `"who":"mei"`) {
			t.Errorf("replica %d: %d %s", i, status, body)
		}
	}
	jar.SetCookies(here, errand)
	if status, _, _ := read(browser.Get(s.Replicas[0].Base + answer)); status != http.StatusBadRequest {
		t.Errorf("the same once more: %d", status)
	}
	if strings.Contains(s.Printed.String(), openidtest.ClientSecret) {
		t.Error("the secret is in the log")
	}
}

func TestDoctorAsksTheProvider(t *testing.T) {
	s := apptest.Embedded(t)
	p := beside(s)
	var out bytes.Buffer
	if err := doctor.Examine(t.Context(), s.Config(), &out); err != nil || !strings.Contains(out.String(), "✓ provider of logins: 127.0.0.1") {
		t.Errorf("%v: %s", err, &out)
	}
	p.Do(func() { p.Document = map[string]any{"issuer": "https://evil.example"} })
	out.Reset()
	if err := doctor.Examine(t.Context(), s.Config(), &out); err == nil || !strings.Contains(out.String(), "✗ provider of logins: openid: untrusted: other_issuer") {
		t.Errorf("%v: %s", err, &out)
	}
}
