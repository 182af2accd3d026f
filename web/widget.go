package web

import (
	"encoding/json"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"sendcode/internal/base/texts"
)

// The widget is <send-code>, a card that other sites put into their pages. The widget calls the API
// with a public key, through the client module. Sites can also use the client module alone. One
// request loads the first card and its words in one language. The widget loads other modules when
// it may need them, such as the later cards, phone numbers, human checks, and other languages.
// docs/widget.md describes the widget.

// widgetModulePath is the path of the widget's further modules, below the service's address.
const widgetModulePath = "static/widget/"

// typeDeclarations are the TypeScript declarations of the widget and the client module.
var typeDeclarations = []string{"widget.d.ts", "client.d.ts"}

// widgetFiles has the files of the widget. The key of a file is the path at which the file is
// served. The key of the widget itself is widgetEntryPath and a language. The files are made at the
// first request.
var widgetFiles = sync.OnceValue(func() map[string]*File {
	all := map[string]*File{}
	module := func(name string, w moduleWords, body string) (address string) {
		f := NewFile(javascriptType, w.prependTo(body))
		path := widgetModulePath + name + "." + w.Lang + ".js"
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
		languages[w.Lang()] = module("words", moduleWordsFor(w, nil), "export const { lang, mails, phones } = SENDCODE;")
	}
	for _, w := range texts.PageLanguages() {
		numbers := moduleWordsFor(w, named["phones"])
		numbers.Phones, numbers.Plans = moduleWordsFor(w, nil).Phones, strings.TrimPrefix(StaticURL("plans.js"), "/")
		own := moduleWordsFor(w, named["send-code"])
		own.Languages, own.Code = languages, module("code", moduleWordsFor(w, named["code"]), script("code"))
		own.Numbers = module("phones", numbers, script("phones"))
		own.Human = module("human", moduleWordsFor(w, named["human"]), script("human"))
		all[widgetEntryPath+w.Lang()] = NewFile(javascriptType, own.prependTo(script("send-code")))
	}
	all["client.js"] = NewFile(javascriptType, mustRead("bundled/widget/client.js"))
	for _, name := range typeDeclarations {
		all[name] = NewFile("text/plain; charset=utf-8", mustRead("widget/"+name))
	}
	return all
})

// widgetEntryPath is the beginning of the widget's key in widgetFiles; the language follows.
const widgetEntryPath = "widget.js/"

var javascriptType = mime.TypeByExtension(".js")

// moduleWords are the texts and addresses that a module gets as its constant SENDCODE.
type moduleWords struct {
	Lang      string            `json:"lang"`
	Mails     map[string]any    `json:"mails"`
	Phones    map[string]any    `json:"phones,omitempty"`    // texts that replace those of Mails for text messages
	Languages map[string]string `json:"languages,omitempty"` // addresses of the modules with all words, by language
	Code      string            `json:"code,omitempty"`      // address of the module with the later cards
	Numbers   string            `json:"numbers,omitempty"`   // address of the module for phone numbers
	Plans     string            `json:"plans,omitempty"`     // address of phonePlansModule
	Human     string            `json:"human,omitempty"`     // address of the module for human checks
}

// prependTo returns the script, preceded by the words as its constant SENDCODE.
func (w moduleWords) prependTo(body string) []byte {
	text, _ := json.Marshal(w) // cannot fail for strings
	return []byte("const SENDCODE=" + string(text) + ";" + body)
}

// moduleWordsFor returns the page's texts with these names. If names is nil, it returns all texts,
// also those for phones.
func moduleWordsFor(w texts.Words, names []string) moduleWords {
	pick := func(section string) map[string]any {
		forms := w.TextsWithForms(section)
		maps.DeleteFunc(forms, func(name string, _ any) bool { return names != nil && !slices.Contains(names, name) })
		return forms
	}
	all := moduleWords{Lang: w.Lang(), Mails: pick(texts.PageSection)}
	if names == nil {
		all.Phones = pick(texts.PhoneSection)
	}
	return all
}

// WidgetURL returns the URL path of the widget in a language, with its version.
func WidgetURL(lang string) string {
	return "/widget.js?lang=" + lang + "&v=" + widgetFiles()[widgetEntryPath+lang].Version()
}

// WidgetPhonePreloads returns the URL paths of the modules that a first card for phone numbers
// needs in addition to the module at WidgetURL.
func WidgetPhonePreloads(lang string) (urls []string) {
	for _, name := range []string{"code", "phones"} {
		path := widgetModulePath + name + "." + lang + ".js"
		urls = append(urls, "/"+path+"?v="+widgetFiles()[path].Version())
	}
	return urls
}

// RegisterWidget adds the routes of the widget, its modules and the client module.
func RegisterWidget(e *echo.Echo) {
	e.GET("/widget.js", serveWidget)
	// The client module fetches /widget.js to test whether the service can be reached. If a tool in
	// the page, such as tracing, adds headers to this fetch, the browser first sends a preflight.
	// This route answers the preflight.
	e.OPTIONS("/widget.js", func(echo.Context) error { return nil }, middleware.CORS())
	e.GET("/"+widgetModulePath+":name", serveModule)
	for _, name := range append(typeDeclarations, "client.js") {
		e.GET("/"+name, func(c echo.Context) error { return serveToAnyOrigin(c, name) })
	}
}

// serveWidget serves the widget in the language of ?lang=. If the URL has no ?lang=, the language
// is that of Accept-Language, or English.
func serveWidget(c echo.Context) error {
	h, wanted := c.Response().Header(), c.QueryParam("lang")
	if wanted == "" {
		h.Set("Vary", "Accept-Language")
		wanted = c.Request().Header.Get("Accept-Language")
	}
	lang := texts.PageTextsFor(wanted).Lang()
	h.Set("Content-Language", lang)
	return serveToAnyOrigin(c, widgetEntryPath+lang)
}

// serveModule serves a module of this release. If the request names another version, the answer is
// 404, because the widget of another release must not run this module. A tab that was opened before
// an update then says that the page has to be reloaded.
func serveModule(c echo.Context) error {
	path := widgetModulePath + c.Param("name")
	if f, ok := widgetFiles()[path]; ok && c.QueryParam("v") != "" && c.QueryParam("v") != f.Version() {
		return echo.ErrNotFound
	}
	return serveToAnyOrigin(c, path)
}

// serveToAnyOrigin serves a file to pages of any origin: files contain no personal data.
func serveToAnyOrigin(c echo.Context, path string) error {
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
