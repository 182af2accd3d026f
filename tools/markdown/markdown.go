// Package markdown finds the relative links of Markdown documents, for tools/release and a test in
// internal/prove/house. Links in fenced blocks count as text.
package markdown

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	fencedBlock    = regexp.MustCompile("(?ms)^```.*?^```")
	linkPattern    = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s:]*)(?: "[^"]*")?\)|src="([^":]+)"`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// nonAnchorChars matches a character that the anchor of a heading leaves out.
	nonAnchorChars = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Link is a relative link or picture of a document.
type Link struct {
	Raw    string // the whole link, as it is written
	Text   string // "" for an <img> tag
	Target string // the path of a file from the root of all documents, with slashes
	Anchor string
}

// Links returns the relative links of a document. name is the document's path from the root of all
// documents.
func Links(name, text string) (links []Link) {
	for _, m := range linkPattern.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		target, anchor, _ := strings.Cut(m[2]+m[3], "#")
		target = path.Join(path.Dir(name), target)
		if strings.HasPrefix(m[2], "#") {
			target = name
		}
		links = append(links, Link{m[0], m[1], target, anchor})
	}
	return links
}

// DeadLinks describes each link of a document to a missing file or heading. read returns a file's
// text.
func DeadLinks(name, text string, read func(target string) (string, error)) (problems []string) {
	for _, l := range Links(name, text) {
		to, err := read(l.Target)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %s leads nowhere", name, l.Raw))
		case l.Anchor != "" && !hasHeading(to, l.Anchor):
			problems = append(problems, fmt.Sprintf("%s: %s has no such heading", name, l.Raw))
		}
	}
	return problems
}

// hasHeading reports whether a heading has the anchor, by the rules of code hosts: lower case, no
// punctuation, hyphens for spaces.
func hasHeading(text, anchor string) bool {
	for _, m := range headingPattern.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(nonAnchorChars.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
