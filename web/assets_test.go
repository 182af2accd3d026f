package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// needsMore matches an import, which makes a browser request another file.
var needsMore = regexp.MustCompile(`@import|\bimport\b *[\w{*"']|\bfrom *["']`)

// A browser needs only one request for a file, because the file contains all that it imports.
// TestAFileInEveryEncoding tests the version of a file.
func TestServeStatic(t *testing.T) {
	static := http.HandlerFunc(ServeStatic)
	for name, c := range map[string]struct{ kind, contains string }{
		"page.css": {"text/css", "--accent:"}, "mailbox.css": {"text/css", "--accent:"},
		"page.js":    {"text/javascript", "heading"},
		"mailbox.js": {"text/javascript", "#mails"}, "plans.js": {"text/javascript", "codes"},
		"icon.svg": {"image/svg+xml", "svg"},
	} {
		w := ask(static, http.MethodGet, StaticURL(name))
		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Type"), c.kind) || h.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", name, w.Code, h)
		}
		if body := w.Body.String(); needsMore.MatchString(body) || !strings.Contains(body, c.contains) {
			t.Errorf("%s asks for more, or has no %s: %.200s", name, c.contains, body)
		}
	}
	if icon := ask(http.HandlerFunc(ServeIcon), http.MethodGet, "/favicon.ico"); icon.Code != http.StatusOK ||
		icon.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(icon.Body.String(), "<svg") {
		t.Errorf("the icon: %d, %v", icon.Code, icon.Header())
	}
	for _, target := range []string{"/static/", "/static/none.css", "/static/../web.go", "/static/cards.js"} {
		if w := ask(static, http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
