package web

import (
	"net/http"
	"net/http/httptest"
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

func TestAssetsServeNothingElse(t *testing.T) {
	for _, target := range []string{"/static/", "/static/none.css", "/static/../web.go", "/static/x/tokens.css", "/static/pips.html"} {
		if w := serve(t, target, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
