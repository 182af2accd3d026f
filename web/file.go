package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
)

// These are values of the header Content-Encoding, best first.
const (
	encodingBrotli = "br"
	encodingGzip   = "gzip"
	encodingNone   = ""
)

// File is a response body that does not change. The body is compressed once for each encoding, when
// a client first accepts that encoding.
type File struct {
	kind    string
	body    []byte
	version string
	encoded map[string]func() []byte // by encoding
}

// NewFile returns a file with a body and its Content-Type.
func NewFile(contentType string, body []byte) *File {
	sum := sha256.Sum256(body)
	f := &File{kind: contentType, body: body, version: hex.EncodeToString(sum[:6]), encoded: map[string]func() []byte{}}
	for encoding := range fileEncoders {
		f.encoded[encoding] = sync.OnceValue(func() []byte { return encodeIfSmaller(body, encoding) })
	}
	return f
}

// fileEncoders make the encoders of files. Since a file is compressed once, they have the best
// levels, which take 80 ms for the 26 kB of the widget.
var fileEncoders = map[string]func(io.Writer) io.WriteCloser{
	encodingBrotli: func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestCompression) },
	encodingGzip: func(w io.Writer) io.WriteCloser {
		z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails only for an unknown level
		return z
	},
}

// encodeIfSmaller returns the encoded body, or nil if encoding does not make the body smaller.
func encodeIfSmaller(body []byte, encoding string) []byte {
	var b bytes.Buffer
	w := fileEncoders[encoding](&b)
	_, _ = w.Write(body) // writing to a buffer never fails
	_ = w.Close()
	if b.Len() >= len(body) {
		return nil
	}
	return b.Bytes()
}

// Version returns a hash of the body.
func (f *File) Version() string { return f.version }

// ServeHTTP answers GET and HEAD. It does not compress the answer to a Range request, because a
// part of a compressed body cannot be decoded. If the URL has the file's version, browsers may
// cache the file forever. Otherwise browsers revalidate the file by its ETag.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, tag := f.body, `"`+f.version+`"`
	accepted := encodingFor(r.Header.Get("Accept-Encoding"))
	if accepted != encodingNone && r.Header.Get("Range") == "" {
		if smaller := f.encoded[accepted](); smaller != nil {
			body, tag = smaller, `W/"`+f.version+"-"+accepted+`"` // weak: another release may encode the body differently
			h.Set("Content-Encoding", accepted)
			h.Set("Content-Length", strconv.Itoa(len(body))) // ServeContent sets this header only for bodies without an encoding
		}
	}
	h.Set("ETag", tag)
	http.ServeContent(directWriter{w}, r, "", time.Time{}, inMemory{bytes.NewReader(body), body})
}

// directWriter is the writer of a body in memory. With it, http.ServeContent holds no buffer of 32
// kB for a client that does not read.
type directWriter struct{ http.ResponseWriter }

// inMemory is a reader whose body directWriter writes without copying it first.
type inMemory struct {
	*bytes.Reader
	body []byte
}

// ReadFrom implements io.ReaderFrom.
func (w directWriter) ReadFrom(r io.Reader) (int64, error) {
	if part, ok := r.(*io.LimitedReader); ok {
		if from, ok := part.R.(inMemory); ok {
			rest := from.body[len(from.body)-from.Len():]
			n, err := w.Write(rest[:min(part.N, int64(len(rest)))])
			return int64(n), err
		}
	}
	return io.Copy(w.ResponseWriter, r) // for several ranges, r reads from a pipe
}

// encodingFor returns the best encoding that an Accept-Encoding header accepts.
func encodingFor(header string) string {
	weights := map[string]float64{}
	for each := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(each, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // 0, not accepted, if the text is no number
		}
		weights[strings.ToLower(strings.TrimSpace(name))] = weight
	}
	for _, name := range []string{encodingBrotli, encodingGzip} {
		weight, named := weights[name]
		if !named {
			weight = weights["*"]
		}
		if weight > 0 {
			return name
		}
	}
	return encodingNone
}
