package server

import (
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/web"
)

// problemsPath is the path of the pages that explain problems. The address of a page is this path
// followed by the slug.
const problemsPath = "/problems/"

// problemTemplate is the HTML page of a problem. If Detail is set, the page is the response to one
// failed request, for a person. If Detail is empty, the page explains a kind of problem to
// developers, in the frame of /docs.
var problemTemplate = template.Must(template.New("problem").Funcs(template.FuncMap{"code": BackticksToHTML}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} · sendcode</title><link rel="icon" href="/static/icon.svg">{{if .Detail}}<link rel="stylesheet" href="/static/page.css"></head>
<body><main class="card"><h1>{{.Title}}</h1><p>{{.Detail}}</p>
<p class="act"><a class="button" href="/">Start page</a></p></main></body></html>{{else}}
<link rel="stylesheet" href="/static/docs.css"><script type="module" src="/static/docs.js"></script></head>
<body>
<nav id="contents" aria-label="All problems"><details open><summary>Contents</summary>
<ul><li><a href="/docs">The API</a></li><li><a href="/docs#problems">All problems</a></li>{{range .Kinds}}
<li><a href="/problems/{{.Slug}}"{{if eq .Slug $.Slug}} aria-current="page"{{end}}>{{.Title}} <code>{{.Status}} {{.Slug}}</code></a></li>{{end}}
</ul></details></nav>
<main class="document"><h1>{{.Title}}</h1>
<p class="address">Status {{.Status}}, type <code>{{.Slug}}</code></p><h2>What happened</h2><p>{{code .Cause}}</p><h2>What to do</h2><p>{{code .Remedy}}</p>
<h2>What to show a person</h2><p>{{code .Say}}</p></main></body></html>{{end}}
`))

// problemPage is the data of problemTemplate.
type problemPage struct {
	ProblemKind
	Detail string
}

// Kinds returns all kinds of problems, for the list beside the page.
func (problemPage) Kinds() []ProblemKind { return problemKinds }

// BackticksToHTML returns a text as escaped HTML. Text between backticks becomes <code>.
func BackticksToHTML(text string) template.HTML {
	parts := strings.Split(template.HTMLEscapeString(text), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<code>" + parts[i] + "</code>"
	}
	return template.HTML(strings.Join(parts, ""))
}

func writeProblemPage(c echo.Context, status int, p problemPage) error {
	return web.WritePage(c, status, func(w io.Writer) error { return problemTemplate.Execute(w, p) })
}

// serveProblemPage serves the page that explains a kind of problem. The member `type` of such a
// problem is the address of the page.
func serveProblemPage(c echo.Context) error {
	i := slices.IndexFunc(problemKinds, func(k ProblemKind) bool { return k.Slug == c.Param("slug") })
	if i < 0 {
		return echo.ErrNotFound
	}
	return writeProblemPage(c, http.StatusOK, problemPage{ProblemKind: problemKinds[i]})
}
