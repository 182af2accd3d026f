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

func TestFilesMayBeKeptUnderTheirVersion(t *testing.T) {
	for name, kind := range map[string]string{"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml", "plans.js": "text/javascript"} {
		w := serve(StaticURL(name))
		if h := w.Header(); w.Code != http.StatusOK || !strings.Contains(h.Get("Cache-Control"), "immutable") || !strings.HasPrefix(h.Get("Content-Type"), kind) ||
			h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d, %v", name, w.Code, h)
		}
		for _, stale := range []string{"/static/" + name, "/static/" + name + "?v=000000000000"} {
			if w := serve(stale); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %d, Cache-Control %q", stale, w.Code, w.Header().Get("Cache-Control"))
			}
		}
	}
}

// A file is one request: what it is made of is in it.
func TestAFileNeedsNoOther(t *testing.T) {
	needs := regexp.MustCompile(`@import|\bimport *[\w{*"']|\bfrom *["']`)
	for name, holds := range map[string]string{"page.css": "--accent:", "mailbox.css": "--accent:", "page.js": "data-wait", "mailbox.js": "#mails"} {
		body := serve(StaticURL(name)).Body.String()
		if found := needs.FindString(body); found != "" || !strings.Contains(body, holds) {
			t.Errorf("%s asks for more (%q), or has no %s: %.200s", name, found, holds, body)
		}
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, target := range []string{"/static/", "/static/none.css", "/static/../web.go", "/static/x/tokens.css", "/static/pips.html", "/static/cards.js"} {
		if w := serve(target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if got := StaticURL("none.css"); got != "" {
		t.Errorf("a file that there is not is at %q", got)
	}
}
