package outbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Only update takes the lock of the lanes. So each change of a lane first notes whether the lane
// was full.
func TestOnlyUpdateLocksTheLanes(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	usesByFunc := map[string]int{}
	for _, file := range files {
		if name := file.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") && name != "export_test.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "lanesMu" {
					usesByFunc[f.Name.Name]++
				}
				return true
			})
		}
	}
	if usesByFunc["update"] != 2 || len(usesByFunc) != 1 {
		t.Errorf("lanesMu is used in %v, want twice in update alone", usesByFunc)
	}
}
