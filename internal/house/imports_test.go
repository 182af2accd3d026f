package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestImportsFollowTheTables(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg == "tools/outside/manifest" { // a module of its own
			continue
		}
		for _, imported := range s.imports {
			if problem := judge(s.pkg, s.test || free(s.pkg), imported); problem != "" {
				t.Errorf("%s: %s", s.name, problem)
			}
		}
	}
}

// free reports whether a package may import all of ours: a kit for tests, tests alone, or a tool.
func free(pkg string) bool {
	return slices.Contains(support, pkg) || strings.HasPrefix(pkg, "internal/e2e/") || strings.HasPrefix(pkg, "tools/")
}

// judge describes the problem with one import, or nothing. forTests: of a test, a kit or a tool.
func judge(pkg string, forTests bool, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, module)
	switch list, ok := row(pkg); {
	case isOurs && forTests:
		return ""
	case isOurs && !ok:
		return "its package is not in the table: say in internal/house/tables_test.go which of our packages it may import"
	case isOurs && !slices.Contains(words(list), ours) && !slices.Contains(words(list), path.Dir(ours)+"/*"):
		return fmt.Sprintf(
			"%s may not import %s: declare an interface where it is needed and let internal/app join the two, "+
				"or change internal/house/tables_test.go and say why in the commit", pkg, ours)
	case isOurs:
		return ""
	case standard(imported):
		if imported == "testing" && !forTests {
			return "imports testing, which belongs into tests"
		}
		return ""
	}
	return judgeModule(pkg, forTests, imported)
}

// row finds a package in the table, or the row of all that are beside it.
func row(pkg string) (list string, ok bool) {
	if list, ok = edges[pkg]; !ok {
		list, ok = edges[path.Dir(pkg)+"/*"]
	}
	return list, ok
}

func judgeModule(pkg string, test bool, imported string) string {
	for name, users := range modules {
		if imported != name && !strings.HasPrefix(imported, name+"/") {
			continue
		}
		if test || users == anywhere || slices.Contains(words(users), pkg) {
			return ""
		}
		return fmt.Sprintf("%s may not use %s (allowed: %s)", pkg, name, orNone(users))
	}
	return fmt.Sprintf(
		"the module of %s is not in the table: say in internal/house/tables_test.go which packages may use it",
		imported)
}

func words(list string) []string { return strings.Fields(list) }

func orNone(users string) string {
	if users == testsOnly {
		return "tests only"
	}
	return users
}
