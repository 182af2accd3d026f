// Package compress serves what browsers load with brotli or gzip: files that do not change are encoded once, pages while they are
// written.
package compress

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

// The encodings, best first.
const (
	br   = "br"
	gz   = "gzip"
	none = ""
)

// thoroughly is the level of brotli for files: it takes some milliseconds for the largest one and makes it a few percent larger than the
// highest level, which takes half a second.
const thoroughly = 9

// File is a body that does not change. It is encoded when a client first accepts the encoding.
type File struct {
	kind    string
	body    []byte
	version string
	encoded map[string]func() []byte // by encoding; nil where that is not smaller
}

// NewFile returns a file with a body and its Content-Type.
func NewFile(kind string, body []byte) *File {
	sum := sha256.Sum256(body)
	once := func(encoder func(io.Writer) io.WriteCloser) func() []byte {
		return sync.OnceValue(func() []byte { return encoded(body, encoder) })
	}
	return &File{kind: kind, body: body, version: hex.EncodeToString(sum[:6]), encoded: map[string]func() []byte{
		br: once(func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, thoroughly) }),
		gz: once(func(w io.Writer) io.WriteCloser {
			z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails for unknown levels only
			return z
		}),
	}}
}

// encoded returns the encoded body; nil if that is not smaller.
func encoded(body []byte, encoder func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := encoder(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	if b.Len() >= len(body) {
		return nil
	}
	return b.Bytes()
}

// Version returns a hash of the body.
func (f *File) Version() string { return f.version }

// Serve answers GET and HEAD. A Range is taken from the body without encoding, since part of an encoded one cannot be decoded. Browsers
// may cache an address that names the version forever; they revalidate any other by its ETag.
func (f *File) Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	accepted := none
	if r.Header.Get("Range") == "" {
		accepted = encodingFor(r.Header.Get("Accept-Encoding"))
	}
	body, tag := f.body, `"`+f.version+`"`
	if encode, ok := f.encoded[accepted]; ok && encode() != nil {
		body, tag = encode(), `W/"`+f.version+"-"+accepted+`"` // weak: another release may encode the same body to other bytes
		h.Set("Content-Encoding", accepted)
		h.Set("Content-Length", strconv.Itoa(len(body))) // ServeContent sets it for bodies without an encoding only
	}
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// encodingFor returns the encoding for an Accept-Encoding header: "br", "gzip" or "".
func encodingFor(header string) string {
	weights := map[string]float64{}
	for each := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(each, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // 0, which means not accepted, for text that is no number
		}
		weights[strings.ToLower(strings.TrimSpace(name))] = weight
	}
	for _, name := range []string{br, gz} {
		weight, named := weights[name]
		if !named {
			weight = weights["*"]
		}
		if weight > 0 {
			return name
		}
	}
	return none
}
