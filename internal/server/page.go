package server

import (
	"bytes"
	"html/template"
	"net/http"

	"github.com/labstack/echo/v4"
)

// problemTemplate is the HTML page that explains a problem.
var problemTemplate = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} · sendcode</title><link rel="stylesheet" href="/static/page.css"></head>
<body><main class="card"><h1>{{.Title}}</h1>{{with .Detail}}<p>{{.}}</p>{{end}}{{with .Explanation}}<p>{{.}}</p>{{end}}
<p><a href="/">Start page</a></p></main></body></html>
`))

// writePage answers with the page of a problem. Detail and explanation may be empty.
func writePage(c echo.Context, status int, title, detail, explanation string) error {
	var b bytes.Buffer
	if err := problemTemplate.Execute(&b, struct{ Title, Detail, Explanation string }{title, detail, explanation}); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}

// serveProblemPage serves the page that explains a kind of problem, at the address in its member `type`.
func serveProblemPage(c echo.Context) error {
	k, ok := kinds[c.Param("slug")]
	if !ok {
		return echo.ErrNotFound
	}
	return writePage(c, http.StatusOK, k.Title, "", k.Explanation)
}
