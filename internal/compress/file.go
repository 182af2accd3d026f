// Package compress sends what browsers read in as few bytes as they take: files that never change with brotli and gzip at their best,
// made once, and pages with either while they are written.
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

// File is a body that does not change, in every encoding. An encoding is made when it is first asked for.
type File struct {
	kind    string
	body    []byte
	version string
	encoded map[string]func() []byte
}

// NewFile takes a body and its Content-Type.
func NewFile(kind string, body []byte) *File {
	sum := sha256.Sum256(body)
	return &File{kind: kind, body: body, version: hex.EncodeToString(sum[:6]), encoded: map[string]func() []byte{
		br: sync.OnceValue(func() []byte {
			return best(body, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestCompression) })
		}),
		gz: sync.OnceValue(func() []byte {
			return best(body, func(w io.Writer) io.WriteCloser {
				z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails for levels that there are not
				return z
			})
		}),
	}}
}

// best is the body encoded; nil where that makes it no smaller.
func best(body []byte, encoder func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := encoder(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	if b.Len() >= len(body) {
		return nil
	}
	return b.Bytes()
}

// Version names the body: different bodies have different versions.
func (f *File) Version() string { return f.version }

// Serve answers GET and HEAD. A part that is asked for is one of the body without an encoding, which every encoding's reader
// understands. Browsers may keep an address that names the version for good; any other one is asked for again each time, by its ETag.
func (f *File) Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	encoding := none
	if r.Header.Get("Range") == "" {
		encoding = Accepted(r.Header.Get("Accept-Encoding"))
	}
	var body []byte
	if encoding != none {
		body = f.encoded[encoding]()
	}
	if body == nil {
		h.Set("ETag", `"`+f.version+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
		return
	}
	tag := `"` + f.version + "-" + encoding + `"`
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Encoding", encoding)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// matches says whether If-None-Match names a tag. Servers in between may have made it a weak one.
func matches(header, tag string) bool {
	for each := range strings.SplitSeq(header, ",") {
		if each = strings.TrimPrefix(strings.TrimSpace(each), "W/"); each == tag || each == "*" {
			return true
		}
	}
	return false
}

// Accepted is the encoding for an Accept-Encoding header: "br", "gzip", or empty for none.
func Accepted(header string) string {
	weights := map[string]float64{}
	for each := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(each, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // what is no number is 0: not accepted
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
