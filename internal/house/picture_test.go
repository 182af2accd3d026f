package house

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// The picture of a send in ARCHITECTURE.md is true: a line is an import, a dotted one an interface
// where there must be none.
func TestThePictureOfASendIsTrue(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imports[s.pkg] = append(imports[s.pkg], s.imports...)
		}
	}
	var solid, dotted []string
	for line := range strings.Lines(readFile(t, "docs/ARCHITECTURE.md")) {
		from, to, isImport := strings.Cut(strings.TrimSpace(line), " ──▶ ")
		if !isImport {
			var isDotted bool
			if from, to, isDotted = strings.Cut(strings.TrimSpace(line), " ··▶ "); !isDotted {
				continue
			}
		}
		for _, a := range strings.Split(from, ", ") {
			for _, b := range strings.Split(to, ", ") {
				if has := slices.Contains(imports[place(a)], module+place(b)); has != isImport {
					t.Errorf("%s: %s imports %s is %v", strings.TrimSpace(line), a, b, has)
				}
				if isImport {
					solid = append(solid, a+" ──▶ "+b)
				} else {
					dotted = append(dotted, a+" ··▶ "+b)
				}
			}
		}
	}
	if len(solid) < 10 || len(dotted) < 5 {
		t.Errorf("the picture has the lines %q and %q alone", solid, dotted)
	}
}

// place is where a package of the picture lies.
func place(name string) string {
	if name == "quota" {
		return name
	}
	return "internal/" + name
}

// The walks through the code name functions that there are.
func TestTheWalksNameFunctions(t *testing.T) {
	_, walks, _ := strings.Cut(readFile(t, "docs/ARCHITECTURE.md"), "### One check, one reset, one setting")
	walks, _, _ = strings.Cut(walks, "### Two gates")
	declared := map[string]bool{}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					declared[name.Name] = true // methods of interfaces, and fields
				}
			case *ast.TypeSpec:
				declared[n.Name.Name] = true
			}
			return true
		})
	}
	named := 0
	for i, text := range strings.Split(walks, "`") {
		name := text[strings.LastIndex(text, ".")+1:]
		if i%2 == 0 || name == "ttl" || name == "config" {
			continue
		}
		if named++; !declared[name] {
			t.Errorf("%s is named in a walk and is not there", text)
		}
	}
	if named < 25 {
		t.Errorf("the walks name %d functions", named)
	}
}
