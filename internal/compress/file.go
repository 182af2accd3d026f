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

// File is a body that does not change, in every encoding. An encoding is made when it is first asked for. Brotli at its best takes
// half a second, for which nobody waits: until it is there, files go with brotli as pages do.
type File struct {
	kind    string
	body    []byte
	version string

	gzip, quick func() []byte
	begin       sync.Once
	best        atomic.Pointer[[]byte]
}

// encoding is held while a file is encoded at its best: one at a time, so that a process that begins has its other cores for requests.
var encoding sync.Mutex

// NewFile takes a body and its Content-Type.
func NewFile(kind string, body []byte) *File {
	sum := sha256.Sum256(body)
	return &File{kind: kind, body: body, version: hex.EncodeToString(sum[:6]),
		quick: sync.OnceValue(func() []byte { return brotliAt(quickly, body) }),
		gzip: sync.OnceValue(func() []byte {
			return encoded(body, func(w io.Writer) io.WriteCloser {
				z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails for levels that there are not
				return z
			})
		}),
	}
}

// brotli is the body as it is at hand; the first who asks has it made better.
func (f *File) brotli() []byte {
	if best := f.best.Load(); best != nil {
		return *best
	}
	f.begin.Do(func() {
		go func() {
			encoding.Lock()
			defer encoding.Unlock()
			best := brotliAt(brotli.BestCompression, f.body)
			f.best.Store(&best)
		}()
	})
	return f.quick()
}

func brotliAt(level int, body []byte) []byte {
	return encoded(body, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, level) })
}

// encoded returns the body in this encoding; nil if that is not smaller.
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

// Serve answers GET and HEAD. A Range is one of the body without encoding. An address that names the version may be cached for
// good; any other is revalidated by its ETag.
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
		accepted = Accepted(r.Header.Get("Accept-Encoding"))
	}
	var smaller []byte
	switch accepted {
	case br:
		smaller = f.brotli()
	case gz:
		smaller = f.gzip()
	}
	body, tag := f.body, `"`+f.version+`"`
	if smaller != nil {
		body, tag = smaller, `W/"`+f.version+"-"+accepted+`"` // a weak one: brotli's bytes become fewer, and say the same
		h.Set("Content-Encoding", accepted)
		h.Set("Content-Length", strconv.Itoa(len(body))) // ServeContent says it of bodies without an encoding alone
	}
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// Accepted returns the encoding for an Accept-Encoding header: "br", "gzip" or "".
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
