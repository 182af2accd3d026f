package reference

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"sendcode/docs"
)

// page is a document of docs/ as it is served at /docs/<Name>.
type page struct {
	Name  string // operations.md
	Title string
	text  string
}

var (
	link    = regexp.MustCompile(`\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?(?:\s+"[^"]*")?\)`)
	picture = regexp.MustCompile(`(?m)^(!\[.*\]\(.*\)|<img .*>)\n+`)
)

// pages returns the documents, in the order of their names. A link to a file that is not served
// becomes plain text; pictures are left out.
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
		all = append(all, page{name, title, text})
	}
	return all, nil
}

// servedLink returns a link of a document as it is served: unchanged if it leads to another site or
// within the document, with the address that serves its file, or as its text if the service serves
// no such file.
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
