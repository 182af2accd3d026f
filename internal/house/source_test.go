package house

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasADoc(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		documented[s.pkg] = documented[s.pkg] || goodDoc(s.file)
	}
	for _, pkg := range slices.Sorted(maps.Keys(documented)) {
		if !documented[pkg] {
			t.Errorf("package %s has no doc comment that says what it is for, why, and where in the flow it stands",
				pkg)
		}
	}
}

// goodDoc wants the form that go doc expects: "Package name …", for a command
// the command's name.
func goodDoc(file *ast.File) bool {
	text := file.Doc.Text()
	if file.Name.Name == "main" {
		return len(strings.Fields(text)) > 3
	}
	return strings.HasPrefix(text, "Package "+file.Name.Name+" ")
}

func TestNothingSleeps(t *testing.T) {
	check(t, "calls time.Sleep; wait for the condition, or take the waiting as an argument", func(s source) bool {
		fakeClock := s.test && (slices.Contains(s.imports, "testing/synctest") || calls(s.file, bubbles, "Bubble"))
		return !fakeClock && sleepers[s.name] == "" && calls(s.file, "time", "Sleep")
	})
}

func TestBubblesAreOnOneProcessor(t *testing.T) {
	check(t, "calls synctest.Test, which crashes under the race detector; servertest.Bubble does not",
		func(s source) bool {
			return s.pkg != strings.TrimPrefix(bubbles, module) && calls(s.file, "testing/synctest", "Test")
		})
}

// The product and one kit put each of these together, so a new part of it is wired in two places.
func TestOneKitMakesEach(t *testing.T) {
	for maker, kit := range map[string]string{
		"internal/app/core": "internal/verification/verificationtest",
		"internal/api":      "internal/verification/verificationtest",
		"internal/page":     "internal/page/pagetest",
		"internal/app":      "internal/app/apptest",
	} {
		check(t, "calls New of "+maker+"; take what "+kit+" makes", func(s source) bool {
			return !slices.Contains([]string{maker, kit, "internal/app"}, s.pkg) && calls(s.file, module+maker, "New")
		})
	}
}

func TestNoInit(t *testing.T) {
	check(t, "declares func init; do it where main can see it", func(s source) bool {
		return slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Recv == nil && f.Name.Name == "init"
		})
	})
}

// check complains about every file that breaks a rule.
func check(t *testing.T, complaint string, breaks func(source) bool) {
	t.Helper()
	for _, s := range sources(t) {
		if breaks(s) {
			t.Errorf("%s %s", s.name, complaint)
		}
	}
}

// calls finds the selector under whatever name the file imports the package.
func calls(file *ast.File, pkg, function string) bool {
	name := ""
	for _, spec := range file.Imports {
		if spec.Path.Value != `"`+pkg+`"` {
			continue
		}
		if name = path.Base(pkg); spec.Name != nil {
			name = spec.Name.Name
		}
	}
	if name == "" {
		return false
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == function {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == name
		}
		if id, ok := n.(*ast.Ident); ok && name == "." {
			found = found || id.Name == function
		}
		return !found
	})
	return found
}
