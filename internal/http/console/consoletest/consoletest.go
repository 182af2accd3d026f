// Package consoletest drives the console's pages in tests. It has a browser that keeps cookies, a
// clock that a test moves, an authenticator app, and an identity provider.
package consoletest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/codes/keys"
)

// Every console in a test has these credentials and this address.
const (
	Password = "correct horse battery"
	Token    = "tok_0123456789abcdefghij"
	Address  = "https://console.example"
)

// Start is the time at which every test begins.
var Start = time.Date(2026, 3, 4, 14, 2, 20, 118_000_000, time.UTC)

// Clock is a clock that a test moves. The zero Clock stands at Start.
type Clock struct{ since atomic.Int64 }

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return Start.Add(time.Duration(c.since.Load())) }

// Add moves the clock.
func (c *Clock) Add(d time.Duration) { c.since.Add(int64(d)) }

// Ring returns a key ring with one new key.
func Ring(t *testing.T) *keys.Ring {
	t.Helper()
	ring, err := keys.Parse(keys.GenerateEntry())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Browser is a browser that keeps cookies.
type Browser struct {
	*testing.T
	Handler http.Handler
	Cookies map[string]*http.Cookie // by name, without "__Host-"
	Base    string                  // scheme and host
	From    string                  // host:port of the peer, as in http.Request.RemoteAddr
}

// Do makes a request; header alternates names and values.
func (b *Browser) Do(method, path string, body string, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	req := httptest.NewRequest(method, b.Base+path, strings.NewReader(body))
	if method != http.MethodGet {
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	req.RemoteAddr = b.From
	for _, c := range b.Cookies {
		req.AddCookie(c)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	b.Handler.ServeHTTP(rec, req)
	for _, c := range rec.Result().Cookies() {
		name := strings.TrimPrefix(c.Name, "__Host-")
		b.Cookies[name] = c
		if c.MaxAge < 0 {
			delete(b.Cookies, name)
		}
	}
	return rec
}

// Get reads a page.
func (b *Browser) Get(path string, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Do(http.MethodGet, path, "", header...)
}

// Post sends a form.
func (b *Browser) Post(path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Do(http.MethodPost, path, form.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
}

// Script makes a request with the token and a JSON body, and decodes the answer. It fails the test
// if the answer has another status, or shows the address of ana, a sealed value or a nonce.
func (b *Browser) Script(status int, method, path, body string) (answer map[string]any) {
	b.Helper()
	rec := Want(b.T, b.Do(method, path, body, "Content-Type", "application/json", "Authorization", "Bearer "+Token), status)
	Lacks(b.T, rec, "ana@", `"sealed"`, "nonce")
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil && rec.Body.Len() > 0 {
		b.Fatalf("%v: %s", err, rec.Body)
	}
	return answer
}

// List returns the rows of the JSON answer of path; name is the key of the rows.
func (b *Browser) List(name, path string) (rows []map[string]any) {
	b.Helper()
	for _, row := range b.Script(http.StatusOK, http.MethodGet, path, "")[name].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

// Login logs in to the configured account.
func (b *Browser) Login(password string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Post("/admin/login", url.Values{"password": {password}})
}

// LoginAs logs in with a name and a password.
func (b *Browser) LoginAs(name, password string) *httptest.ResponseRecorder {
	b.Helper()
	return b.Post("/admin/login", url.Values{"username": {name}, "password": {password}})
}

// Want fails the test and shows the body if the status of the response is not the wanted one. It
// returns the response.
func Want(t *testing.T, rec *httptest.ResponseRecorder, status int) *httptest.ResponseRecorder {
	t.Helper()
	if rec.Code != status {
		t.Fatalf("status %d, want %d: %s", rec.Code, status, rec.Body)
	}
	return rec
}

// Redirects fails the test unless the response redirects to the address.
func Redirects(t *testing.T, rec *httptest.ResponseRecorder, to string) {
	t.Helper()
	if got := rec.Header().Get("Location"); rec.Code != http.StatusSeeOther || got != to {
		t.Errorf("%d to %q, want %q", rec.Code, got, to)
	}
}

// Contains fails the test unless all texts are in the response.
func Contains(t *testing.T, rec *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(rec.Body.String(), text) {
			t.Errorf("%q is missing in: %s", text, content(rec))
		}
	}
}

// Lacks fails the test if the response contains one of the texts.
func Lacks(t *testing.T, rec *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(rec.Body.String(), text) {
			t.Errorf("%q is in: %s", text, content(rec))
		}
	}
}

// content returns the body of a response. Of a page, it returns only the part from <main> on.
func content(rec *httptest.ResponseRecorder) string {
	if _, main, page := strings.Cut(rec.Body.String(), "<main"); page {
		return "<main" + main
	}
	return rec.Body.String()
}
