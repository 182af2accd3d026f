package message

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText returns the text of an HTML mail as a mail program shows it, with one line per block. If
// hidden is true, the text also includes elements that are not displayed.
func htmlText(document string, hidden bool) string {
	node, err := html.Parse(strings.NewReader(document))
	if err != nil {
		return "" // cannot happen: the reader does not fail and HTML has no syntax errors
	}
	var out strings.Builder
	writeText(&out, node, hidden)
	var lines []string
	for line := range strings.SplitSeq(out.String(), "\n") {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// writeText writes the text of a node and its children. If withHidden is false, writeText leaves
// out elements that are not displayed.
func writeText(out *strings.Builder, node *html.Node, withHidden bool) {
	switch {
	case node.Type == html.TextNode:
		out.WriteString(strings.NewReplacer("\n", " ", "\r", " ").Replace(node.Data))
		return
	case node.Type == html.ElementNode && (isNeverShown(node.DataAtom) || !withHidden && isHidden(node)):
		return
	}
	block := node.Type == html.ElementNode && !slices.Contains(inlineElements, node.DataAtom)
	if block {
		out.WriteString("\n")
	}
	for child := range node.ChildNodes() {
		writeText(out, child, withHidden)
	}
	if block {
		out.WriteString("\n")
	}
}

func isNeverShown(a atom.Atom) bool {
	return a == atom.Head || a == atom.Style || a == atom.Script || a == atom.Template
}

var inlineElements = []atom.Atom{
	atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Code, atom.Em, atom.Font, atom.I, atom.Kbd, atom.Mark, atom.S,
	atom.Small, atom.Span, atom.Strong, atom.Sub, atom.Sup, atom.U, atom.Wbr,
}

func isHidden(node *html.Node) bool {
	for _, a := range node.Attr {
		style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
		if a.Key == "hidden" || a.Key == "style" && strings.Contains(style, "display:none") {
			return true
		}
	}
	return false
}
