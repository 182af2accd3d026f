// Package reference serves the specification of the HTTP API (docs/openapi.yaml) as a page, at
// /docs. Package server serves the page of each problem.
package reference

import (
	"bytes"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"sendcode/docs"
	"sendcode/internal/server"
	"sendcode/web"
)

// Register adds the route of the page, and a redirect to its list of problems. The page is rendered
// at the first request.
func Register(e *echo.Echo) {
	page := sync.OnceValues(func() (*web.File, error) {
		text, err := render(docs.OpenAPI)
		return web.NewFile("text/html; charset=utf-8", text), err
	})
	e.GET("/docs", func(c echo.Context) error {
		file, err := page()
		if err != nil {
			return err
		}
		file.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	// The shortened URL of a problem leads to the list of all problems.
	e.GET("/problems", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/docs#problems") })
}

// render returns the page of an OpenAPI document.
func render(specification []byte) ([]byte, error) {
	var d document
	if err := yaml.Unmarshal(specification, &d); err != nil {
		return nil, err
	}
	t, err := template.New("docs.html").Funcs(template.FuncMap{
		"text": renderParagraphs, "code": server.BackticksToHTML, "lastSegment": lastSegment, "upper": strings.ToUpper, "problemKinds": problemKindsOf,
		"parameter": d.resolveParameter, "body": d.resolveBody, "response": d.resolveResponse, "header": d.resolveHeader,
	}).ParseFS(web.FS, "docs/docs.html")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		document
		Problems []server.ProblemKind
	}{d, server.ProblemKinds()})
	return b.Bytes(), err
}

// renderParagraphs returns a description as HTML: paragraphs between empty lines, with text between
// backticks as code.
func renderParagraphs(text string) template.HTML {
	var b strings.Builder
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if p != "" {
			b.WriteString("<p>" + string(server.BackticksToHTML(p)) + "</p>")
		}
	}
	return template.HTML(b.String())
}

// problemKindsOf returns the kinds of problems with a status.
func problemKindsOf(status string) []server.ProblemKind {
	return slices.DeleteFunc(server.ProblemKinds(),
		func(k server.ProblemKind) bool { return strconv.Itoa(k.Status) != status })
}

// lastSegment returns the last segment of a reference such as #/components/schemas/Send.
func lastSegment(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
