package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/tools/markdown"
)

// Every relative link in a document leads to a file that exists. If the link names a heading, the
// file has this heading. No document has the same heading twice, as after a merge that kept both
// sides.
func TestLinksOfDocuments(t *testing.T) {
	for _, name := range documents(t) {
		text := readFile(t, name)
		headings := map[string]bool{}
		for _, h := range regexp.MustCompile(`(?m)^#+ .+$`).FindAllString(text, -1) {
			if headings[h] {
				t.Errorf("%s: twice: %s", name, h)
			}
			headings[h] = true
		}
		for _, problem := range markdown.DeadLinks(name, text, func(target string) (string, error) {
			file := filepath.Join(root, target)
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				return "", err
			}
			to, err := os.ReadFile(file)
			return string(to), err
		}) {
			t.Error(problem)
		}
	}
}

// A number names one decision, so no two pages of decisions have the same number. The number in the
// file's name is the number in its title.
func TestDecisionsHaveNumbersOfTheirOwn(t *testing.T) {
	pages := map[string]string{}
	for _, name := range documents(t) {
		m := regexp.MustCompile(`^docs/decisions/(0*(\d+))-`).FindStringSubmatch(filepath.ToSlash(name))
		if m == nil {
			continue
		}
		if other, twice := pages[m[1]]; twice {
			t.Errorf("%s and %s have the same number: give the later one the next that is free", other, name)
		}
		pages[m[1]] = name
		if !strings.HasPrefix(readFile(t, name), "# "+m[2]+". ") {
			t.Errorf("the title of %s does not begin with its number", name)
		}
	}
	if len(pages) < 30 {
		t.Errorf("found only %d decisions", len(pages))
	}
}

// documents returns the paths of all documents in the repository but those of tools/release,
// relative to its root.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "tools/bench/*.md", "quota/*.md", "templates/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			name, _ := filepath.Rel(root, path)
			paths = append(paths, name)
		}
	}
	return paths
}

// namesOf returns the first group of each match, each name once.
func namesOf(pattern *regexp.Regexp, text string) (names []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
