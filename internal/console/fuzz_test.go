package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sendcode/internal/console/consoletest"
)

// Whatever stands in the address line or in a body, the console answers, and never with a 500.
func FuzzConsole(f *testing.F) {
	for _, seed := range [][2]string{
		{"status=sent&limit=1", `{"channel":"email","to":"ana@example.com"}`}, {"cursor=AAAA&from=2026-01-01T00:00:00Z", `{"channel":"email"}`},
		{"recipient=00000000000000000000000000000000", `{`}, {"limit=-1&status=%00", "\xff"}, {"to=x%27%20OR%201=1", `{"channel":"sms","to":"+4915123456789"}`},
		{"from=9999-12-31T23:59:59Z&to=0001-01-01T00:00:00Z", `null`}, {"reference=%f0%9f%94%91&app=a&purpose=b&blocked_by=c&channel=d", `[]`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		r := newRig(t)
		r.sent("ana@example.com")
		for _, c := range []struct{ method, path string }{
			{http.MethodGet, "/v1/admin/sends"}, {http.MethodPost, "/v1/admin/search"}, {http.MethodGet, "/v1/admin/sends/x"}, {http.MethodGet, "/admin/login"},
		} {
			req := httptest.NewRequest(c.method, c.path, strings.NewReader(body))
			req.URL.RawQuery = query
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+consoletest.Token)
			w := httptest.NewRecorder()
			r.handler.ServeHTTP(w, req)
			if w.Code >= 500 {
				t.Errorf("%s ?%q %q: %d %s", c.path, query, body, w.Code, w.Body)
			}
			if kind := w.Header().Get("Content-Type"); strings.Contains(kind, "json") && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s ?%q: no JSON: %s", c.path, query, w.Body)
			}
			if bytes.Contains(w.Body.Bytes(), []byte("ana@")) && !strings.Contains(query+body, "ana@") {
				t.Errorf("%s ?%q shows an address: %s", c.path, query, w.Body)
			}
		}
	})
}
