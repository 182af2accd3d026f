package reference

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"sendcode/docs"
)

// page is a document of docs/. The server serves its Markdown for programs at /docs/<Name>. It
// serves an HTML page at the same address without .md.
type page struct {
	Name   string // operations.md
	Title  string
	text   string
	Body   template.HTML
	Titles []title // within the body
}

// title is a heading of level 2 to 4 in a document.
type title struct{ ID, Text string }

var (
	link    = regexp.MustCompile(`\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?(?:\s+"[^"]*")?\)`)
	picture = regexp.MustCompile(`(?m)^(!\[.*\]\(.*\)|<img .*>)\n+`)

	notInID      = regexp.MustCompile(`[^\pL\pN_-]`)
	htmlTag      = regexp.MustCompile(`<[^>]*>`)
	htmlTitle    = regexp.MustCompile(`<(h[234])>(.*)</h`)
	documentLink = regexp.MustCompile(`href="/docs/([^"#]+)\.md`)
	// cells are aligned by attributes, since the Content-Security-Policy of our pages forbids
	// inline styles
	markdown = goldmark.New(goldmark.WithExtensions(extension.NewTable(
		extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))
)

func renderMarkdown(text string) (template.HTML, error) {
	var b strings.Builder
	err := markdown.Convert([]byte(text), &b)
	return template.HTML(b.String()), err
}

// makeBody renders the document as HTML. Each title of level 2 to 4 is a link to itself.
func (p *page) makeBody() error {
	rendered, err := renderMarkdown(p.text)
	body := htmlTitle.ReplaceAllStringFunc(string(rendered), func(found string) string {
		parts := htmlTitle.FindStringSubmatch(found)
		text := html.UnescapeString(htmlTag.ReplaceAllString(parts[2], ""))
		p.Titles = append(p.Titles, title{titleID(text), text})
		return fmt.Sprintf(`<%s id="%s"><a href="#%[2]s">%s</a></h`, parts[1], titleID(text), parts[2])
	})
	body = strings.ReplaceAll(body, "<th></th>", "<td></td>") // the head of a table may be empty
	p.Body = template.HTML(documentLink.ReplaceAllString(body, `href="/docs/$1`))
	return err
}

// titleID returns the ID that GitHub gives a title.
func titleID(text string) string {
	return notInID.ReplaceAllString(strings.ToLower(strings.ReplaceAll(text, " ", "-")), "")
}

// pages returns the documents, sorted by name. A link to a file that is not served becomes plain
// text; pictures are left out.
func pages() ([]page, error) {
	names, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		return nil, err
	}
	var all []page
	for _, name := range names {
		raw, err := docs.Pages.ReadFile(name)
		if err != nil {
			return nil, err
		}
		title, _, _ := strings.Cut(string(raw), "\n")
		title = strings.ReplaceAll(strings.TrimPrefix(title, "# "), "`", "")
		text := link.ReplaceAllStringFunc(picture.ReplaceAllString(string(raw), ""), servedLink)
		p := page{Name: name, Title: title, text: text}
		if err := p.makeBody(); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// servedLink returns a link of a document in its served form. A link to another site or within the
// document does not change. A link to a file gets the address at which the file is served. If the
// file is not served, the link becomes plain text.
func servedLink(text string) string {
	parts := link.FindStringSubmatch(text)
	label, target, fragment := parts[1], parts[2], parts[3]
	switch {
	case target == "", strings.HasPrefix(target, "https://"):
		return text
	case target == "openapi.yaml":
		return fmt.Sprintf("[%s](/openapi.yaml)", label)
	case path.Dir(target) == "." && path.Ext(target) == ".md":
		return fmt.Sprintf("[%s](/docs/%s%s)", label, target, fragment)
	}
	return label
}

// Base returns the name without .md. The page is served at /docs/<Base>.
func (p page) Base() string { return strings.TrimSuffix(p.Name, ".md") }

// Lang returns the language of the document: "zh-CN" for sms.zh-CN.md, and "en" for sms.md.
func (p page) Lang() string { return cmp.Or(strings.TrimPrefix(path.Ext(p.Base()), "."), "en") }

// llms returns /llms.txt (llmstxt.org), by which programs find the documents.
func llms(all []page) []byte {
	var b strings.Builder
	b.WriteString("# sendcode\n\n> Sends verification codes by e-mail and text message and checks them, never more often than the policy " +
		"allows.\n\nA back end asks by POST /v1/verifications and checks what the person typed by POST /v1/verifications/{id}/check; " +
		"a page uses the widget <send-code>.\n\n## Docs\n\n- [HTTP API](/openapi.yaml): OpenAPI 3.1\n")
	for _, p := range all {
		fmt.Fprintf(&b, "- [%s](/docs/%s)\n", p.Title, p.Name)
	}
	return []byte(b.String())
}
