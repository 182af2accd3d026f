package web

import (
	"encoding/json"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"sendcode/internal/texts"
)

// The widget is what other sites load: <send-code>, a card in their pages that asks the API with a
// public key, and the client module that the card uses. A page gets it with one request: the first
// card and its words in one language. The widget loads other modules when it may need them: the
// cards after a request for a code, phone numbers, and other languages. docs/widget.md describes
// it.

// folder is where the modules that the widget asks for are, below the service's address.
const folder = "static/widget/"

// declarations are the TypeScript declarations of the widget and the client module.
var declarations = []string{"widget.d.ts", "client.d.ts"}

// widgetFiles maps paths to the files that are served there; the widget's path is entry and a
// language. They are made at the first request.
var widgetFiles = sync.OnceValue(func() map[string]*File {
	all := map[string]*File{}
	module := func(name string, w words, body string) (address string) {
		f := NewFile(javascript, w.prependTo(body))
		path := folder + name + "." + w.Lang + ".js"
		all[path] = f
		return path + "?v=" + f.Version()
	}
	script := func(name string) string { return string(mustRead("bundled/widget/" + name + ".js")) }
	var named map[string][]string
	if err := json.Unmarshal(mustRead("bundled/widget/texts.json"), &named); err != nil {
		panic(err)
	}
	languages := map[string]string{}
	for _, w := range texts.PageLanguages() {
		languages[w.Lang()] = module("words", wordsIn(w, nil), "export const { lang, mails, phones } = SENDCODE;")
	}
	for _, w := range texts.PageLanguages() {
		numbers := wordsIn(w, named["phones"])
		numbers.Phones, numbers.Plans = wordsIn(w, nil).Phones, strings.TrimPrefix(StaticURL("plans.js"), "/")
		own := wordsIn(w, named["send-code"])
		own.Languages, own.Code = languages, module("code", wordsIn(w, named["code"]), script("code"))
		own.Numbers = module("phones", numbers, script("phones"))
		all[entry+w.Lang()] = NewFile(javascript, own.prependTo(script("send-code")))
	}
	all["client.js"] = NewFile(javascript, mustRead("bundled/widget/client.js"))
	for _, name := range declarations {
		all[name] = NewFile("text/plain; charset=utf-8", mustRead("widget/"+name))
	}
	return all
})

// entry is the beginning of the widget's path, before the language.
const entry = "widget.js/"

var javascript = mime.TypeByExtension(".js")

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

// wordsIn returns the named texts of the page. Without names it returns all of them, and those for
// phones.
func wordsIn(w texts.Words, names []string) words {
	pick := func(section string) map[string]any {
		forms := w.TextsWithForms(section)
		maps.DeleteFunc(forms, func(name string, _ any) bool { return names != nil && !slices.Contains(names, name) })
		return forms
	}
	all := words{Lang: w.Lang(), Mails: pick(texts.Page)}
	if names == nil {
		all.Phones = pick(texts.Phone)
	}
	return all
}

// RegisterWidget adds the widget to a server.
func RegisterWidget(e *echo.Echo) {
	e.GET("/widget.js", serveWidget)
	e.GET("/"+folder+":name", func(c echo.Context) error { return serveForAll(c, folder+c.Param("name")) })
	for _, name := range append(declarations, "client.js") {
		e.GET("/"+name, func(c echo.Context) error { return serveForAll(c, name) })
	}
}

// serveWidget serves the widget in the language of ?lang=, else of Accept-Language, else in
// English.
func serveWidget(c echo.Context) error {
	h, wanted := c.Response().Header(), c.QueryParam("lang")
	if wanted == "" {
		h.Set("Vary", "Accept-Language")
		wanted = c.Request().Header.Get("Accept-Language")
	}
	lang := texts.ForPage(wanted).Lang()
	h.Set("Content-Language", lang)
	return serveForAll(c, entry+lang)
}

// serveForAll serves a file to pages of any origin: files contain no personal data.
func serveForAll(c echo.Context, path string) error {
	f, ok := widgetFiles()[path]
	if !ok {
		return echo.ErrNotFound
	}
	c.Response().Header().Set("Access-Control-Allow-Origin", "*")
	c.Response().Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	c.Response().Header().Set("Timing-Allow-Origin", "*")
	f.ServeHTTP(c.Response(), c.Request())
	return nil
}
