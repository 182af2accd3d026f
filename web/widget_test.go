package web

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
)

func askWidget(target string, headers ...string) *httptest.ResponseRecorder {
	e := echo.New()
	RegisterWidget(e)
	return ask(e, http.MethodGet, target, headers...)
}

// The tools of a page may add headers to each fetch, so a browser sends a preflight for the widget,
// too.
func TestTheWidgetsPreflight(t *testing.T) {
	e := echo.New()
	RegisterWidget(e)
	w := ask(e, http.MethodOptions, "/widget.js", "Origin", "https://shop.example", "Access-Control-Request-Method", "HEAD",
		"Access-Control-Request-Headers", "baggage,sentry-trace")
	if h := w.Header(); w.Code != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Access-Control-Allow-Headers") != "baggage,sentry-trace" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %v", w.Code, h)
	}
}

// maxWidgetBytes bounds the module of the widget's first card, in one language and compressed with
// brotli, in bytes. No other test bounds it.
const maxWidgetBytes = 10_240

func TestTheWidgetIsSmall(t *testing.T) {
	for _, w := range texts.PageLanguages() {
		got := askWidget("/widget.js?lang="+w.Lang(), "Accept-Encoding", "gzip, deflate, br, zstd")
		t.Logf("%s: %d bytes with brotli", w.Lang(), got.Body.Len())
		if got.Code != http.StatusOK || got.Header().Get("Content-Encoding") != "br" || got.Body.Len() > maxWidgetBytes {
			t.Errorf("%s: %d, %d bytes, %v", w.Lang(), got.Code, got.Body.Len(), got.Header())
		}
		if needsMore.MatchString(askWidget("/widget.js?lang=" + w.Lang()).Body.String()) {
			t.Errorf("%s: it cannot be shown without another request", w.Lang())
		}
	}
}

// In a shadow tree, WebKit 2.50 doesn't restyle the elements of a rule whose :has() is on another
// element. aChoiceShowsItsField of internal/http/page tests the choice of a channel in each
// browser.
func TestTheWidgetsStylesFollowHas(t *testing.T) {
	elsewhere := regexp.MustCompile(`[^{}]*:has\((?:[^(){}]|\([^(){}]*\))*\)[^{},>+~ ]*[>+~ ][^{}]*`)
	files, err := fs.Glob(FS, "bundled/widget/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(FS, name)
		if found := elsewhere.Find(text); err != nil || found != nil {
			t.Errorf("%s: %s, %v", name, found, err)
		}
	}
}

// Any site may load the widget. A browser revalidates it at each use. TestAFileInEveryEncoding
// tests the status 304 for a browser that has the file.
func TestTheWidgetIsForEverySite(t *testing.T) {
	for _, path := range []string{"/widget.js", "/client.js", "/widget.d.ts", "/client.d.ts"} {
		w := askWidget(path, "Origin", "https://shop.example")
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
	}
}

func TestTheWidgetSpeaksTheReadersLanguage(t *testing.T) {
	for _, c := range []struct{ target, accepts, lang, vary string }{
		{"/widget.js", "", "en", "Accept-Language"},
		{"/widget.js", "zh-TW, en;q=0.5", "zh-Hans", "Accept-Language"},
		{"/widget.js", "xx", "en", "Accept-Language"},
		{"/widget.js?lang=zh-CN", "en", "zh-Hans", ""},
		{"/widget.js?lang=xx", "zh", "en", ""},
	} {
		w := askWidget(c.target, "Accept-Language", c.accepts)
		vary := strings.Join(w.Header().Values("Vary"), ", ")
		if w.Header().Get("Content-Language") != c.lang ||
			strings.Contains(vary, "Accept-Language") != (c.vary != "") || !strings.Contains(vary, "Accept-Encoding") ||
			!strings.Contains(w.Body.String(), `const SENDCODE={"lang":"`+c.lang+`"`) {
			t.Errorf("%s for %q: %v", c.target, c.accepts, w.Header())
		}
	}
}

// A browser may keep the later modules of the widget for good, because their addresses contain a
// hash of their content. A browser never runs files of two releases.
func TestWidgetModulesAreNamedByTheirHash(t *testing.T) {
	for _, w := range texts.PageLanguages() {
		widget := askWidget("/widget.js?lang=" + w.Lang()).Body.String()
		addresses := regexp.MustCompile(`"(/?static/[^"]+)"`).FindAllStringSubmatch(widget, -1)
		if len(addresses) != len(texts.PageLanguages())+3 {
			t.Errorf("%s: %d modules", w.Lang(), len(addresses))
		}
		for _, a := range addresses {
			got := askWidget("/" + a[1])
			if got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Cache-Control"), "immutable") ||
				got.Header().Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %d %v", a[1], got.Code, got.Header())
			}
			if got := askWidget("/" + a[1] + "0"); got.Code != http.StatusNotFound {
				t.Errorf("%s of another release: %d", a[1], got.Code)
			}
		}
	}
}
