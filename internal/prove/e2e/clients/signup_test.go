//go:build nightly

// Only `make nightly` runs these tests: they need node and Python.

package clients

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

const maxSignUp = 22 // lines of the back end of a sign-up

// The sign-ups in docs/examples are short, and work. A person comes, enters a code on our page, and
// is welcomed under the proven address. A reference signs no account up if it was used before, is
// forged, belongs to another browser, or is of another purpose.
func TestSignUpExamplesWork(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(testing.TB) string{"signup.mjs": servertest.Node, "signup.py": servertest.Python} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := readFile(t, "docs/examples/"+name)
			if lines := strings.Count(text, "\n"); lines == 0 || lines > maxSignUp {
				t.Fatalf("%d lines", lines)
			}
			file := filepath.Join(t.TempDir(), name)
			apptest.Must(t, os.WriteFile(file, []byte(text), 0o600))
			signUpWith(t, program(t), file)
			whileAway(t, program(t), file)
			whileAnotherAnswers(t, program(t), file)
		})
	}
}

// whileAway checks that the back end reports that the service is away, and continues to run.
func whileAway(t *testing.T, program, file string) {
	t.Helper()
	p := newShopper(t, apptest.Embedded(t).Start(1), apptest.Ana)
	p.starts(filepath.Dir(file), []string{program, file}, "CODES_URL=http://127.0.0.1:1")
	for _, path := range []string{"/signup?state=x&reference=y", "//", "/signup?state=x&reference=y"} {
		r, err := http.NewRequest(http.MethodGet, p.shop+path, nil)
		apptest.Must(t, err)
		r.Header.Set("Cookie", "state-x=1")
		answer, err := http.DefaultTransport.RoundTrip(r)
		apptest.Must(t, err)
		answer.Body.Close()
		servertest.Same(t, path, answer.StatusCode == http.StatusServiceUnavailable, path != "//")
	}
}

// whileAnotherAnswers shows that a person who comes back with a reference may reload while another
// program answers in the service's place, and is then signed up with the same reference.
func whileAnotherAnswers(t *testing.T, program, file string) {
	t.Helper()
	const key = "sk_ofthesignupabcdefghijABCDEFGHIJ"
	s := apptest.Embedded(t)
	p := newShopper(t, s, apptest.Ana)
	s.Write(fmt.Sprintf(
		"apps: [{name: shop, return_urls: [%q], keys: [{id: k, kind: secret, scopes: [check], sha256: %x}]}]\n",
		p.shop+"/signup", sha256.Sum256([]byte(key))))
	s.Start(1)
	other := newImpostor(t, s)
	p.starts(filepath.Dir(file), []string{program, file}, "CODES_KEY="+key, "CODES_URL="+other.URL)
	begun, _ := p.ask(http.MethodGet, "/signup", "", "")
	page, err := begun.Location()
	apptest.Must(t, err)
	back := approved(s, "shop", "default", p.to, page.Query().Get("return_url"))
	other.tryEachAnswer("", func(what string) {
		if answer, said := p.ask(http.MethodGet, back.RequestURI(), "", ""); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another program answers %s: %d %s", what, answer.StatusCode, said)
		}
	})
	_, said := p.ask(http.MethodGet, back.RequestURI(), "", "")
	servertest.Same(t, "the person later", said, "Welcome, "+p.to)
}

func signUpWith(t *testing.T, program, file string) {
	t.Helper()
	const key = "sk_ofthesignupabcdefghijABCDEFGHIJ"
	s := apptest.Embedded(t)
	shopper := newShopper(t, s, apptest.Ana)
	shop := shopper.shop
	s.Write(fmt.Sprintf(
		"purposes: {newsletter: {kind: confirm, code: {length: 8}}}\n"+
			"apps: [{name: shop, page_purposes: [newsletter], return_urls: [%q], keys: [{id: k, kind: secret, scopes: [check], sha256: %x}]}]\n",
		shop+"/signup", sha256.Sum256([]byte(key))))
	s.Start(1)
	shopper.starts(filepath.Dir(file), []string{program, file}, "CODES_KEY="+key)
	browser := func() *http.Client {
		jar, _ := cookiejar.New(nil) // without options, New never fails
		return &http.Client{Jar: jar}
	}
	person := browser()
	ask := func(c *http.Client, address string) (status int, text string) {
		answer, err := c.Get(address)
		apptest.Must(t, err)
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		apptest.Must(t, err)
		return answer.StatusCode, string(raw)
	}
	get := func(c *http.Client, address string) string {
		status, text := ask(c, address)
		if status != http.StatusOK {
			t.Errorf("%s: %d", address, status)
		}
		return text
	}
	begin := func(c *http.Client) *url.URL { // returns the URL to which the back end sends a person
		client := *c
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer, err := client.Get(shop + "/signup")
		apptest.Must(t, err)
		answer.Body.Close()
		page, err := answer.Location()
		apptest.Must(t, err)
		return page
	}
	page := begin(person)
	if html := get(person, page.String()); !strings.Contains(html, "<send-code") {
		t.Fatalf("the back end leads to %s", html)
	}
	begin(person) // in another tab
	back := approved(s, "shop", "default", apptest.Ana, page.Query().Get("return_url"))
	if status, text := ask(browser(), back.String()); status != http.StatusBadRequest || !strings.Contains(text, "in another browser") {
		t.Errorf("another browser: %d %s", status, text)
	}
	servertest.Same(t, "the person", get(person, back.String()), "Welcome, "+apptest.Ana)
	reader := browser()
	of := approved(s, "shop", "newsletter", "reader@example.com", begin(reader).Query().Get("return_url"))
	if got := get(reader, of.String()); strings.HasPrefix(got, "Welcome, ") {
		t.Errorf("a reader of the newsletter: %s", got)
	}
	for what, reference := range map[string]string{"used": back.Query().Get("reference"), "forged": strings.Repeat("x", 60)} {
		// the same person begins again; the page will return the person to the URL that the back
		// end gives
		page := begin(person)
		if got := get(person, page.Query().Get("return_url")+"&reference="+reference); strings.HasPrefix(got, "Welcome, ") {
			t.Errorf("a reference that was %s: %s", what, got)
		}
	}
}
