package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced       = regexp.MustCompile("(?ms)^```.*?^```")
	relativeLink = regexp.MustCompile(`\]\(([^)\s:]*)\)|src="([^":]+)"`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Every relative link of a document leads to a file that exists, and to a heading in it where it names one.
func TestLinksOfDocuments(t *testing.T) {
	found := map[string]bool{}
	for _, path := range markdown(t) {
		for _, m := range relativeLink.FindAllStringSubmatch(fenced.ReplaceAllString(readFile(t, path), ""), -1) {
			target, anchor, _ := strings.Cut(m[1]+m[2], "#")
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			found[path+" → "+filepath.ToSlash(to)] = true
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[0])
			} else if anchor != "" && !hasHeading(readFile(t, to), anchor) {
				t.Errorf("%s: %s has no such heading", path, m[0])
			}
		}
	}
	for _, link := range []string{"README.md → docs/PROMISES.md", "README.zh-CN.md → docs/pictures/page.png", "docs/operations.md → docs/alerts.yaml"} {
		if !found[link] {
			t.Errorf("%s was not found among the links", link)
		}
	}
}

// markdown are the documents, relative to the root.
func markdown(t *testing.T) (paths []string) {
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

// hasHeading says whether a heading has the anchor, by the rules of forges: lower case, no punctuation, dashes for spaces.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// titledTest is a link to a test whose name is the link's title.
var titledTest = regexp.MustCompile(`\]\(([\w/.]+_test\.go) "(\w+)"\)`)

// ranTest is a test in a command.
var ranTest = regexp.MustCompile(`go test \./([\w/]+) -run '?\^?(Test\w+)`)

var namedTest = regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(([\\w/.]+_test\\.go)\\)")

// The tests that a document names are where it says. README names one for each of five promises, and docs/PROMISES.md, which names no test
// without a link, the first one for each of seven.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	for _, path := range markdown(t) {
		for _, m := range namedTest.FindAllStringSubmatch(readFile(t, path), -1) {
			if file := filepath.Join(filepath.Dir(path), m[2]); !strings.Contains(readFile(t, file), "\nfunc "+m[1]+"(") {
				t.Errorf("%s: %s is not in %s", path, m[1], file)
			}
		}
	}
	for _, path := range markdown(t) {
		for _, m := range titledTest.FindAllStringSubmatch(readFile(t, path), -1) {
			if file := filepath.Join(filepath.Dir(path), m[1]); !strings.Contains(readFile(t, file), "\nfunc "+m[2]+"(") {
				t.Errorf("%s: %s is not in %s", path, m[2], file)
			}
		}
		for _, m := range ranTest.FindAllStringSubmatch(readFile(t, path), -1) {
			files, _ := filepath.Glob(filepath.Join(root, m[1], "*_test.go"))
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "\nfunc "+m[2])
			}) {
				t.Errorf("%s: no test of %s begins with %s", path, m[1], m[2])
			}
		}
	}
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		if found := namedTest.FindAllString(readFile(t, name), -1); len(found) != 5 {
			t.Errorf("%s names %d tests", name, len(found))
		}
	}
	page := readFile(t, "docs/PROMISES.md")
	promises := regexp.MustCompile(`(?m)^## \d+\. `).Split(page, -1)[1:]
	for i, text := range promises {
		text, _, _ = strings.Cut(text, "\n## ")
		_, first, _ := strings.Cut(text, "\n- **First test**: ")
		if len(namedTest.FindAllString(text, -1)) != 1 || !namedTest.MatchString(first) || !strings.Contains(text, "\n- **Assumes**: ") {
			t.Errorf("promise %d says not what it assumes, or names not the one test that fails first", i+1)
		}
	}
	all := regexp.MustCompile("`(?:Test|Fuzz)\\w+`").FindAllString(strings.Join(promises, ""), -1)
	linked := namedTest.FindAllString(page, -1)
	if unlinked := len(all) - len(linked); len(promises) != 7 || unlinked != 0 {
		t.Errorf("%d promises; %d tests are named without a link", len(promises), unlinked)
	}
}
