package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/api"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

const (
	secret = "sk_fuzz_0123456789abcdef"
	public = "pk_fuzz_0123456789abcdef"
	shop   = "https://shop.example"
)

// newAPI returns the API of a new process with its own database. The process runs until the test
// ends.
func newAPI(t testing.TB, change ...func(*verificationtest.Settings)) *echo.Echo {
	t.Helper()
	settings := verificationtest.TestSettings(t)
	verificationtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour},
		quota.Rule{Name: "net", Scope: quota.IP, Limit: 10_000, Window: time.Hour})(&settings)
	for _, c := range change {
		c(&settings)
	}
	return verificationtest.Start(t, settings).Routes(api.Keys{keyOf("shop", secret), keyOf("shop", public)}, api.Services{})
}

// keyOf returns a secret key of an app, or, for a text that begins with pk_, a public key for the
// pages of the shop.
func keyOf(app, text string) *api.Key {
	key := &api.Key{App: app, ID: "k", Kind: verification.BackEnd, SHA256: sha256.Sum256([]byte(text))}
	if strings.HasPrefix(text, "pk_") {
		key.Kind, key.Origins = verification.Browser, []string{shop}
	}
	return key
}

// For any request of any caller, the answer has no status of 500 or above but 503, contains no key
// and no address, and is valid if it is JSON. No header of the answer contains a line break.
func FuzzAPI(f *testing.F) {
	e := newAPI(f)
	f.Fuzz(func(t *testing.T, path, body, header string, back bool) {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodOptions} {
			r := httptest.NewRequest(method, "/", strings.NewReader(body))
			r.URL.Path, r.RequestURI = path, ""
			r.Header.Set("Content-Type", "application/json")
			r.Header["Idempotency-Key"], r.Header["Accept-Language"] = []string{header}, []string{header}
			if !strings.Contains(header, "wait") { // a wait would take too much time
				r.Header["Prefer"] = []string{header}
			}
			r.Header.Set("Authorization", "Bearer "+secret)
			if !back {
				r.Header.Set("Authorization", "Bearer "+public)
				r.Header["Origin"] = []string{shop}
			}
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			what, got := method+" "+path, w.Body.Bytes()
			if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%q with %q: %d %s", what, body, w.Code, got)
			}
			if kind := w.Header().Get("Content-Type"); len(got) > 0 && strings.Contains(kind, "json") && !json.Valid(got) {
				t.Errorf("%q: %d, not JSON: %s", what, w.Code, got)
			}
			for _, hidden := range []string{secret, public, "ana@example.com"} {
				if bytes.Contains(got, []byte(hidden)) && !strings.Contains(what, hidden) {
					t.Errorf("%q: shows %q: %s", what, hidden, got)
				}
			}
			for name, values := range w.Header() {
				if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
					t.Errorf("%q: header %s is %q", what, name, values)
				}
			}
		}
	})
}
