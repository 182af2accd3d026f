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

// Pages encodes the pages that a server writes. Everything else goes as it is: answers of the API are small, and an event stream must
// not wait for a block to fill.
//
// A page in which something secret stands beside something that a stranger chose could give the secret away by its length. Pages here
// hold no token against forged requests (the server compares origins), and their cookies do not come with what other sites load.
func Pages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &writer{ResponseWriter: c.Response().Writer, encoding: Accepted(c.Request().Header.Get("Accept-Encoding")), head: c.Request().Method == http.MethodHead}
		c.Response().Writer = w
		defer func() {
			w.end()
			c.Response().Writer = w.ResponseWriter
		}()
		err := next(c)
		if err != nil {
			c.Error(err) // so that its page is written before the end
		}
		return nil
	}
}

// quickly is the level of brotli that takes a millisecond for 10 kB.
const quickly = 5

// encoders write a page, by encoding.
var encoders = map[string]*sync.Pool{
	br: {New: func() any { return brotli.NewWriterLevel(io.Discard, quickly) }},
	gz: {New: func() any { return gzip.NewWriter(io.Discard) }},
}

type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// writer encodes what turns out to be a page when its head is written.
type writer struct {
	http.ResponseWriter
	encoding string
	head     bool
	to       encoder // nil: what is written goes as it is
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
	_ = w.to.Close() // a client that is gone reads no end
	encoders[w.encoding].Put(w.to)
	w.to = nil
}
