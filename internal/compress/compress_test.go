package compress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"
)

var text = strings.Repeat("a page says much the same again and again; ", 200)

func ask(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// read is the body without its encoding.
func read(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var from io.Reader = w.Body
	switch w.Header().Get("Content-Encoding") {
	case "br":
		from = brotli.NewReader(w.Body)
	case "gzip":
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	body, err := io.ReadAll(from)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func TestTheEncodingIsOneThatIsAccepted(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "gzip, deflate, br, zstd": "br", "gzip, deflate": "gzip", "br;q=0, gzip": "gzip", "BR": "br", "*": "br", "*;q=0": "", "br;q=0, *": "gzip",
		"gzip;q=0.5, br;q=0.1": "br", "identity": "", "br;q=x": "", "deflate": "", "gzip ; q=0.8": "gzip",
	} {
		if got := encodingFor(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestAFileInEveryEncoding(t *testing.T) {
	f := NewFile("text/css; charset=utf-8", []byte(text))
	h := f
	tags := map[string]bool{}
	for accepted, encoding := range map[string]string{"br, gzip": "br", "gzip": "gzip", "": ""} {
		w := ask(h, http.MethodGet, "/?v="+f.Version(), "Accept-Encoding", accepted)
		head := w.Header()
		if head.Get("Content-Encoding") != encoding || head.Get("Vary") != "Accept-Encoding" || head.Get("Content-Type") != "text/css; charset=utf-8" ||
			!strings.Contains(head.Get("Cache-Control"), "immutable") {
			t.Errorf("%q: %v", accepted, head)
		}
		length, tag := head.Get("Content-Length"), head.Get("ETag")
		if encoding != "" && w.Body.Len() >= len(text)/10 {
			t.Errorf("%s has %d bytes of %d", encoding, w.Body.Len(), len(text))
		}
		if got := read(t, w); got != text {
			t.Errorf("%q is read as %.60q", accepted, got)
		}
		if tags[tag] {
			t.Errorf("two encodings are both %s", tag)
		}
		tags[tag] = true
		if w := ask(h, http.MethodHead, "/", "Accept-Encoding", accepted); w.Body.Len() != 0 || w.Header().Get("Content-Length") != length || length == "" || w.Header().Get("ETag") != tag {
			t.Errorf("HEAD %q: %d bytes, %v", accepted, w.Body.Len(), w.Header())
		}
		for _, same := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
			if w := ask(h, http.MethodGet, "/", "Accept-Encoding", accepted, "If-None-Match", same); w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("Vary") == "" {
				t.Errorf("%q, unchanged by %s: %d, %d bytes", accepted, same, w.Code, w.Body.Len())
			}
		}
	}
	if w := ask(h, http.MethodGet, "/", "Accept-Encoding", "gzip", "If-None-Match", `"`+f.Version()+`-br"`); w.Code != http.StatusOK {
		t.Errorf("another encoding's tag: %d", w.Code)
	}
}

// A range is one of the plain body, and an encoding that makes a body larger is not used.
func TestBodiesThatAreNotEncoded(t *testing.T) {
	f := NewFile("text/plain", []byte(text))
	w := ask(f, http.MethodGet, "/", "Accept-Encoding", "br, gzip", "Range", "bytes=2-5")
	if h := w.Header(); w.Code != http.StatusPartialContent || w.Body.String() != text[2:6] || h.Get("Content-Encoding") != "" || h.Get("Content-Range") == "" {
		t.Errorf("%d %v %.60q", w.Code, w.Header(), w.Body)
	}
	f = NewFile("text/plain", []byte("ab"))
	if w := ask(f, http.MethodGet, "/", "Accept-Encoding", "br, gzip"); w.Header().Get("Content-Encoding") != "" || w.Body.String() != "ab" {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
}

func TestPagesAreEncodedAndNothingElse(t *testing.T) {
	e := echo.New()
	e.Use(Pages)
	e.HTTPErrorHandler = func(_ error, c echo.Context) { _ = c.HTML(http.StatusTeapot, text) }
	e.Match([]string{http.MethodGet, http.MethodHead}, "/page", func(c echo.Context) error { return c.HTML(http.StatusOK, text) })
	e.GET("/json", func(c echo.Context) error { return c.JSON(http.StatusOK, text) })
	e.GET("/encoded", func(c echo.Context) error {
		c.Response().Header().Set("Content-Encoding", "zstd")
		return c.HTML(http.StatusOK, text)
	})
	e.GET("/wrong", func(echo.Context) error { return errors.New("wrong") })
	e.GET("/live", func(c echo.Context) error {
		c.Response().Header().Set("Content-Type", "text/event-stream")
		_, _ = c.Response().Write([]byte("data: 1\n\n"))
		c.Response().Flush()
		return nil
	})
	for range 3 { // encoders are reused
		for accepted, encoding := range map[string]string{"br, gzip": "br", "gzip": "gzip", "": ""} {
			w := ask(e, http.MethodGet, "/page", "Accept-Encoding", accepted)
			if w.Header().Get("Content-Encoding") != encoding || w.Header().Get("Vary") != "Accept-Encoding" || read(t, w) != text {
				t.Errorf("%q: %v", accepted, w.Header())
			}
		}
	}
	if w := ask(e, http.MethodGet, "/wrong", "Accept-Encoding", "br"); w.Code != http.StatusTeapot || w.Header().Get("Content-Encoding") != "br" || read(t, w) != text {
		t.Errorf("a page about what went wrong: %d %v", w.Code, w.Header())
	}
	if w := ask(e, http.MethodHead, "/page", "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("HEAD: %v", w.Header())
	}
	for _, path := range []string{"/json", "/live"} {
		if w := ask(e, http.MethodGet, path, "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "" || bytes.Contains(w.Body.Bytes(), []byte{0}) {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	if w := ask(e, http.MethodGet, "/live", "Accept-Encoding", "br"); !w.Flushed {
		t.Error("an event waits")
	}
	if w := ask(e, http.MethodGet, "/encoded", "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "zstd" || w.Body.String() != text {
		t.Errorf("what is encoded is encoded again: %v", w.Header())
	}
}
