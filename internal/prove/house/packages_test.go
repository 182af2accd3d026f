package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/ARCHITECTURE.md names each package of internal but those of tests and their kits, and each
// path that it names exists.
func TestArchitectureNamesThePackages(t *testing.T) {
	var named []string
	for _, m := range regexp.MustCompile("`([a-z0-9/_.-]+)`").FindAllStringSubmatch(readFile(t, "docs/ARCHITECTURE.md"), -1) {
		named = append(named, m[1])
	}
	seen := map[string]bool{}
	for _, s := range sources(t) {
		pkg, ours := strings.CutPrefix(s.pkg, "internal/")
		room, _, _ := strings.Cut(pkg, "/")
		last := filepath.Base(pkg)
		if !ours || s.test || room == "kit" || room == "prove" || strings.HasSuffix(last, "test") || seen[pkg] {
			continue
		}
		seen[pkg] = true
		// A package may be named by its last element, beside its parent's name.
		if !slices.Contains(named, pkg) && !(slices.Contains(named, filepath.Dir(pkg)) && slices.Contains(named, last)) {
			t.Errorf("docs/ARCHITECTURE.md does not name internal/%s", pkg)
		}
	}
	for _, name := range named {
		if !strings.Contains(name, "/") || strings.HasPrefix(name, "/") { // this is a word or a route, not a path
			continue
		}
		if !slices.ContainsFunc([]string{name, "internal/" + name}, func(path string) bool {
			_, err := os.Stat(filepath.Join(root, path))
			return err == nil
		}) {
			t.Errorf("docs/ARCHITECTURE.md names %s, which does not exist", name)
		}
	}
}
