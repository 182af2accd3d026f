// Package widget serves the scripts that other sites load: <send-code>, a card in their pages that asks the API with a public key, and the
// client module that the card uses.
//
// A page gets the widget with one request: the first card and its words in one language. The widget loads other modules when it may need
// them: the cards after a request for a code, phone numbers, and other languages. docs/widget.md describes it.
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

// declarations are the TypeScript declarations of the widget and the client module.
var declarations = []string{"widget.d.ts", "client.d.ts"}

// files maps paths to the files that are served there; the widget's path is entry and a language. The files are made at the first request.
// That panics if a script cannot be built, which every test of the widget would show.
var files = sync.OnceValue(func() map[string]*compress.File {
	all := map[string]*compress.File{}
	module := func(name string, w words, body string) (address string) {
		f := compress.NewFile(javascript, w.prependTo(body))
		path := folder + name + "." + w.Lang + ".js"
		all[path] = f
		return path + "?v=" + f.Version()
	}
	first, codes, phones := bundledScript("send-code"), bundledScript("code"), bundledScript("phones")
	languages := map[string]string{}
	for _, w := range texts.PageLanguages() {
		languages[w.Lang()] = module("words", wordsNamedIn(w, ""), "export const { lang, mails, phones } = SENDCODE;")
	}
	for _, w := range texts.PageLanguages() {
		numbers := wordsNamedIn(w, phones)
		numbers.Phones, numbers.Plans = wordsNamedIn(w, "").Phones, strings.TrimPrefix(web.StaticURL("plans.js"), "/")
		own := wordsNamedIn(w, first)
		own.Languages, own.Code, own.Numbers = languages, module("code", wordsNamedIn(w, codes), codes), module("phones", numbers, phones)
		all[entry+w.Lang()] = compress.NewFile(javascript, own.prependTo(first))
	}
	all["client.js"] = compress.NewFile(javascript, []byte(bundledScript("client")))
	for _, name := range declarations {
		body, err := web.FS.ReadFile("widget/" + name)
		if err != nil {
			panic(err)
		}
		all[name] = compress.NewFile("text/plain; charset=utf-8", body)
	}
	return all
})

// entry is the beginning of the widget's path, before the language.
const entry = "widget.js/"

var javascript = mime.TypeByExtension(".js")

// bundledScript returns a script of the widget by its name, with all that it imports. It panics if that cannot be built.
func bundledScript(name string) string {
	body, err := bundle.Build(web.FS, "widget/"+name+".js")
	if err != nil {
		panic(err)
	}
	return string(body)
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

// prependTo returns the script with the words before it, as its constant SENDCODE.
func (w words) prependTo(body string) []byte {
	text, _ := json.Marshal(w) // of strings it cannot fail
	return []byte("const SENDCODE=" + string(text) + ";" + body)
}

// named finds the names of texts in a bundled script.
var named = regexp.MustCompile(`\.([A-Z]\w+)`)

// wordsNamedIn returns the texts of the page that a script names. Without a script it returns all of them, and those for phones.
func wordsNamedIn(w texts.Words, script string) words {
	used := map[string]bool{}
	for _, found := range named.FindAllStringSubmatch(script, -1) {
		used[found[1]] = true
	}
	pick := func(section string) map[string]any {
		forms := w.TextsWithForms(section)
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
	e.Match(both, "/widget.js", serveWidget)
	e.Match(both, "/"+folder+":name", func(c echo.Context) error { return serveFile(c, folder+c.Param("name")) })
	for _, name := range append(declarations, "client.js") {
		e.Match(both, "/"+name, func(c echo.Context) error { return serveFile(c, name) })
	}
}

// serveWidget serves the widget in the language of ?lang=, else of Accept-Language, else in English.
func serveWidget(c echo.Context) error {
	h, wanted := c.Response().Header(), c.QueryParam("lang")
	if wanted == "" {
		h.Set("Vary", "Accept-Language")
		wanted = c.Request().Header.Get("Accept-Language")
	}
	lang := texts.ForPage(wanted).Lang()
	h.Set("Content-Language", lang)
	return serveFile(c, entry+lang)
}

// serveFile serves a file to pages of any origin: files contain no personal data.
func serveFile(c echo.Context, path string) error {
	f, ok := files()[path]
	if !ok {
		return echo.ErrNotFound
	}
	c.Response().Header().Set("Access-Control-Allow-Origin", "*")
	c.Response().Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	c.Response().Header().Set("Timing-Allow-Origin", "*")
	f.ServeHTTP(c.Response(), c.Request())
	return nil
}
