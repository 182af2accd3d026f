package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every fuzz target has inputs in the repository, in files that are named by what they are, so that every run of the tests
// tries them; and no inputs outlive their target.
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
		t.Fatalf("only %d fuzz targets were found", len(targets))
	}
	for dir := range targets {
		if files, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(files) < 5 {
			t.Errorf("%s holds %d inputs", dir, len(files))
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
