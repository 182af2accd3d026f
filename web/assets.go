package web

import (
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"sendcode/internal/bundle"
	"sendcode/internal/compress"
	"sendcode/internal/recipient"
)

// StaticPath is where Static must be mounted.
const StaticPath = "/static/"

// static are the files that browsers ask for, by name: each with all that it imports. They are made when the first one is asked for. A
// file that cannot be made is a broken build, which every test of a page meets.
var static = sync.OnceValue(func() map[string]*compress.File {
	files := map[string]*compress.File{}
	for _, name := range []string{"tokens.css", "pips.css", "page.css", "brand.css", "mailbox.css", "page.js", "mailbox.js"} {
		body, err := bundle.Of(FS, "static/"+name, nil)
		if err != nil {
			panic(err)
		}
		files[name] = compress.NewFile(mime.TypeByExtension(path.Ext(name)), body)
	}
	icon, err := FS.ReadFile("static/icon.svg")
	if err != nil {
		panic(err)
	}
	files["icon.svg"] = compress.NewFile("image/svg+xml", icon)
	files["plans.js"] = compress.NewFile(mime.TypeByExtension(".js"), plans())
	return files
})

// Path is the address of a static file, "page.css", with its version: browsers may keep what it leads to for good. It is empty for a
// file that does not exist.
func Path(name string) string {
	f, ok := static()[name]
	if !ok {
		return ""
	}
	return StaticPath + name + "?v=" + f.Version()
}

// Static answers GET and HEAD of /static/<name>. All of it is the same for everybody, so every site may load it.
func Static(w http.ResponseWriter, r *http.Request) {
	f, ok := static()[strings.TrimPrefix(r.URL.Path, StaticPath)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	f.Serve(w, r)
}

// plans is a module with how phone numbers are written: by country its code, what is dialled before a number there and an
// example; by code the main country and how digits are grouped, as recipient.Grouping has it.
func plans() []byte {
	plans, shared := recipient.Plans()
	countries, codes := map[string][3]string{}, map[string][2]any{}
	for country, p := range plans {
		countries[country] = [3]string{p.Code, p.Trunk, p.Example}
	}
	for code, s := range shared {
		groupings := [][4]string{}
		for _, g := range s.Groupings {
			groupings = append(groupings, [4]string{g.Begins, g.National, g.Short, g.Abroad})
		}
		codes[code] = [2]any{s.Main, groupings}
	}
	text, _ := json.Marshal([2]any{countries, codes}) // of strings it cannot fail
	return []byte("export const [countries, codes] = " + string(text) + ";\n")
}
