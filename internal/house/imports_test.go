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
			if support[imported] && !support[pkg] && !strings.HasPrefix(pkg, "tools/") {
				t.Errorf("the row of %s names %s, which is for tests and tools only", pkg, imported)
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
	for pkg := range edges {
		if cycle := findCycle(pkg, pkg, nil); cycle != nil {
			t.Errorf("the table allows a cycle: %s", strings.Join(cycle, " -> "))
		}
	}
}

func findCycle(from, to string, way []string) []string {
	if slices.Contains(way, from) {
		return nil
	}
	way = append(slices.Clone(way), from)
	for _, next := range words(edges[from]) {
		if next == to {
			return append(way, to)
		}
		if cycle := findCycle(next, to, way); cycle != nil {
			return cycle
		}
	}
	return nil
}

// The judgement itself, since the tree shows it only what is allowed.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		pkg      string
		test     bool
		imported string
		want     string // part of the problem; empty: none
	}{
		{"quota", false, "context", ""},
		{"quota", false, "sendcode/internal/recipient", "quota may not import internal/recipient"},
		{"quota", false, "sendcode/internal/parts", "for tests and tools only"},
		{"quota", true, "sendcode/internal/parts", ""},
		{"quota", true, "sendcode/quota", ""},
		{"quota", true, "sendcode/internal/store", "quota may not import internal/store"},
		{"quota", false, "testing", "belongs into tests"},
		{"quota", true, "testing", ""},
		{"internal/parts", false, "testing", ""},
		{"internal/verification", false, "sendcode/internal/store", ""},
		{"internal/sms/acme", false, "sendcode/internal/sms", ""},
		{"internal/sms/acme", false, "sendcode/internal/config", "may not import"},
		{"internal/config", false, "sendcode/internal/sms/acme", ""},
		{"internal/store", false, "sendcode/internal/verification", "may not import"},
		{"internal/outbox", false, "sendcode/internal/verification", "may not import"},
		{"internal/verification", false, "sendcode/internal/outbox", "may not import"},
		{"internal/jobs", false, "sendcode/internal/verification", "may not import"},
		{"internal/verification", false, "sendcode/internal/support", "may not import"},
		{"internal/delivery", false, "sendcode/internal/delivery/smtptest", "for tests and tools only"},
		{"tools/up", false, "sendcode/internal/parts", ""},
		{"quota", false, "github.com/redis/go-redis/v9", ""},
		{"internal/api", false, "github.com/redis/go-redis/v9", "internal/api may not use github.com/redis/go-redis"},
		{"internal/api", true, "github.com/redis/go-redis/v9", ""},
		{"internal/page", false, "github.com/chromedp/chromedp", "internal/page may not use"},
		{"internal/page", false, "pgregory.net/rapid", "tests only"},
		{"internal/page", false, "sendcode/internal/page/pagetest", "for tests and tools only"},
		{"internal/page", true, "github.com/chromedp/chromedp", ""},
		{"internal/api", false, "github.com/google/uuid", ""},
		{"internal/api", false, "github.com/redis/go-redisx", "not in the table"},
		{"internal/api", true, "github.com/unknown/module", "not in the table"},
	} {
		got := judge(c.pkg, c.test, c.imported)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s (test: %v) imports %s: %q, want %q", c.pkg, c.test, c.imported, got, c.want)
		}
	}
}
