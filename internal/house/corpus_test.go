package house

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every fuzz target has inputs in the repository, in files that are named by what they are, so that
// every run of the tests tries them; and no inputs outlive their target.
func TestEveryFuzzTargetHasACorpus(t *testing.T) {
	root, targets := root, map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Fuzz") {
				targets[filepath.Join(filepath.FromSlash(s.pkg), "testdata", "fuzz", f.Name.Name)] = true
			}
		}
	}
	if len(targets) < 10 {
		t.Fatalf("found the fuzz targets %q alone", slices.Sorted(maps.Keys(targets)))
	}
	for dir := range targets {
		if files, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(files) < 5 {
			t.Errorf("%s holds only the inputs %v: %v", dir, files, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "internal", "*", "testdata", "fuzz", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range found {
		if name, _ := filepath.Rel(root, dir); !targets[name] {
			t.Errorf("%s belongs to no target", name)
		}
	}
}
