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
	"sendcode/internal/config"
	"sendcode/internal/openid/openidtest"
)

// visitor is a browser of an administrator: it keeps cookies and follows no redirect.
type visitor struct {
	*testing.T
	*http.Client
}

func newVisitor(t *testing.T) visitor {
	jar, _ := cookiejar.New(nil)
	return visitor{t, &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// PostForm posts a form as a page of this origin does.
func (v visitor) PostForm(address string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	apptest.Must(v.T, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return v.Do(r)
}

// read returns the status, the body and the header of what came back.
func (v visitor) read(resp *http.Response, err error) (int, string, http.Header) {
	v.Helper()
	apptest.Must(v.T, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(resp.Body)
	return resp.StatusCode, body.String(), resp.Header
}

// change does to an account what the command does.
func change(t *testing.T, cfg config.Config, c app.AccountChange) (said string, err error) {
	var out bytes.Buffer
	err = app.ChangeAccount(t.Context(), cfg, c, &out)
	return out.String(), err
}

// Accounts by a shell: not beside a service on a file, and while it is stopped; then a login with
// the password that was printed.
func TestAccountsByShell(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Start(1)
	if _, err := change(t, s.Config(), app.AccountChange{Do: "list"}); err == nil ||
		!strings.Contains(err.Error(), "use /admin/accounts") {
		t.Errorf("beside the service: %v", err)
	}
	s.Stop(0)
	added, err := change(t, s.Config(), app.AccountChange{Name: "mei", Role: "owner", Do: "add", Reason: "first"})
	apptest.Must(t, err)
	list, err := change(t, s.Config(), app.AccountChange{Do: "list"})
	if err != nil || !strings.HasPrefix(list, "admin\towner\topen\tsettings\t\n") ||
		!strings.Contains(list, "\nmei\towner\topen\t") {
		t.Errorf("%q %v", list, err)
	}
	for _, wrong := range []app.AccountChange{
		{Name: "mei", Role: "operator", Do: "add", Reason: "again"}, {Name: "li", Role: "operator", Do: "add"},
		{Name: "li", Do: "close", Reason: "x"},
		{Name: "admin", Do: "factor", Reason: "lost"},
	} {
		if _, err := change(t, s.Config(), wrong); err == nil {
			t.Errorf("%+v: done", wrong)
		}
	}
	s.Start(1)
	browser, password := newVisitor(t), strings.Split(added, "\n")[1]
	status, _, _ := browser.read(browser.PostForm(s.Replicas[1].Base+"/admin/login",
		url.Values{"username": {"mei"}, "password": {password}}))
	if status != http.StatusSeeOther {
		t.Errorf("%d, %q", status, added)
	}
}

// beside has the stack's console take a provider's word.
func beside(s *apptest.Stack) *openidtest.Provider {
	s.Helper()
	p := openidtest.New(s, "http://127.0.0.1/admin/oidc/callback")
	secret := filepath.Join(s.TempDir(), "secret")
	apptest.Must(s.T, os.WriteFile(secret, []byte(openidtest.ClientSecret+"\n"), 0o600))
	s.Env["SENDCODE_OIDC_CLIENT_SECRET_FILE"] = secret
	s.Write("admin:\n  oidc:\n    issuer: " + p.URL + "\n    client_id: " + openidtest.ClientID +
		"\n    redirect_url: " + p.Redirect +
		"\n    role_claim: groups\n    roles: {support: reader}\n")
	return p
}

// A login that is begun at one replica and comes back to another; it comes back once, and holds on
// both.
func TestProviderOverReplicas(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	delete(s.Env, "SENDCODE_ADMIN_PASSWORD")
	p := beside(s)
	p.Claims = map[string]any{"email": "mei@example.org", "email_verified": true}
	s.Start(2)
	_, err := change(t, s.Config(),
		app.AccountChange{Name: "mei", Role: "operator", Do: "add", Reason: "on call", Identity: "mei@example.org"})
	apptest.Must(t, err)
	browser := newVisitor(t)
	_, page, _ := browser.read(browser.PostForm(s.Replicas[0].Base+"/admin/oidc/start", url.Values{}))
	_, rest, _ := strings.Cut(page, "0; url=")
	address, _, _ := strings.Cut(rest, `"`)
	_, _, header := browser.read(browser.Get(html.UnescapeString(address)))
	answer := strings.TrimPrefix(header.Get("Location"), "http://127.0.0.1")
	here, _ := url.Parse(s.Replicas[0].Base)
	state := browser.Jar.Cookies(here)
	if status, body, _ := browser.read(browser.Get(s.Replicas[1].Base + answer)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for i, r := range s.Replicas {
		if status, body, _ := browser.read(
			browser.Get(r.Base + "/v1/admin/acts?what=login")); status != http.StatusOK ||
			!strings.Contains(body, `"who":"mei"`) {
			t.Errorf("replica %d: %d %s", i, status, body)
		}
	}
	browser.Jar.SetCookies(here, state)
	if status, _, _ := browser.read(browser.Get(s.Replicas[0].Base + answer)); status != http.StatusBadRequest {
		t.Errorf("the same once more: %d", status)
	}
	if s.Logged(openidtest.ClientSecret) {
		t.Error("the secret is in the log")
	}
	var out strings.Builder
	p.Do(func() { p.Document = map[string]any{"issuer": "https://evil.example"} })
	if err := doctor.Examine(t.Context(), s.Config(), &out); err == nil ||
		!strings.Contains(out.String(), "✗ provider of logins: openid: untrusted: other_issuer") {
		t.Errorf("the doctor: %v: %s", err, &out)
	}
}

// What an erased person leaves in all that is kept: nothing but the hash, and a full quota.
func TestEraseOnRealParts(t *testing.T) {
	t.Parallel()
	const person = "quentin.unusual@unusual.example"
	s := apptest.OnRealParts(t).Start(2)
	first := s.Post("/v1/verifications", `{"channel":"email","to":"`+person+`","reference":"order of quentin"}`)
	s.AwaitMail(person, 1)
	s.Ask(1, person)
	revealed := s.ByAdmin(0, "/v1/admin/sends/"+first.Send.ID+"/reveal", `{"reason":"ticket 7"}`)
	s.Is("a look", revealed, http.StatusOK, strings.Contains(string(revealed.Raw), person))
	s.Await("the other replica's refusal", func() bool {
		return strings.Contains(string(s.Get("/v1/admin/sends?status=refused", apptest.AsAdmin).Raw), `"refused"`)
	})
	if !strings.Contains(s.Dump(), "q•••") {
		t.Fatal("the search finds nothing")
	}
	s.Is("the answer", s.ByAdmin(1, "/v1/admin/erase",
		`{"channel":"email","to":"`+person+`","reason":"letter of 3 March"}`), http.StatusNoContent)
	dump := s.Dump()
	for _, trace := range []string{"quentin", "unusual.example", "q•••", "127.0.0.0"} {
		if strings.Contains(dump, trace) {
			t.Errorf("%q is in the database", trace)
		}
	}
	s.Is("being erased freed quota", s.Ask(0, person), http.StatusTooManyRequests)
}
