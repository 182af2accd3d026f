package house

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/tools/markdown"
)

// Every relative link of a document leads to a file that exists, and to a heading in it where it
// names one. No heading is there twice, as after a merge that kept both sides.
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

// The tests that a document names are where it says. README names one for each of five promises,
// and docs/PROMISES.md, which names no test without a link, at least two for each of seven, all of
// which make test runs.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	for _, path := range documents(t) {
		text := readFile(t, path)
		named := namedTest.FindAllStringSubmatch(text, -1)
		for _, m := range titledTest.FindAllStringSubmatch(text, -1) {
			named = append(named, []string{m[0], m[2], m[1]})
		}
		for _, m := range named {
			if file := filepath.Join(filepath.Dir(path), m[2]); !strings.Contains(readFile(t, file), "\nfunc "+m[1]+"(") {
				t.Errorf("%s: %s is not in %s", path, m[1], file)
			}
		}
		for _, m := range ranTest.FindAllStringSubmatch(text, -1) {
			begins := func(s source) bool { return s.test && s.pkg == m[1] && strings.Contains(s.text, "\nfunc "+m[2]) }
			if !slices.ContainsFunc(sources(t), begins) {
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
	for _, m := range namedTest.FindAllStringSubmatch(page, -1) {
		if file := filepath.Join("docs", m[2]); isNightly(readFile(t, file)) {
			t.Errorf("docs/PROMISES.md names %s, which make test does not run", m[1])
		}
	}
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
			t.Errorf(
				"promise %s: it names the tests %s; in its list, each with what it holds, must be all of them and two at least, and there are %s",
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

// Each file that a recipe of a package comment names is there: a recipe has lines that begin with a
// path.
func TestRecipesNameFilesThatExist(t *testing.T) {
	recipe := regexp.MustCompile(
		`(?m)^//\t(?:((?:internal|docs|web|migrations|templates)/[^ ,]*(?:,[^ ]+\})?)|([\w/]+\.(?:go|yaml|txt)))((?:, [\w./-]+\.\w+)*)`)
	for _, file := range []string{
		"internal/store/store.go", "internal/verify/support/support.go", "internal/deliver/sms/doc.go",
		"internal/deliver/delivery/mailapi/doc.go", "internal/run/config/config.go",
	} {
		comment, _, ok := strings.Cut(readFile(t, file), "\npackage ")
		if !ok || !strings.Contains(comment, "\n// # A new ") {
			t.Errorf("%s has no recipe in its package comment", file)
		}
		for _, m := range recipe.FindAllStringSubmatch(comment, -1) {
			if m[1] == "" { // a file of the package
				m[1] = filepath.Join(filepath.Dir(file), m[2])
			}
			paths := []string{m[1]}
			if before, rest, both := strings.Cut(m[1], "{"); both {
				list, after, _ := strings.Cut(rest, "}")
				paths = nil
				for name := range strings.SplitSeq(list, ",") {
					paths = append(paths, before+name+after)
				}
			}
			for beside := range strings.SplitSeq(m[3], ", ") {
				if beside != "" {
					paths = append(paths, filepath.Join(filepath.Dir(m[1]), beside))
				}
			}
			for _, path := range paths {
				if found, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(found) == 0 {
					t.Errorf("%s: the recipe names %s, which does not exist", file, path)
				}
			}
		}
	}
}

// Both READMEs tell what a run of make prove counts, in round numbers. They are those of the run
// that EXACT-QUOTAS.md shows.
func TestTheRoundNumbersAreOfTheRunThatIsShown(t *testing.T) {
	const shown = "docs/EXACT-QUOTAS.md"
	sends, waits := numberIn(t, shown, `0 of (\d+) sends over the policy\n`)/1000, numberIn(t, shown, `0 of (\d+) waits untrue\n`)/1000
	for name, told := range map[string]string{
		"README.md": fmt.Sprintf(
			"Of some %d,000 sends none is over the policy and none is lost, and none of %d,000 announced waits is wrong.",
			sends, waits),
		"README.zh-CN.md": fmt.Sprintf("约 %d000 次发送中没有一次超频、没有一次丢失，约 %d000 次等待提示中没有一次失准。", sends, waits),
	} {
		if !strings.Contains(readFile(t, name), told) {
			t.Errorf("%s does not say: %s", name, told)
		}
	}
}

// A page in Chinese has the headings, commands and ports of the English one. That of text messages has its settings and
// links, too.
func TestChinesePagesSayTheSame(t *testing.T) {
	comment, title := regexp.MustCompile(`(?m) +(#|//) .*$|^# .*$`), regexp.MustCompile(`\{(en|zh): [^}]*\}`)
	blocks := func(page string) (all []string) {
		for i, part := range strings.Split(page, "\n```") {
			if i%2 == 1 {
				all = append(all, title.ReplaceAllString(comment.ReplaceAllString(part, ""), "{}"))
			}
		}
		return all
	}
	named := regexp.MustCompile("`[^`\n]+`|\\]\\([^)]+\\)")
	for name, least := range map[string]int{"README": 8, "docs/sms": 4} {
		english, chinese := readFile(t, name+".md"), readFile(t, name+".zh-CN.md")
		if a, b := strings.Count(english, "\n## "), strings.Count(chinese, "\n## "); a != b {
			t.Errorf("%s: %d headings, in Chinese %d", name, a, b)
		}
		a, b := blocks(english), blocks(chinese)
		if len(a) < least || len(a) != len(b) {
			t.Fatalf("%s: %d blocks, in Chinese %d", name, len(a), len(b))
		}
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("%s, block %d:\n%s\nin Chinese:\n%s", name, i+1, a[i], b[i])
			}
		}
		if name == "README" { // which links to pages in Chinese
			continue
		}
		chinese = strings.ReplaceAll(chinese, "("+path.Base(name)+".md)", "("+path.Base(name)+".zh-CN.md)")
		of := func(page string) []string { return slices.Sorted(slices.Values(named.FindAllString(page, -1))) }
		if a, b := of(english), of(chinese); !slices.Equal(a, b) {
			t.Errorf("%s: the names and links differ:\n%q\nin Chinese:\n%q", name, a, b)
		}
	}
}
