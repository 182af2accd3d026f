package web

import (
	"encoding/json"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"sendcode/internal/base/recipient"
)

// StaticPath is where ServeStatic must be mounted.
const StaticPath = "/static/"

// staticFiles are the files under /static/, by name. Each file is bundled with the modules that the
// file imports. The files are made at the first request.
var staticFiles = sync.OnceValue(func() map[string]*File {
	files := map[string]*File{}
	bundled, err := fs.Glob(FS, "bundled/static/*")
	if err != nil {
		panic(err)
	}
	for _, name := range append(bundled, "static/icon.svg") {
		files[path.Base(name)] = NewFile(mime.TypeByExtension(path.Ext(name)), mustRead(name))
	}
	files["plans.js"] = NewFile(mime.TypeByExtension(".js"), phonePlansModule())
	return files
})

func mustRead(name string) []byte {
	body, err := FS.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return body
}

// StaticURL returns the URL path of a static file such as "page.css". The query of the URL has the
// file's version, so that browsers may cache the file forever. If there is no such file, the result
// is "".
func StaticURL(name string) string {
	f, ok := staticFiles()[name]
	if !ok {
		return ""
	}
	return StaticPath + name + "?v=" + f.Version()
}

// ServeStatic answers GET and HEAD of /static/<name>. Any site may load the files, since they
// contain no personal data.
func ServeStatic(w http.ResponseWriter, r *http.Request) {
	f, ok := staticFiles()[strings.TrimPrefix(r.URL.Path, StaticPath)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	f.ServeHTTP(w, r)
}

// ServeIcon answers GET and HEAD of /favicon.ico. Browsers request this file with a document that
// names no icon, such as a picture or JSON.
func ServeIcon(w http.ResponseWriter, r *http.Request) { staticFiles()["icon.svg"].ServeHTTP(w, r) }

// phonePlansModule returns a JavaScript module with the formats of phone numbers. The constant
// countries maps a country to its calling code, its trunk prefix and an example. The constant codes
// maps a calling code to its main country and its groups of digits; see recipient.grouping.
func phonePlansModule() []byte {
	plans, shared := recipient.NumberPlans()
	countries, codes := map[string][3]string{}, map[string][2]any{}
	for country, p := range plans {
		countries[country] = [3]string{p.Code, p.Trunk, p.Example}
	}
	for code, s := range shared {
		groupings := [][4]string{}
		for _, g := range s.Groupings {
			groupings = append(groupings, [4]string{g.LeadingDigits, g.National, g.Short, g.Abroad})
		}
		codes[code] = [2]any{s.Main, groupings}
	}
	text, _ := json.Marshal([2]any{countries, codes}) // cannot fail for strings
	return []byte("export const [countries, codes] = " + string(text) + ";\n")
}
