// Package widget serves what other sites load: <send-code>, a card of their own pages that asks the API with a public key, and the
// module that it asks through.
//
// The widget is one request: its first card, with that card's words in one language. What comes later is a module of its own, asked for
// when it may be needed: the cards after a request for a code, phone numbers, and other languages. docs/widget.md describes it.
package widget

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"sendcode/internal/bundle"
	"sendcode/internal/compress"
	"sendcode/internal/texts"
	"sendcode/web"
)

// folder is where the modules that the widget asks for are, below the service's address.
const folder = "static/widget/"

// served are the widget's files. They are made at the first request; it panics if that fails, as every test of the widget would show.
type served struct {
	entries map[string]*compress.File // by language
	modules map[string]*compress.File // by name
	files   map[string]*compress.File // that sites name, beside the widget
}

var files = sync.OnceValue(func() *served {
	s := &served{entries: map[string]*compress.File{}, modules: map[string]*compress.File{}, files: map[string]*compress.File{}}
	first, codes, phones := script("send-code"), script("code"), script("phones")
	languages := map[string]string{}
	for _, w := range texts.Pages() {
		languages[w.Lang()] = s.module("words", w, wordsOf(w, ""), "export const { lang, mails, phones } = SENDCODE;")
	}
	for _, w := range texts.Pages() {
		all := wordsOf(w, first)
		all.Languages = languages
		all.Code = s.module("code", w, wordsOf(w, codes), codes)
		numbers := wordsOf(w, phones)
		numbers.Phones, numbers.Plans = wordsOf(w, "").Phones, strings.TrimPrefix(web.Path("plans.js"), "/")
		all.Numbers = s.module("phones", w, numbers, phones)
		s.entries[w.Lang()] = compress.NewFile(javascript, all.before(first))
	}
	s.files["client.js"] = compress.NewFile(javascript, []byte(script("client")))
	for _, name := range []string{"widget.d.ts", "client.d.ts"} {
		body, err := web.FS.ReadFile("widget/" + name)
		if err != nil {
			panic(err)
		}
		s.files[name] = compress.NewFile("text/plain; charset=utf-8", body)
	}
	return s
})

var javascript = mime.TypeByExtension(".js")

func script(name string) string {
	body, err := bundle.Of(web.FS, "widget/"+name+".js", nil)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// module adds a JavaScript module in w's language to s.modules, and returns its path, which contains its version. The widget loads it when it
// needs it.
func (s *served) module(name string, w texts.Words, all words, body string) string {
	f := compress.NewFile(javascript, all.before(body))
	name += "." + w.Lang() + ".js"
	s.modules[name] = f
	return folder + name + "?v=" + f.Version()
}

// words are the texts and addresses that a module gets, as its constant SENDCODE.
type words struct {
	Lang      string            `json:"lang"`
	Mails     map[string]any    `json:"mails"`
	Phones    map[string]any    `json:"phones,omitempty"`    // texts that differ for text messages and numbers
	Languages map[string]string `json:"languages,omitempty"` // the addresses of all words, by language
	Code      string            `json:"code,omitempty"`      // addresses of modules
	Numbers   string            `json:"numbers,omitempty"`
	Plans     string            `json:"plans,omitempty"`
}

func (w words) before(body string) []byte {
	text, _ := json.Marshal(w) // of strings it cannot fail
	return []byte("const SENDCODE=" + string(text) + ";" + body)
}

// named finds the names of texts in a bundled script.
var named = regexp.MustCompile(`\.([A-Z]\w+)`)

// wordsOf returns the texts that a script names; without a script, all of them.
func wordsOf(w texts.Words, script string) words {
	used := map[string]bool{}
	for _, found := range named.FindAllStringSubmatch(script, -1) {
		used[found[1]] = true
	}
	pick := func(section string) map[string]any {
		forms := w.Forms(section)
		maps.DeleteFunc(forms, func(name string, _ any) bool { return script != "" && !used[name] })
		return forms
	}
	all := words{Lang: w.Lang(), Mails: pick(texts.Page)}
	if script == "" {
		all.Phones = pick(texts.Phone)
	}
	return all
}

// Register adds the widget to a server.
func Register(e *echo.Echo) {
	both := []string{http.MethodGet, http.MethodHead}
	e.Match(both, "/widget.js", entry)
	e.Match(both, "/"+folder+":name", func(c echo.Context) error { return answer(c, files().modules[c.Param("name")]) })
	for _, name := range []string{"client.js", "widget.d.ts", "client.d.ts"} {
		e.Match(both, "/"+name, func(c echo.Context) error { return answer(c, files().files[name]) })
	}
}

// entry serves the widget in the language of ?lang=, else of Accept-Language, else in English.
func entry(c echo.Context) error {
	h, wanted := c.Response().Header(), c.QueryParam("lang")
	if wanted == "" {
		h.Set("Vary", "Accept-Language")
		wanted = c.Request().Header.Get("Accept-Language")
	}
	lang := texts.ForPage(wanted).Lang()
	h.Set("Content-Language", lang)
	return answer(c, files().entries[lang])
}

// answer serves a file to pages of any origin: files contain no personal data.
func answer(c echo.Context, f *compress.File) error {
	if f == nil {
		return echo.ErrNotFound
	}
	c.Response().Header().Set("Access-Control-Allow-Origin", "*")
	c.Response().Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	c.Response().Header().Set("Timing-Allow-Origin", "*")
	f.Serve(c.Response(), c.Request())
	return nil
}
