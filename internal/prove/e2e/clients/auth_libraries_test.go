//go:build nightly

// Only `make nightly` runs these tests: they need libraries from npm.

package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

const maxAuthSample = 15 // lines of a sample in docs/javascript.md

// A person signs up through better-auth and Auth.js, which make the code, with our limits and our
// mail. A second request within the minute is refused, and the refusal says how long to wait. The
// earlier code still works.
func TestAuthLibraries(t *testing.T) {
	t.Parallel()
	blocks := blocksOf(t, "docs/javascript.md", "js")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d samples", len(blocks))
	}
	modules := servertest.NodeModules(t, "testdata/auth")
	s := apptest.Embedded(t).Write("sms: {countries: [DE]}").Start(1)
	for i, library := range []struct {
		driver string
		signUp func(*shopper)
	}{{"better-auth.mjs", (*shopper).byBetterAuth}, {"auth-js.mjs", (*shopper).byAuthJS}} {
		t.Run(library.driver, func(t *testing.T) {
			t.Parallel()
			if n := strings.Count(blocks[i], "\n"); n > maxAuthSample {
				t.Errorf("the sample has %d lines", n)
			}
			dir, node := t.TempDir(), servertest.Node(t)
			apptest.Must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
			for name, text := range map[string]string{
				"sample.mjs": blocks[i], "back.mjs": readFile(t, "docs/examples/back.mjs"),
				library.driver: readFile(t, "internal/prove/e2e/clients/testdata/auth/"+library.driver),
			} {
				apptest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			p := newShopper(t, s, "ana."+strings.TrimSuffix(library.driver, ".mjs")+"@example.com")
			p.starts(dir, []string{node, library.driver}, "BETTER_AUTH_SECRET=a secret of this test, and long enough",
				"BETTER_AUTH_URL="+p.shop, "BETTER_AUTH_TELEMETRY=0", "NODE_ENV=development")
			library.signUp(p)
			servertest.Same(t, "mails", len(s.AwaitMail(p.to, 1)), 1)
		})
	}
}

func (sh *shopper) byBetterAuth() {
	sh.Helper()
	post := func(path, more string) (*http.Response, string) {
		return sh.ask(http.MethodPost, "/api/auth"+path, "application/json", fmt.Sprintf(`{"email":%q%s}`, sh.to, more))
	}
	const send = "/email-otp/send-verification-otp"
	if answer, body := post(send, `,"type":"sign-in"`); answer.StatusCode != http.StatusOK {
		sh.Fatalf("a code: %d %s", answer.StatusCode, body)
	}
	code := sh.s.CodeIn(sh.s.AwaitMail(sh.to, 1)[0])
	const phone = "+4915123456789"
	sh.s.Is("a text message", sh.s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q}`, phone)), http.StatusAccepted)
	for _, way := range []struct{ path, more string }{
		{send, `,"type":"sign-in"`},
		{send, `,"type":"email-verification"`},
		{send, `,"type":"forget-password"`},
		{"/email-otp/request-password-reset", ""},
		{"/forget-password/email-otp", ""},
		{"/email-otp/request-email-change", fmt.Sprintf(`,"newEmail":%q,"email":"ben@example.com"`, sh.to)},
		{"/phone-number/send-otp", fmt.Sprintf(`,"phoneNumber":%q`, phone)},
		{"/phone-number/request-password-reset", fmt.Sprintf(`,"phoneNumber":%q`, phone)},
	} {
		sh.toldTheWait(post(way.path, way.more))
	}
	_, ways := sh.ask(http.MethodGet, "/ways", "", "")
	for _, path := range strings.Fields(ways) { // the paths at which better-auth's plugins send codes
		if !regexp.MustCompile(path + "['`]").MatchString(readFile(sh.T, "docs/javascript.md")) {
			sh.Errorf("the page does not name %s", path)
		}
	}
	if answer, body := sh.ask(http.MethodPost, "/api/auth"+send, "application/json",
		`{"email":"ana","type":"sign-in"}`); answer.StatusCode != http.StatusUnprocessableEntity {
		sh.Errorf("a mistyped address: %d %s", answer.StatusCode, body)
	}
	if answer, body := post("/sign-in/email-otp", `,"otp":"`+sh.s.Wrong(code)+`"`); answer.StatusCode == http.StatusOK {
		sh.Errorf("a wrong code: %d %s", answer.StatusCode, body)
	}
	if answer, body := post("/sign-in/email-otp", `,"otp":"`+code+`"`); answer.StatusCode != http.StatusOK ||
		!strings.Contains(body, sh.to) {
		sh.Errorf("the earlier code: %d %s", answer.StatusCode, body)
	}
}

// toldTheWait checks that an answer of better-auth has our wait.
func (sh *shopper) toldTheWait(answer *http.Response, body string) {
	sh.Helper()
	var told struct {
		Message    string
		RetryAfter int `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(body), &told); err != nil || answer.StatusCode != http.StatusTooManyRequests ||
		told.RetryAfter < 1 || told.RetryAfter > 60 ||
		answer.Header.Get("Retry-After") != fmt.Sprint(told.RetryAfter) ||
		told.Message != fmt.Sprintf("The next code can be sent in %d s.", told.RetryAfter) {
		sh.Errorf("too early at %s: %d %v %s", answer.Request.URL.Path, answer.StatusCode, answer.Header, body)
	}
}

func (sh *shopper) byAuthJS() {
	sh.Helper()
	_, body := sh.ask(http.MethodGet, "/api/auth/csrf", "", "")
	var csrf struct{ CSRFToken string }
	apptest.Must(sh.T, json.Unmarshal([]byte(body), &csrf))
	signIn := func() string {
		form := url.Values{"csrfToken": {csrf.CSRFToken}, "email": {sh.to}}
		answer, _ := sh.ask(http.MethodPost, "/api/auth/signin/code", "application/x-www-form-urlencoded", form.Encode())
		return strings.TrimPrefix(answer.Header.Get("Location"), sh.shop)
	}
	enter := func(code string) string {
		answer, _ := sh.ask(http.MethodGet, "/api/auth/callback/code?"+url.Values{"email": {sh.to}, "token": {code}}.Encode(), "", "")
		return strings.TrimPrefix(answer.Header.Get("Location"), sh.shop)
	}
	if to := signIn(); !strings.HasPrefix(to, "/api/auth/verify-request") {
		sh.Fatalf("a code: sent to %s", to)
	}
	code := regexp.MustCompile(`(?m)^[B-DF-HJ-NP-TV-XZ]{8}$`).FindString(strings.ReplaceAll(sh.s.AwaitMail(sh.to, 1)[0].Text, "\r", ""))
	if to := signIn(); !regexp.MustCompile(`^/sign-in\?retry_after=([1-9]|[1-5][0-9]|60)$`).MatchString(to) {
		sh.Errorf("too early: sent to %s", to)
	}
	if to := enter("BCDFGHJK"); !strings.Contains(to, "error=Verification") {
		sh.Errorf("a wrong code: sent to %s", to)
	}
	if to := enter(code); strings.Contains(to, "error") {
		sh.Errorf("the earlier code: sent to %s", to)
	}
	if _, body := sh.ask(http.MethodGet, "/api/auth/session", "", ""); !strings.Contains(body, sh.to) {
		sh.Errorf("the session: %s", body)
	}
}
