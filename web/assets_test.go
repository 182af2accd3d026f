package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func serve(t *testing.T, target, etag string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("If-None-Match", etag)
	w := httptest.NewRecorder()
	NewAssets(nil).ServeHTTP(w, r)
	return w
}

func TestAssetsMayBeKeptUnderTheirVersion(t *testing.T) {
	w := serve(t, NewAssets(nil).Path("tokens.css"), "")
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%d, Cache-Control %q", w.Code, w.Header().Get("Cache-Control"))
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/css") {
		t.Errorf("Content-Type %q", got)
	}
	for _, stale := range []string{"/static/tokens.css", "/static/tokens.css?v=000000000000"} {
		w := serve(t, stale, "")
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, Cache-Control %q", stale, w.Code, w.Header().Get("Cache-Control"))
		}
	}
	if w := serve(t, "/static/tokens.css", w.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("unchanged file: %d with %d bytes", w.Code, w.Body.Len())
	}
}

// A browser that has one release's script must not run another's beside it.
func TestScriptsNameTheirImportsByVersion(t *testing.T) {
	one, two := NewAssets(map[string][]byte{"words.js": []byte("1")}), NewAssets(map[string][]byte{"words.js": []byte("2")})
	imports := regexp.MustCompile(`(?m)^import .* from '(.*)';$|^export .* from '(.*)';$`)
	for name := range one.files {
		if path.Ext(name) != ".js" || strings.HasSuffix(name, ".css.js") {
			continue
		}
		for _, found := range imports.FindAllStringSubmatch(string(one.files[name].body), -1) {
			target, version, _ := strings.Cut(strings.TrimPrefix(found[1], "./"), "?v=")
			if f, ok := one.files[target]; !ok || f.version != version {
				t.Errorf("%s imports %s", name, found[1])
			}
		}
	}
	for name, differs := range map[string]bool{"send-code.js": true, "words.js": true, "page.js": false, "cards.js": false} {
		if (one.Path(name) != two.Path(name)) != differs {
			t.Errorf("%s: %s with one text, %s with another", name, one.Path(name), two.Path(name))
		}
	}
	if a, b := widgetOf(t, one, "", ""), widgetOf(t, two, "", ""); a.Header().Get("ETag") == b.Header().Get("ETag") || !strings.Contains(a.Body.String(), "'."+one.Path("send-code.js")+"'") {
		t.Errorf("the entry is %q, %s", a.Header().Get("ETag"), a.Body)
	}
}

func widgetOf(t *testing.T, a *Assets, query, etag string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/widget.js"+query, nil)
	r.Header.Set("If-None-Match", etag)
	r.Header.Set("Origin", "https://shop.example")
	w := httptest.NewRecorder()
	a.Widget().ServeHTTP(w, r)
	return w
}

// Any site may load the widget, as it must, and asks for its entry again each time, which mostly costs nothing.
func TestTheWidgetIsForEverySite(t *testing.T) {
	a := NewAssets(map[string][]byte{"words.js": nil})
	w := widgetOf(t, a, "", "")
	h := w.Header()
	if w.Code != http.StatusOK || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Cache-Control") != "no-cache" ||
		!strings.HasPrefix(h.Get("Content-Type"), "text/javascript") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", w.Code, h)
	}
	if again := widgetOf(t, a, "", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 || again.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("unchanged: %d %v", again.Code, again.Header())
	}
	if w := serve(t, a.Path("time.js"), ""); w.Header().Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("what it imports: %v", w.Header())
	}
}

func TestStyleSheetsAreModulesToo(t *testing.T) {
	w := serve(t, NewAssets(nil).Path("tokens.css.js"), "")
	text, ok := strings.CutPrefix(w.Body.String(), "export default ")
	var css string
	if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";\n")), &css); !ok || err != nil || !strings.Contains(css, "--accent: light-dark(") {
		t.Errorf("%v: %.60s", err, w.Body)
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/javascript") {
		t.Errorf("Content-Type %q", got)
	}
}

func TestAssetsServeNothingElse(t *testing.T) {
	for _, target := range []string{"/static/", "/static/none.css", "/static/../web.go", "/static/x/tokens.css", "/static/pips.html"} {
		if w := serve(t, target, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
