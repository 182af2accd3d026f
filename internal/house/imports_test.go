package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestImportsFollowTheTables(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		seen[s.pkg] = true
		if _, ok := row(s.pkg); !ok {
			continue // said once, below
		}
		for _, imported := range s.imports {
			if problem := judge(s.pkg, s.test, imported); problem != "" {
				t.Errorf("%s: %s", s.name, problem)
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(seen)) {
		if _, ok := row(pkg); !ok {
			t.Errorf("package %s is not in the table: say in internal/house/tables_test.go which of our packages it may import", pkg)
		}
	}
}

// judge says what is wrong with one import, or nothing.
func judge(pkg string, test bool, imported string) string {
	switch ours, isOurs := strings.CutPrefix(imported, module); {
	case isOurs:
		return judgeOurs(pkg, test, ours)
	case standard(imported):
		if imported == "testing" && !test && !support[pkg] {
			return "imports testing, which belongs into tests"
		}
		return ""
	default:
		return judgeModule(pkg, test, imported)
	}
}

// row finds a package in the table, or the row of all that are beside it.
func row(pkg string) (list string, ok bool) {
	if list, ok = edges[pkg]; !ok {
		list, ok = edges[path.Dir(pkg)+"/*"]
	}
	return list, ok
}

func judgeOurs(pkg string, test bool, imported string) string {
	list, _ := row(pkg)
	allowed := words(list)
	if test {
		allowed = append(allowed, words(extraInTests[pkg])...)
		allowed = append(allowed, pkg) // package x_test
		if support[imported] {
			return ""
		}
	}
	if support[imported] && !support[pkg] && !strings.HasPrefix(pkg, "tools/") {
		return fmt.Sprintf("imports %s, which is for tests and tools only", imported)
	}
	if slices.Contains(allowed, imported) || slices.Contains(allowed, path.Dir(imported)+"/*") {
		return ""
	}
	return fmt.Sprintf("%s may not import %s: declare an interface where it is needed and let internal/app join the two, "+
		"or change internal/house/tables_test.go and say why in the commit", pkg, imported)
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
	return fmt.Sprintf("the module of %s is not in the table: say in internal/house/tables_test.go which packages may use it", imported)
}

func words(list string) []string { return strings.Fields(list) }

func orNone(users string) string {
	if users == testsOnly {
		return "tests only"
	}
	return users
}

// A table that names what is long gone misleads its readers.
func TestTablesAreSound(t *testing.T) {
	for pkg, list := range edges {
		for _, imported := range words(list) {
			if _, ok := edges[imported]; !ok {
				t.Errorf("the row of %s names %s, which has no row itself", pkg, imported)
			}
		}
	}
	for name, users := range modules {
		for _, pkg := range words(users) {
			if _, ok := edges[pkg]; !ok && pkg != anywhere {
				t.Errorf("the row of module %s names %s, which has no row", name, pkg)
			}
		}
	}
}
