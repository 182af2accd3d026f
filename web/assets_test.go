package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func serve(target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	ServeStatic(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// A file is one request: what it is made of is in it. TestAFileInEveryEncoding proves what is said
// of its version.
func TestFiles(t *testing.T) {
	needs := regexp.MustCompile(`@import|\bimport *[\w{*"']|\bfrom *["']`)
	for name, c := range map[string]struct{ kind, holds string }{
		"page.css": {"text/css", "--accent:"}, "mailbox.css": {"text/css", "--accent:"},
		"page.js":    {"text/javascript", "data-wait"},
		"mailbox.js": {"text/javascript", "#mails"}, "plans.js": {"text/javascript", "codes"},
		"icon.svg": {"image/svg+xml", "svg"},
	} {
		w := serve(StaticURL(name))
		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Type"), c.kind) ||
			h.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", name, w.Code, h)
		}
		if body := w.Body.String(); needs.MatchString(body) || !strings.Contains(body, c.holds) {
			t.Errorf("%s asks for more, or has no %s: %.200s", name, c.holds, body)
		}
	}
	for _, target := range []string{"/static/", "/static/none.css", "/static/../web.go", "/static/cards.js"} {
		if w := serve(target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
