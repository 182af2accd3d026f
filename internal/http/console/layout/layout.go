// Package layout has what all pages of the console share: the frame with the menu, templates,
// static files, forms, error pages and lists. A page that lists rows defines a [List]. The List has
// the parameters of its filter, a function that reads rows, and a function that returns the cursor
// of a row. This package then handles the cursors, the addresses of other pages, and the JSON of
// the list.
package layout

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/server"
	"sendcode/web"
)

// FieldOption is a choice of one field.
type FieldOption struct {
	Value, Text string
	Chosen      bool
}

// FieldOptions returns the choices of a field: first the choice without a value, then the values.
// The key of a choice's text is field + ".any" for the first, and names + "." + value for the
// others.
func FieldOptions[T ~string](w texts.Words, field, names string, chosen T, values ...T) []FieldOption {
	all := []FieldOption{{Text: w.Get(field + ".any"), Chosen: chosen == ""}}
	for _, v := range values {
		all = append(all, FieldOption{Value: string(v), Text: w.Get(names + "." + string(v)), Chosen: v == chosen})
	}
	return all
}

// Layout has the console's templates and the static files that pages load, all embedded.
type Layout struct {
	status    func(context.Context) ServiceStatus
	logger    *slog.Logger
	templates map[string]*template.Template
	files     map[string]*web.File
}

// New parses the embedded templates. It panics if a template is wrong.
func New(logger *slog.Logger, status func(context.Context) ServiceStatus) *Layout {
	l := &Layout{
		logger: logger, status: status, templates: map[string]*template.Template{},
		files: map[string]*web.File{},
	}
	for _, name := range []string{"admin.css", "console.js"} {
		body := must(web.FS.ReadFile("admin/" + name))
		l.files[name] = web.NewFile(mime.TypeByExtension(path.Ext(name)), body)
	}
	base := template.New("layout.html").Funcs(template.FuncMap{
		"static": web.StaticURL, "own": func(name string) string { return "/admin/static/" + name + "?v=" + l.files[name].Version() },
		"set": func(id uuid.UUID) bool { return id != uuid.Nil },
	})
	template.Must(base.ParseFS(web.FS, "admin/layout.html"))
	template.Must(base.ParseFS(web.FS, "shared/pips.html"))
	for _, file := range must(fs.Glob(web.FS, "admin/*.html")) {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" {
			continue
		}
		l.templates[name] = template.Must(template.Must(base.Clone()).ParseFS(web.FS, file))
	}
	return l
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Show renders a whole page before it sends any of it, so that no browser gets half a page if the
// template fails.
func (l *Layout) Show(c echo.Context, status int, name string, view any) error {
	if p, ok := view.(interface{ statusLine() *statusLine }); ok && p.statusLine() != nil {
		p.statusLine().fill(l.status(c.Request().Context()))
	}
	c.Response().Header().Set("Vary", "Accept-Language, Cookie")
	server.SetDefaultRetryAfter(c, status)
	return web.WritePage(c, status, func(w io.Writer) error {
		if err := l.templates[name].Execute(w, view); err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
		return nil
	})
}

// Register adds the static files, the form for language and time zone, and a redirect from /admin/
// to the start page.
func (l *Layout) Register(e *echo.Echo) {
	e.POST(preferencesPath, FormHandler(savePreferences), l.PageMiddleware()...)
	e.GET("/admin/static/:name", l.serveFile)
	e.GET("/admin/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/admin") })
}

// serveFile serves the style sheet and the script. Their addresses contain a hash of the content,
// so browsers may cache them.
func (l *Layout) serveFile(c echo.Context) error {
	name := c.Param("name")
	f, ok := l.files[name]
	if !ok {
		return echo.ErrNotFound
	}
	f.ServeHTTP(c.Response(), c.Request())
	return nil
}
