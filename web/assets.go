package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
)

// StaticPath is where Assets must be mounted.
const StaticPath = "/static/"

// Assets serves the files of static/. Addresses from Path name their content, so browsers may keep them for good;
// any other address of the same file is asked for again each time. Scripts name what they import by such addresses too,
// so that a browser never runs files of two releases together.
//
// All of it is the same for everybody, so every site may load it: the widget runs on pages of others.
type Assets struct {
	raw   map[string][]byte
	files map[string]asset
}

type asset struct {
	body    []byte
	version string
}

// NewAssets reads the embedded files. generated are more of them, by name. Each style sheet x.css is also there as a
// module x.css.js that exports its text: a shadow tree can adopt it where the site around it allows no inline style. It
// panics when files cannot be read, or import each other in a circle; a test rules that out.
func NewAssets(generated map[string][]byte) *Assets {
	a := &Assets{raw: map[string][]byte{}, files: map[string]asset{}}
	err := fs.WalkDir(FS, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fs.ReadFile(FS, name)
		a.raw[path.Base(name)] = body
		return err
	})
	if err != nil {
		panic(err)
	}
	for name, body := range generated {
		a.raw[name] = body
	}
	for name, body := range a.raw {
		if path.Ext(name) == ".css" {
			a.raw[name+".js"] = module(string(body))
		}
	}
	for name := range a.raw {
		a.finish(name, nil)
	}
	return a
}

func module(text string) []byte {
	quoted, _ := json.Marshal(text) // of a string it cannot fail
	return append(append([]byte("export default "), quoted...), ";\n"...)
}

// imported finds the modules that a script names, with the folder that the entry names too.
var imported = regexp.MustCompile(`'\./(static/)?([\w.-]+\.js)'`)

// finish gives a file its version, after those that it imports. A file's version follows from theirs.
func (a *Assets) finish(name string, from []string) asset {
	if f, ok := a.files[name]; ok {
		return f
	}
	for _, n := range from {
		if n == name {
			panic("web: " + name + " imports itself")
		}
	}
	f := a.versioned(a.raw[name], append(from, name))
	a.files[name] = f
	return f
}

func (a *Assets) versioned(body []byte, from []string) asset {
	if path.Ext(from[len(from)-1]) == ".js" {
		body = imported.ReplaceAllFunc(body, func(found []byte) []byte {
			parts := imported.FindSubmatch(found)
			if _, ok := a.raw[string(parts[2])]; !ok {
				return found // generated elsewhere, where it is served
			}
			version := a.finish(string(parts[2]), from).version
			return []byte("'./" + string(parts[1]) + string(parts[2]) + "?v=" + version + "'")
		})
	}
	sum := sha256.Sum256(body)
	return asset{body: body, version: hex.EncodeToString(sum[:6])}
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
	f.serve(w, r, name)
}

// Widget answers GET /widget.js: the entry that sites name. Its address stays, so it is asked for again each time, by
// its ETag; all that it imports may be kept for good.
func (a *Assets) Widget() http.Handler {
	entry := a.versioned(widget, []string{"widget.js"})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { entry.serve(w, r, "widget.js") })
}

func (f asset) serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Access-Control-Allow-Origin", "*")
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
