package web

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// read returns the body without its encoding.
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

func TestEncodingFor(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "gzip, deflate, br, zstd": "br", "gzip, deflate": "gzip", "br;q=0, gzip": "gzip", "BR": "br", "*": "br",
		"*;q=0": "", "br;q=0, *": "gzip",
		"gzip;q=0.5, br;q=0.1": "br", "identity": "", "br;q=x": "", "deflate": "", "gzip ; q=0.8": "gzip",
	} {
		if got := encodingFor(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestAFileInEveryEncoding(t *testing.T) {
	f := NewFile("text/css; charset=utf-8", []byte(text))
	tags := map[string]bool{}
	for accepted, encoding := range map[string]string{"br, gzip": "br", "gzip": "gzip", "": ""} {
		w := ask(f, http.MethodGet, "/?v="+f.Version(), "Accept-Encoding", accepted)
		head, size := w.Header(), w.Body.Len()
		if head.Get("Content-Encoding") != encoding || head.Get("Vary") != "Accept-Encoding" ||
			head.Get("Content-Type") != "text/css; charset=utf-8" ||
			!strings.Contains(head.Get("Cache-Control"), "immutable") || encoding != "" && size >= len(text)/10 ||
			read(t, w) != text {
			t.Errorf("%q: %d bytes of %d, %v", accepted, size, len(text), head)
		}
		tag := head.Get("ETag")
		if tags[tag] {
			t.Errorf("two encodings are both %s", tag)
		}
		tags[tag] = true
		w = ask(f, http.MethodHead, "/", "Accept-Encoding", accepted)
		if h := w.Header(); w.Body.Len() != 0 || h.Get("Content-Length") != strconv.Itoa(size) ||
			h.Get("ETag") != tag || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("HEAD %q: %d bytes, %v", accepted, w.Body.Len(), h)
		}
		w = ask(f, http.MethodGet, "/", "Accept-Encoding", accepted, "If-None-Match", tag)
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("Vary") == "" {
			t.Errorf("%q, unchanged: %d, %d bytes", accepted, w.Code, w.Body.Len())
		}
	}
}

// A range is a part of the body without an encoding. An encoding that makes a body larger is not
// used.
func TestBodiesThatAreNotEncoded(t *testing.T) {
	f := NewFile("text/plain", []byte(text))
	w := ask(f, http.MethodGet, "/", "Accept-Encoding", "br, gzip", "Range", "bytes=2-5")
	if h := w.Header(); w.Code != http.StatusPartialContent || w.Body.String() != text[2:6] ||
		h.Get("Content-Encoding") != "" || h.Get("Content-Range") == "" {
		t.Errorf("%d %v %.60q", w.Code, w.Header(), w.Body)
	}
	f = NewFile("text/plain", []byte("ab"))
	if w := ask(f, http.MethodGet, "/", "Accept-Encoding", "br, gzip"); w.Header().Get("Content-Encoding") != "" ||
		w.Body.String() != "ab" {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
}

func TestPagesAreEncoded(t *testing.T) {
	e := echo.New()
	write := func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	e.HTTPErrorHandler = func(_ error, c echo.Context) { _ = WritePage(c, http.StatusTeapot, write) }
	e.Match([]string{http.MethodGet, http.MethodHead}, "/page", func(c echo.Context) error { return WritePage(c, http.StatusOK, write) })
	e.GET("/wrong", func(c echo.Context) error {
		return WritePage(c, http.StatusOK, func(w io.Writer) error { return errors.Join(write(w), errors.New("wrong")) })
	})
	for _, encoding := range []string{"br", "br", "gzip", ""} { // encoders are reused
		w := ask(e, http.MethodGet, "/page", "Accept-Encoding", encoding)
		if w.Header().Get("Content-Encoding") != encoding || w.Header().Get("Vary") != "Accept-Encoding" ||
			read(t, w) != text {
			t.Errorf("%q: %v", encoding, w.Header())
		}
	}
	if w := ask(e, http.MethodGet, "/wrong", "Accept-Encoding", "br"); w.Code != http.StatusTeapot ||
		w.Header().Get("Content-Encoding") != "br" || read(t, w) != text {
		t.Errorf("a page about what went wrong: %d %v", w.Code, w.Header())
	}
	if w := ask(e, http.MethodHead, "/page", "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "br" ||
		w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("HEAD: %v", w.Header())
	}
}

// While clients do not read, their answers hold no encoder and no place among the pages being made.
func TestPagesOfClientsThatDoNotRead(t *testing.T) {
	e := echo.New()
	e.GET("/", func(c echo.Context) error {
		return WritePage(c, http.StatusOK, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	})
	var unread unreadAnswer
	unread.end = make(chan struct{})
	for range 2 * cap(pageSlots) {
		unread.begun.Add(1)
		unread.ended.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", "br")
			e.ServeHTTP(&unreadWriter{httptest.NewRecorder(), &unread}, r)
		})
	}
	unread.begun.Wait() // does not return if an unread answer keeps its place in pageSlots
	if n := len(pageSlots); n != 0 {
		t.Errorf("%d pages are still being made", n)
	}
	close(unread.end)
	unread.ended.Wait()
}

// unreadAnswer has what the writers of TestPagesOfClientsThatDoNotRead share.
type unreadAnswer struct {
	begun, ended sync.WaitGroup
	end          chan struct{}
}

// unreadWriter blocks in Write until the test ends.
type unreadWriter struct {
	*httptest.ResponseRecorder
	all *unreadAnswer
}

func (w *unreadWriter) Write(p []byte) (int, error) {
	w.all.begun.Done()
	<-w.all.end
	return w.ResponseRecorder.Write(p)
}

// At most as many pages are made at once as there are processors.
func TestMakePageBoundsPagesAtOnce(t *testing.T) {
	var now, most atomic.Int32
	var all sync.WaitGroup
	for range 10 * cap(pageSlots) {
		all.Go(func() {
			_, _, _ = makePage(encodingNone, func(io.Writer) (int, error) {
				n := now.Add(1)
				for range 100 {
					most.Store(max(n, most.Load()))
					runtime.Gosched()
				}
				now.Add(-1)
				return http.StatusOK, nil
			})
		})
	}
	all.Wait()
	if n := int(most.Load()); n > cap(pageSlots) {
		t.Errorf("%d pages at once", n)
	}
}
