package sqldb_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/store/storetest"
)

// Each access has the name of the store's method that it belongs to: logs, traces and the faults of tests
// go by it.
func TestAccessesHaveTheNamesOfMethods(t *testing.T) {
	methodName := regexp.MustCompile(`^[A-Z][A-Za-z]*[a-z][A-Za-z]*$`)
	type access struct{ in, name, at string }
	var found []access
	methods := map[string]bool{}
	for _, folder := range []string{".", "../postgres", "../sqlite"} {
		for _, path := range storetest.Must(filepath.Glob(filepath.Join(folder, "*.go")))(t) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file := storetest.Must(parser.ParseFile(files, path, storetest.Must(os.ReadFile(path))(t), 0))(t)
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv == nil {
					continue
				}
				methods[f.Name.Name] = true
				ast.Inspect(f, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					for i := 1; ok && i < min(len(call.Args), 3); i++ { // after ctx, and db if it is no method
						if text, ok := call.Args[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
							if name, err := strconv.Unquote(text.Value); err == nil && methodName.MatchString(name) {
								found = append(found, access{f.Name.Name, name, files.Position(text.Pos()).String()})
							}
						}
					}
					return true
				})
			}
		}
	}
	parts := map[string]string{"ReadSQLiteHistory": "ReadHistory", "VerificationUnshared": "Verification"} // SQLite's
	for _, a := range found {
		if ast.IsExported(a.in) && a.name != cmp.Or(parts[a.in], a.in) || !methods[a.name] {
			t.Errorf("%s: %s has an access named %s", a.at, a.in, a.name)
		}
	}
	if len(found) < 80 {
		t.Errorf("%d accesses found", len(found))
	}
}
