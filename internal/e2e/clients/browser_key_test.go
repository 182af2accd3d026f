package clients

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

const shop = "https://shop.example"

func origin(o string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Origin", o) } }

// The pages of an app's origins, and no others, may use its public key and read what is answered (SEC-14).
func TestOriginsOfAPublicKey(t *testing.T) {
	s := apptest.Embedded(t).Tenants().Start(1)
	body := `{"channel":"email","to":"` + apptest.Ana + `"}`
	for name, c := range map[string]struct {
		change []func(*http.Request)
		status int
		reads  bool
	}{
		"its page":               {[]func(*http.Request){origin(shop)}, 202, true},
		"another page":           {[]func(*http.Request){origin("https://evil.example")}, 403, false},
		"a page that ends alike": {[]func(*http.Request){origin("https://evilshop.example")}, 403, false},
		"one that begins alike":  {[]func(*http.Request){origin(shop + ".evil.example")}, 403, false},
		"the same over http":     {[]func(*http.Request){origin("http://shop.example")}, 403, false},
		"another port":           {[]func(*http.Request){origin(shop + ":8443")}, 403, false},
		"in capitals":            {[]func(*http.Request){origin("https://SHOP.example")}, 403, false},
		"a sandbox":              {[]func(*http.Request){origin("null")}, 403, false},
		"no page":                {nil, 403, false},
		"our own page":           {[]func(*http.Request){func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }}, 202, false},
		"a page beside ours":     {[]func(*http.Request){func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }}, 403, false},
	} {
		a := s.Do(0, http.MethodPost, "/v1/verifications", body, append(c.change, apptest.Bearer(apptest.PublicKey))...)
		allowed := a.Header.Get("Access-Control-Allow-Origin")
		if a.StatusCode != c.status || (allowed == shop) != c.reads || allowed != "" && allowed != shop || a.Header.Get("Access-Control-Allow-Credentials") != "" {
			s.Errorf("%s: %d, may read: %q", name, a.StatusCode, allowed)
		}
		if exposed := a.Header.Get("Access-Control-Expose-Headers"); c.reads && !strings.Contains(exposed, "Retry-After") {
			s.Errorf("%s: exposes %q", name, exposed)
		}
	}
	if a := s.Do(0, http.MethodPost, "/v1/verifications", body, origin("https://evil.example")); a.StatusCode != 202 || a.Header.Get("Access-Control-Allow-Origin") != "" {
		s.Errorf("a secret key: %d %v", a.StatusCode, a.Header)
	}
}

func TestPreflight(t *testing.T) {
	s := apptest.Embedded(t).Tenants().Start(1)
	ask := func(from, path string) http.Header {
		return s.Do(0, http.MethodOptions, path, "", origin(from), func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
		}).Header
	}
	h := ask(shop, "/v1/verifications")
	if h.Get("Access-Control-Allow-Origin") != shop || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") ||
		!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") || !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
		s.Errorf("%v", h)
	}
	for _, c := range [][2]string{{"https://evil.example", "/v1/verifications"}, {"null", "/v1/verifications"}, {shop, "/v1/admin/sends"}, {shop, "/"}} {
		if h := ask(c[0], c[1]); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Access-Control-Allow-Headers") != "" {
			s.Errorf("%v: %v", c, h)
		}
	}
	none := apptest.Embedded(t).Start(1)
	if h := none.Do(0, http.MethodOptions, "/v1/verifications", "", origin(shop)).Header; h.Get("Access-Control-Allow-Origin") != "" {
		s.Errorf("without any origins: %v", h)
	}
}

// Two keys of one app, of which the older has ended: that is how a key is changed without a pause.
func TestKeysEndAndAreSeen(t *testing.T) {
	s := apptest.Embedded(t)
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	text := fmt.Sprintf("apps:\n  - name: shop\n    keys:\n      - {id: old, kind: secret, sha256: %x, expires: %s}\n      - {id: new, kind: secret, sha256: %x, expires: %s}\n",
		sha256.Sum256([]byte("sk_old_abcdefghijklmnop")), time.Now().Add(-time.Second).Format(time.RFC3339),
		sha256.Sum256([]byte("sk_new_abcdefghijklmnop")), time.Now().Add(time.Hour).Format(time.RFC3339))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"] = file
	s.Start(1)
	for key, status := range map[string]int{"sk_old_abcdefghijklmnop": 401, "sk_new_abcdefghijklmnop": 200} {
		if a := s.Do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`, apptest.Bearer(key)); a.StatusCode != status {
			t.Errorf("%.6s…: %d %s", key, a.StatusCode, a.Raw)
		}
	}
	seen := string(s.Do(0, http.MethodGet, "/metrics", "").Raw)
	if !strings.Contains(seen, `sendcode_api_key_last_used_timestamp_seconds{app="shop",key="old"} 0`) ||
		!strings.Contains(seen, `sendcode_api_key_last_used_timestamp_seconds{app="shop",key="new"} 1.`) {
		t.Errorf("%s", seen)
	}
}
