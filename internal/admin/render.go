package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/texts"
	"sendcode/web"
	assets "sendcode/web/admin"
)

// pages are the console's templates and the files that they load, all embedded.
type pages struct {
	templates map[string]*template.Template
	files     map[string]file
	shared    *web.Assets
}

type file struct {
	body    []byte
	version string
}

// page is what every page has.
type page struct {
	W     texts.Words
	Title string
	In    bool   // somebody is logged in
	Here  string // the section that the page belongs to, if it is in the menu

	Onward string // where the page leads by itself; empty: it stays
}

// newPages parses what is embedded; what is wrong with it is a broken build, which every test of this package meets.
func newPages() *pages {
	p := &pages{templates: map[string]*template.Template{}, files: map[string]file{}, shared: web.NewAssets(nil)}
	for _, name := range []string{"admin.css", "console.js", "tail.js"} {
		body := must(fs.ReadFile(assets.FS, name))
		sum := sha256.Sum256(body)
		p.files[name] = file{body: body, version: hex.EncodeToString(sum[:6])}
	}
	base := template.New("layout.html").Funcs(template.FuncMap{"static": p.shared.Path, "own": p.path})
	template.Must(base.ParseFS(assets.FS, "layout.html"))
	template.Must(base.ParseFS(web.FS, "shared/pips.html"))
	for _, file := range must(fs.Glob(assets.FS, "*.html")) {
		name := strings.TrimSuffix(file, ".html")
		if name == "layout" {
			continue
		}
		p.templates[name] = template.Must(template.Must(base.Clone()).ParseFS(assets.FS, file))
	}
	return p
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (p *pages) path(name string) string {
	return "/admin/static/" + name + "?v=" + p.files[name].version
}

// wordsFor picks the language that the reader's browser asks for, else English.
func wordsFor(c echo.Context) texts.Words {
	return texts.For(c.Request().Header.Get("Accept-Language"))
}

// show renders completely before anything is sent, so that half a page is never shown.
func (p *pages) show(c echo.Context, status int, name string, view any) error {
	var b bytes.Buffer
	if err := p.templates[name].Execute(&b, view); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	h := c.Response().Header()
	h.Set("Vary", "Accept-Language, Cookie")
	if c.Request().Method == http.MethodHead {
		return c.NoContent(status)
	}
	return c.HTMLBlob(status, b.Bytes())
}

// static serves the style sheet and the script. Their addresses name their content, so a browser may keep them.
func (a *Admin) static(c echo.Context) error {
	name := c.Param("name")
	f, ok := a.pages.files[name]
	if !ok {
		return echo.ErrNotFound
	}
	cache := "no-cache"
	if c.QueryParam("v") == f.version {
		cache = "public, max-age=31536000, immutable"
	}
	c.Response().Header().Set("Cache-Control", cache)
	return c.Blob(http.StatusOK, mime.TypeByExtension(path.Ext(name)), f.body)
}
