// Package reference serves the specification of the HTTP API (docs/openapi.yaml) as a page, at
// /docs. It also serves the documents of docs/ there, for people and programs. Package server
// serves the page of each problem.
package reference

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"sendcode/docs"
	"sendcode/internal/http/server"
	"sendcode/web"
)

// Register adds the routes of the page, of the documents and of /llms.txt. It also adds a redirect
// to the page's list of problems. The first request renders all files.
func Register(e *echo.Echo) {
	files := sync.OnceValues(render)
	serve := func(c echo.Context) error {
		all, err := files()
		if err != nil {
			return err
		}
		file, ok := all[c.Request().URL.Path]
		if !ok {
			return echo.ErrNotFound
		}
		file.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	e.GET("/docs", serve)
	e.GET("/docs/:name", serve)
	e.GET("/docs/", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/docs") })
	e.GET("/llms.txt", serve)
	// A problem's type is /problems/<slug>. The URL without a slug redirects to the list of all
	// problems.
	e.GET("/problems", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/docs#problems") })
}

// render returns the files to serve, by path.
func render() (map[string]*web.File, error) {
	all, err := pages()
	if err != nil {
		return nil, err
	}
	files := map[string]*web.File{"/llms.txt": web.NewFile("text/plain; charset=utf-8", llms(all))}
	var d document
	if err := yaml.Unmarshal(docs.OpenAPI, &d); err != nil {
		return nil, err
	}
	t, err := template.New("docs.html").Funcs(template.FuncMap{
		"text": renderMarkdown, "code": server.BackticksToHTML, "lastSegment": lastSegment, "upper": strings.ToUpper,
		"static":       web.StaticURL,
		"problemKinds": problemKindsWithStatus,
		"parameter":    func(p parameter) parameter { return resolve(p, p.Ref, d.Components.Parameters) },
		"body":         func(b *requestBody) requestBody { return resolve(*b, b.Ref, d.Components.RequestBodies) },
		"response":     func(r response) response { return resolve(r, r.Ref, d.Components.Responses) },
		"header":       func(h header) header { return resolve(h, h.Ref, d.Components.Headers) },
	}).ParseFS(web.FS, "docs/*.html")
	if err != nil {
		return nil, err
	}
	add := func(path, name string, data any) error {
		var b bytes.Buffer
		err := t.ExecuteTemplate(&b, name, data)
		files[path] = web.NewFile("text/html; charset=utf-8", b.Bytes())
		return err
	}
	var list template.HTML // the links to the documents
	for _, p := range all {
		files["/docs/"+p.Name] = web.NewFile("text/markdown; charset=utf-8", []byte(p.text))
		err = errors.Join(err, add("/docs/"+p.Base(), "document.html", p))
		if p.Name == "README.md" {
			_, after, _ := strings.Cut(string(p.Body), "</h1>")
			list = template.HTML(after)
		}
	}
	return files, errors.Join(err, add("/docs", "docs.html", struct {
		document
		Problems  []server.ProblemKind
		Documents template.HTML
		Pages     []page
	}{d, server.ProblemKinds(), list, all}))
}

func problemKindsWithStatus(status string) []server.ProblemKind {
	return slices.DeleteFunc(server.ProblemKinds(),
		func(k server.ProblemKind) bool { return strconv.Itoa(k.Status) != status })
}

// lastSegment returns the last segment of a reference such as #/components/schemas/Send.
func lastSegment(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
