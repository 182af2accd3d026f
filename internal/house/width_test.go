package house

import (
	"go/ast"
	"testing"
)

// The packages on the way of a send and beside it stay small: each is read in an hour, and asks of the log no more than it uses.
const (
	maxCode    = 1500 // lines of code of a package, tests left out
	maxMethods = 15   // of an interface, embedded ones of its package included
)

// small are the packages that the bounds hold for.
var small = words("internal/verification internal/code internal/keys internal/policy internal/gates internal/refusals internal/outbox " +
	"internal/reports internal/jobs internal/support")

func TestPackagesOfASendAreSmall(t *testing.T) {
	code := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			code[s.pkg] += s.code
		}
	}
	for _, pkg := range small {
		if n := code[pkg]; n == 0 || n > maxCode {
			t.Errorf("%s has %d lines of code, want 1 to %d", pkg, n, maxCode)
		}
	}
}

func TestInterfacesOfASendAreNarrow(t *testing.T) {
	for _, pkg := range small {
		declared := map[string]*ast.InterfaceType{}
		for _, s := range sources(t) {
			if s.pkg == pkg && !s.test {
				interfaces(s.file, declared)
			}
		}
		for name := range declared {
			if n := methods(name, declared); n > maxMethods {
				t.Errorf("%s.%s has %d methods, want at most %d: declare a smaller one for each feature", pkg, name, n, maxMethods)
			}
		}
	}
}

func interfaces(f *ast.File, found map[string]*ast.InterfaceType) {
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				found[spec.Name.Name] = i
			}
		}
		return true
	})
}

// methods counts those of an interface. One embedded from another package is as wide as may be: its methods are not declared here.
func methods(name string, declared map[string]*ast.InterfaceType) (n int) {
	for _, field := range declared[name].Methods.List {
		embedded, ok := field.Type.(*ast.Ident)
		switch {
		case len(field.Names) > 0:
			n++
		case ok && declared[embedded.Name] != nil:
			n += methods(embedded.Name, declared)
		default:
			n += maxMethods + 1
		}
	}
	return n
}
