package house

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestImportsFollowTheTables(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasPrefix(s.pkg, "tools/outside/") { // these directories are modules of their own
			continue
		}
		for _, imported := range s.imports {
			if problem := judge(s.pkg, s.test || mayImportAll(s.pkg), imported); problem != "" {
				t.Errorf("%s: %s", s.name, problem)
			}
		}
	}
}

// mayImportAll reports whether a package may import all our packages: a kit for tests, except
// historytest, a package with tests only, or a tool.
func mayImportAll(pkg string) bool {
	return pkg != "internal/kit/historytest" && (strings.HasSuffix(pkg, "test") || within(pkg, "internal/kit/...") ||
		within(pkg, "internal/prove/...") || within(pkg, "tools/..."))
}

// judge describes the problem with one import, or returns "". forTests is true if a test, a kit or
// a tool imports the package.
func judge(pkg string, forTests bool, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, module)
	if imported == strings.TrimSuffix(module, "/") {
		ours, isOurs = ".", true
	}
	list, ok := row(pkg)
	allows := func(pattern string) bool { return within(ours, pattern) }
	switch {
	case isOurs && forTests:
		return ""
	case isOurs && !ok:
		return "its package is not in the table: say in internal/prove/house/tables_test.go which of our packages it may import"
	case isOurs && (mayImportAll(ours) || !slices.ContainsFunc(words(list), allows)):
		return fmt.Sprintf(
			"%s may not import %s: declare an interface where it is needed and let internal/run/app join the two, "+
				"or change internal/prove/house/tables_test.go and say why in the commit", pkg, ours)
	case isOurs:
		return ""
	case !strings.Contains(strings.Split(imported, "/")[0], "."): // the standard library: every path that begins with a host has a dot
		if imported == "testing" && !forTests {
			return "imports testing, which belongs into tests"
		}
		return ""
	}
	for name, users := range modules {
		if imported != name && !strings.HasPrefix(imported, name+"/") {
			continue
		}
		if forTests || users == anywhere || slices.Contains(words(users), pkg) {
			return ""
		}
		return fmt.Sprintf("%s may not use %s (allowed: %s)", pkg, name, cmp.Or(users, "tests only"))
	}
	return fmt.Sprintf(
		"the module of %s is not in the table: say in internal/prove/house/tables_test.go which packages may use it", imported)
}

// within reports whether a package matches a pattern of the go command: x is only the package,
// x/... also has all packages below it.
func within(pkg, pattern string) bool {
	dir, all := strings.CutSuffix(pattern, "/...")
	return pkg == dir || all && strings.HasPrefix(pkg, dir+"/")
}

// row finds the row of a package, or of its nearest parent with a row.
func row(pkg string) (list string, ok bool) {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if list, ok = edges[pkg]; ok {
			return list, true
		}
	}
	return "", false
}

func words(list string) []string { return strings.Fields(list) }
