package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"
)

// Compress is middleware that compresses HTML pages while they are written. If next fails, echo
// writes an error page, and Compress returns nil. The error page is also compressed. Other
// responses are not compressed, because the API's answers are small and an event stream must not
// wait for a full block.
//
// If an attacker chose text on a page, the length of the compressed page could reveal a secret on
// the same page (BREACH). But pages have no CSRF token, because the server compares origins. Also,
// browsers send no cookies when another site requests a page.
func Compress(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &compressingWriter{
			ResponseWriter: c.Response().Writer,
			encoding:       encodingFor(c.Request().Header.Get("Accept-Encoding")),
		}
		c.Response().Writer = w
		defer func() {
			w.close()
			c.Response().Writer = w.ResponseWriter
		}()
		err := next(c)
		if err != nil {
			c.Error(err) // writes the error page through w
		}
		return nil
	}
}

// brotliLevel is the brotli level for pages. Compression at this level takes a millisecond for
// 10 kB. The best level, which files have, takes 30 times as long, and the result is 1/15 smaller.
const brotliLevel = 5

// encoders has a pool of reusable encoders of pages for each encoding.
var encoders = map[string]*sync.Pool{
	encodingBrotli: {New: func() any { return brotli.NewWriterLevel(io.Discard, brotliLevel) }},
	encodingGzip:   {New: func() any { return gzip.NewWriter(io.Discard) }},
}

type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// takeEncoder returns a pooled encoder that writes to w. The caller closes it and puts it back into
// encoders.
func takeEncoder(w io.Writer, encoding string) encoder {
	e := encoders[encoding].Get().(encoder)
	e.Reset(w)
	return e
}

// compressingWriter compresses the body if its Content-Type is text/html.
type compressingWriter struct {
	http.ResponseWriter
	encoding string
	to       encoder // nil: the body is not encoded
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *compressingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *compressingWriter) WriteHeader(status int) {
	h := w.Header()
	if strings.HasPrefix(h.Get("Content-Type"), "text/html") && h.Get("Content-Encoding") == "" &&
		status != http.StatusNotModified {
		h.Add("Vary", "Accept-Encoding")
		if w.encoding != encodingNone {
			h.Del("Content-Length")
			h.Set("Content-Encoding", w.encoding)
			w.to = takeEncoder(w.ResponseWriter, w.encoding)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write compresses b if WriteHeader chose an encoding.
func (w *compressingWriter) Write(b []byte) (int, error) {
	if w.to == nil {
		return w.ResponseWriter.Write(b)
	}
	return w.to.Write(b)
}

func (w *compressingWriter) close() {
	if w.to == nil {
		return
	}
	_ = w.to.Close() // fails if the client has disconnected
	encoders[w.encoding].Put(w.to)
	w.to = nil
}
