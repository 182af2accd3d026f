package compress

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"
)

// Pages is middleware that encodes HTML pages. Other responses are sent as they are: those of the API are small, and an event stream must
// not wait for a block to fill.
//
// The length of a compressed page could reveal a secret that stands in it beside text that an attacker chose (BREACH). Pages here hold no
// CSRF token (the server compares origins), and browsers send their cookies with no request of another site's page.
func Pages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &writer{ResponseWriter: c.Response().Writer, encoding: encodingFor(c.Request().Header.Get("Accept-Encoding")), head: c.Request().Method == http.MethodHead}
		c.Response().Writer = w
		defer func() {
			w.end()
			c.Response().Writer = w.ResponseWriter
		}()
		err := next(c)
		if err != nil {
			c.Error(err) // writes the error page through w
		}
		return nil
	}
}

// quickly is the level of brotli for pages: a millisecond for 10 kB.
const quickly = 5

// encoders are reused from page to page, by encoding.
var encoders = map[string]*sync.Pool{
	br: {New: func() any { return brotli.NewWriterLevel(io.Discard, quickly) }},
	gz: {New: func() any { return gzip.NewWriter(io.Discard) }},
}

type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// writer encodes the body if the response header says that it is a page.
type writer struct {
	http.ResponseWriter
	encoding string
	head     bool
	to       encoder // nil: the body is not encoded
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	h := w.Header()
	if strings.HasPrefix(h.Get("Content-Type"), "text/html") && h.Get("Content-Encoding") == "" && status != http.StatusNotModified {
		h.Add("Vary", "Accept-Encoding")
		if w.encoding != none && !w.head {
			h.Del("Content-Length")
			h.Set("Content-Encoding", w.encoding)
			w.to = encoders[w.encoding].Get().(encoder)
			w.to.Reset(w.ResponseWriter)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if w.to == nil {
		return w.ResponseWriter.Write(b)
	}
	return w.to.Write(b)
}

func (w *writer) end() {
	if w.to == nil {
		return
	}
	_ = w.to.Close() // fails if the client has disconnected
	encoders[w.encoding].Put(w.to)
	w.to = nil
}
