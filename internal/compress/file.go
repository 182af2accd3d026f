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
	"sync/atomic"
	"time"

	"github.com/andybalholm/brotli"
)

// The encodings, best first.
const (
	br   = "br"
	gz   = "gzip"
	none = ""
)

// File is a body that does not change. It is encoded when a client first accepts the encoding. Brotli at its best level takes up to a
// second: the first responses have its quick level, while the best one is made in the background.
type File struct {
	kind    string
	body    []byte
	version string

	gzip   func() []byte
	once   sync.Once
	brotli atomic.Pointer[[]byte] // the best level as soon as it is made
}

// encoding is held while a file is encoded at the best level: one at a time, which leaves the other processors to requests.
var encoding sync.Mutex

// NewFile returns a file with a body and its Content-Type.
func NewFile(kind string, body []byte) *File {
	sum := sha256.Sum256(body)
	return &File{kind: kind, body: body, version: hex.EncodeToString(sum[:6]), gzip: sync.OnceValue(func() []byte {
		return encoded(body, func(w io.Writer) io.WriteCloser {
			z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails for unknown levels only
			return z
		})
	})}
}

// encodedAs returns the body in an encoding; nil if that is not smaller, or for none.
func (f *File) encodedAs(encoding string) []byte {
	switch encoding {
	case br:
		f.once.Do(func() {
			f.encode(quickly)
			go f.encodeBest()
		})
		return *f.brotli.Load()
	case gz:
		return f.gzip()
	}
	return nil
}

func (f *File) encode(level int) {
	body := encoded(f.body, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, level) })
	f.brotli.Store(&body)
}

func (f *File) encodeBest() {
	encoding.Lock()
	defer encoding.Unlock()
	f.encode(brotli.BestCompression)
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
	if smaller := f.encodedAs(accepted); smaller != nil {
		body, tag = smaller, `W/"`+f.version+"-"+accepted+`"` // weak: the bytes differ between the levels of brotli
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
