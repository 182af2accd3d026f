package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/markdown"
)

// Every relative link of a document leads to a file that exists, and to a heading in it where it names one.
func TestLinksOfDocuments(t *testing.T) {
	found := map[string]bool{}
	for _, name := range documents(t) {
		text := readFile(t, name)
		for _, l := range markdown.Links(name, text) {
			found[name+" → "+l.Target] = true
		}
		for _, problem := range markdown.Dead(name, text, func(target string) (string, error) {
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
	for _, link := range []string{"README.md → docs/PROMISES.md", "README.zh-CN.md → docs/pictures/page.png", "docs/operations.md → docs/alerts.yaml"} {
		if !found[link] {
			t.Errorf("%s was not found among the links", link)
		}
	}
}

// documents are all of the repository, relative to its root.
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

// titledTest is a link to a test whose name is the link's title.
var titledTest = regexp.MustCompile(`\]\(([\w/.]+_test\.go) "(\w+)"\)`)

// ranTest is a test in a command.
var ranTest = regexp.MustCompile(`go test \./([\w/]+) -run '?\^?(Test\w+)`)

var namedTest = regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(([\\w/.]+_test\\.go)\\)")

// The tests that a document names are where it says. README names one for each of five promises, and docs/PROMISES.md, which names no test
// without a link, at least two for each of seven.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	for _, path := range documents(t) {
		for _, m := range namedTest.FindAllStringSubmatch(readFile(t, path), -1) {
			if file := filepath.Join(filepath.Dir(path), m[2]); !strings.Contains(readFile(t, file), "\nfunc "+m[1]+"(") {
				t.Errorf("%s: %s is not in %s", path, m[1], file)
			}
		}
	}
	for _, path := range documents(t) {
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
		if found := namesOf(namedTest, readFile(t, name)); len(found) != 5 {
			t.Errorf("%s names a test for each of five promises: %s", name, found)
		}
	}
	page := readFile(t, "docs/PROMISES.md")
	linked := namesOf(namedTest, page)
	for _, name := range namesOf(regexp.MustCompile("`((?:Test|Fuzz)\\w+)`"), page) {
		if !slices.Contains(linked, name) {
			t.Errorf("docs/PROMISES.md names %s without a link", name)
		}
	}
	promises := regexp.MustCompile(`(?m)^## (\d+\. .*)$`).FindAllStringSubmatch(page, -1)
	for _, m := range promises {
		_, text, _ := strings.Cut(page, m[0])
		text, _, _ = strings.Cut(text, "\n## ")
		if !strings.Contains(text, "\n- **Assumes**: ") {
			t.Errorf("promise %s: not said what it assumes", m[1])
		}
		_, tests, _ := strings.Cut(text, "\n- **Tests**:\n")
		if found := namesOf(heldTest, tests); len(found) < 2 || !slices.Equal(found, namesOf(namedTest, text)) {
			t.Errorf("promise %s: it names the tests %s; in its list, each with what it holds, must be all of them and two at least, and there are %s",
				m[1], namesOf(namedTest, text), found)
		}
	}
	if len(promises) != 7 {
		t.Errorf("promises are %s", promises)
	}
}

// heldTest is a line of a promise's tests: the test, and what it holds.
var heldTest = regexp.MustCompile("(?m)^  - \\[`((?:Test|Fuzz)\\w+)`\\]\\([\\w/.]+_test\\.go\\): \\w.+$")

// namesOf returns the first group of each match, each name once.
func namesOf(pattern *regexp.Regexp, text string) (names []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
