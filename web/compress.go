package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/labstack/echo/v4"
)

// WritePage answers with the HTML page that render writes, compressed if the client accepts an
// encoding. If render fails, WritePage has written nothing and returns the error.
//
// A page is complete in memory before the first byte is sent. While a slow client reads, its
// connection holds only the encoded bytes. It holds no encoder, which may take 200 kB.
//
// If an attacker chose text on a page, the length of the compressed page could reveal a secret on
// the same page (BREACH). But pages have no CSRF token, because the server compares origins. Also,
// browsers send no session cookie (SameSite=Strict) when another site requests a page.
func WritePage(c echo.Context, status int, render func(io.Writer) error) error {
	return ComposePage(c, func(w io.Writer) (int, error) { return status, render(w) })
}

// ComposePage is WritePage for a page whose data takes much memory: compose makes the data, renders
// the page and returns the status. At most as many pages are made at once as there are processors,
// and a request that waits for its turn has no data yet. compose must not wait for anything,
// because other requests wait for its end.
func ComposePage(c echo.Context, compose func(io.Writer) (status int, err error)) error {
	encoding := encodingFor(c.Request().Header.Get("Accept-Encoding"))
	status, page, err := makePage(encoding, compose)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Add("Vary", "Accept-Encoding")
	if encoding != encodingNone {
		h.Set("Content-Encoding", encoding)
	}
	return c.HTMLBlob(status, page)
}

// pageSlots has an element for each page that is being made. More pages at once than processors
// would not be ready sooner, but would take more memory.
var pageSlots = make(chan struct{}, runtime.GOMAXPROCS(0))

// makePage returns the status and the encoded bytes of the page that compose writes.
func makePage(encoding string, compose func(io.Writer) (int, error)) (status int, page []byte, err error) {
	pageSlots <- struct{}{}
	defer func() { <-pageSlots }()
	plain := takeBuffer()
	defer putBuffer(plain)
	if status, err = compose(plain); err != nil {
		return 0, nil, err
	}
	if encoding == encodingNone {
		return status, bytes.Clone(plain.Bytes()), nil
	}
	encoded := takeBuffer()
	defer putBuffer(encoded)
	e := encoders[encoding].Get().(encoder)
	e.Reset(encoded)
	_, _ = e.Write(plain.Bytes()) // writing to a buffer never fails
	_ = e.Close()
	encoders[encoding].Put(e)
	return status, bytes.Clone(encoded.Bytes()), nil
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

// buffers has the buffers in which pages are made.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxReusedBuffer bounds, in bytes, the buffers that are kept for other pages.
const maxReusedBuffer = 1 << 20

func takeBuffer() *bytes.Buffer {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxReusedBuffer {
		buffers.Put(b)
	}
}
