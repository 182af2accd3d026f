package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

// StaticPath is where Assets must be mounted.
const StaticPath = "/static/"

// Assets serves the files of static/. Addresses from Path name their content, so browsers may keep them for good;
// any other address of the same file is asked for again each time.
type Assets struct {
	files map[string]asset
}

type asset struct {
	body    []byte
	version string
}

// NewAssets reads the embedded files. It panics when they cannot be read, which a test rules out.
func NewAssets() *Assets {
	a := &Assets{files: map[string]asset{}}
	err := fs.WalkDir(FS, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fs.ReadFile(FS, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		a.files[path.Base(name)] = asset{body: body, version: hex.EncodeToString(sum[:6])}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return a
}

// Path is the address of a file of static/, "page.css", with its version; empty for a file that does not exist.
func (a *Assets) Path(name string) string {
	f, ok := a.files[name]
	if !ok {
		return ""
	}
	return StaticPath + name + "?v=" + f.version
}

// ServeHTTP answers GET /static/<name>.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	f, ok := a.files[name]
	if !ok || r.URL.Path != StaticPath+name {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+f.version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body)
}
