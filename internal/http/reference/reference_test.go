package reference_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"sendcode/docs"
	"sendcode/internal/http/reference"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
)

// documents serves the reference, which is rendered at its first request.
var documents = sync.OnceValue(func() *echo.Echo { e := echo.New(); reference.Register(e); return e })

// getDocument returns the service's answer at a path.
func getDocument(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	documents().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func referencePage(t *testing.T) string {
	t.Helper()
	w := getDocument("/docs")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatal(w.Code, w.Header())
	}
	return w.Body.String()
}

var (
	htmlTag    = regexp.MustCompile(`<[^>]*>`)
	htmlSpaces = regexp.MustCompile(`\s+`)
)

func plainText(text string) string {
	return htmlSpaces.ReplaceAllString(strings.ReplaceAll(text, "`", ""), " ")
}

// The page has every text of the specification: each path, name, description, pattern, status and
// value of an enumeration.
func TestReferenceHasTheWholeSpecification(t *testing.T) {
	body := referencePage(t)
	shown := plainText(html.UnescapeString(htmlTag.ReplaceAllString(body, "")))
	var spec yaml.Node
	servertest.OK(t, yaml.Unmarshal(docs.OpenAPI, &spec))
	seen := 0
	has := func(what, text string) {
		if seen++; !strings.Contains(shown, strings.TrimSpace(plainText(text))) {
			t.Errorf("the page lacks the %s %q", what, text)
		}
	}
	var walk func(n *yaml.Node, under string, shared bool)
	walk = func(n *yaml.Node, under string, shared bool) {
		for i, child := range n.Content {
			name := under
			if n.Kind == yaml.MappingNode {
				if name = n.Content[i-i%2].Value; i%2 == 0 {
					continue
				}
				if under == "paths" || under == "properties" || under == "schemas" ||
					(under == "responses" || under == "headers") && !shared {
					has(under, name)
				}
			}
			// the page names no servers, and lists the kinds of problems instead of this response
			if name == "servers" || under == "responses" && name == "Problem" {
				continue
			}
			if child.Kind == yaml.ScalarNode {
				switch name {
				case "description", "summary", "pattern", "enum", "format", "name", "maxLength", "minLength", "maximum":
					has(name, child.Value)
				}
			}
			walk(child, name, shared || name == "components")
		}
	}
	walk(&spec, "", false)
	if seen < 1000 {
		t.Errorf("%d texts were looked for", seen)
	}
	for _, k := range server.ProblemKinds() {
		has("problem", k.Slug)
		has("cause", k.Cause)
	}
}

// Every operation under /v1/ may answer 503, for example while the service starts or stops. An
// operation with a body may also answer 413 and 415. The OpenAPI document lists these answers.
func TestOperationsNameWhatAllMayAnswer(t *testing.T) {
	var spec struct {
		Paths map[string]map[string]struct {
			RequestBody any `yaml:"requestBody"`
			Responses   map[string]any
		}
	}
	servertest.OK(t, yaml.Unmarshal(docs.OpenAPI, &spec))
	for path, operations := range spec.Paths {
		for method, o := range operations {
			for _, status := range []string{"503", "413", "415"} {
				if o.Responses[status] == nil && strings.HasPrefix(path, "/v1/") && (status == "503" || o.RequestBody != nil) {
					t.Errorf("%s %s names no %s", method, path, status)
				}
			}
		}
	}
}

// The page loads nothing from other origins and runs only our script. Each of its links has a
// target.
func TestReferenceStandsAlone(t *testing.T) {
	html := referencePage(t)
	scripts := regexp.MustCompile(`<script[^>]*>`).FindAllString(html, -1)
	if len(scripts) != 1 || !strings.Contains(scripts[0], ` src="/static/docs.js?v=`) {
		t.Errorf("the page runs %q", scripts)
	}
	for _, part := range []string{"style=", "http://", "//"} {
		for _, found := range regexp.MustCompile(`<[^>]*`+part+`[^>]*>`).FindAllString(html, -1) {
			t.Errorf("the page has %s", found)
		}
	}
	links := regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(html, -1)
	for _, link := range links {
		servertest.Same(t, "times that #"+link[1]+" is there", strings.Count(html, ` id="`+link[1]+`"`), 1)
	}
	if len(links) < 60 {
		t.Errorf("%d links", len(links))
	}
}

func TestReferenceListsProblems(t *testing.T) {
	w := getDocument("/problems")
	if at := w.Header().Get("Location"); w.Code != http.StatusFound || at != "/docs#problems" ||
		!strings.Contains(referencePage(t), ` id="problems">`) {
		t.Errorf("%d, at %q", w.Code, at)
	}
}

// /docs, except for the README, and /llms.txt link to each document. The targets of the documents'
// links are served.
func TestDocumentsAreServedWithTheirLinks(t *testing.T) {
	get := func(path string) (kind, body string) {
		w := getDocument(path)
		servertest.Same(t, path, w.Code, http.StatusOK)
		return w.Header().Get("Content-Type"), w.Body.String()
	}
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	_, index := get("/llms.txt")
	page := referencePage(t)
	targets := regexp.MustCompile(` href="(/docs/[^"#]*|)(?:#([^"]*))?"`)
	links := regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	for _, file := range files {
		path := "/docs/" + filepath.Base(file)
		address := strings.TrimSuffix(path, ".md")
		if !strings.Contains(index, "]("+path+")") || !strings.Contains(page, `"`+address+`"`) && address != "/docs/README" {
			t.Errorf("nothing leads to %s", path)
		}
		kind, html := get(address)
		if kind != "text/html; charset=utf-8" || !strings.Contains(html, `href="`+path+`"`) || strings.Contains(html, "style=") {
			t.Errorf("%s is %s, %.40q", address, kind, html)
		}
		for _, m := range targets.FindAllStringSubmatch(html, -1) {
			to := html
			if m[1] != "" {
				_, to = get(m[1])
			}
			if id, _ := url.PathUnescape(m[2]); id != "" && strings.Count(to, ` id="`+id+`"`) != 1 {
				t.Errorf("%s links to %s#%s, which is there %d times", address, m[1], id, strings.Count(to, ` id="`+id+`"`))
			}
		}
		kind, body := get(path)
		if kind != "text/markdown; charset=utf-8" || !strings.HasPrefix(body, "# ") || strings.Contains(body, "pictures/") {
			t.Errorf("%s is %s, %.40q", path, kind, body)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			switch to := m[1]; {
			case to == "", to == "/openapi.yaml", strings.HasPrefix(to, "https://"):
			case strings.HasPrefix(to, "/docs/"):
				get(to)
			default:
				t.Errorf("%s links to %s", path, to)
			}
		}
	}
	servertest.Same(t, "a document that does not exist", getDocument("/docs/decisions.md").Code, http.StatusNotFound)
}

// Each example has the variable of the key that its operation takes: an admin token below
// /v1/admin, none where none is needed, otherwise an API key.
func TestExamplesNameTheirKey(t *testing.T) {
	open := regexp.MustCompile(`^/(\.well-known/|widget\.js|v1/(events|hooks|receipts)/)`)
	seen := map[string]int{}
	for _, found := range regexp.MustCompile(`<code>curl[^"]*"\$CODES_URL([^"]*)"( \\\n  -H "Authorization: Bearer (\$\w+)")?`).
		FindAllStringSubmatch(html.UnescapeString(referencePage(t)), -1) {
		path, key, want := found[1], found[3], "$CODES_KEY"
		switch {
		case strings.HasPrefix(path, "/v1/admin/"):
			want = "$CODES_ADMIN_TOKEN"
		case open.MatchString(path):
			want = ""
		}
		if seen[want]++; key != want {
			t.Errorf("%s shows the key %q, want %q", path, key, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("examples by key: %v", seen)
	}
}
