package house

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// structsWithContext are the types that may contain a context, each with the reason. Everywhere
// else a context is a parameter.
var structsWithContext = map[string]string{
	"internal/base/logs.requestContext":         "it is one",
	"internal/deliver/delivery/oauth.Source":    "ends its work in the background",
	"internal/deliver/webhook.Deliverer":        "ends its work in the background",
	"internal/deliver/outbox.Outbox":            "ends its work in the background",
	"internal/deliver/outbox.flight":            "an attempt that another message may end",
	"internal/limit/gates.Gates":                "ends its work in the background",
	"internal/store/batch.Call":                 "a call that waits for another goroutine",
	"quota.scriptCall":                          "a call that waits for another goroutine",
	"internal/deliver/delivery/oauth.transport": "http.RoundTripper has no parameter for it",
	"internal/run/commands.interruptible":       "io.Reader has no parameter for it",
	"internal/store/postgres.pgConn":            "one call's sqldb.Conn has it once, for all statements",
	"internal/store/sqlite.statementConn":       "one call's sqldb.Conn has it once, for all statements",
}

// settableByTests are exported variables of the product that only tests set, before anything runs.
// They are bounds that must be longer on busy machines, and work at the start that tests don't
// need.
var settableByTests = []string{
	"internal/store.CallTimeout", "internal/limit/gates.LimiterTimeout", "internal/limit/admission.MaxSlotWait",
	"internal/deliver/outbox.DefaultLease", "internal/deliver/outbox.MaxStopWait", "internal/store/postgres.OpenConnsAhead",
}

func TestContextsAreParameters(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || mayImportAll(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			declared, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			fields, is := declared.Type.(*ast.StructType)
			if !is {
				return true
			}
			for _, field := range fields.Fields.List {
				if of, is := field.Type.(*ast.SelectorExpr); is && isNamed(of, "context", "Context") {
					name := s.pkg + "." + declared.Name.Name
					if found[name] = true; structsWithContext[name] == "" {
						t.Errorf("%s: %s has a context; make it a parameter, or say why not in structsWithContext", s.name, declared.Name)
					}
				}
			}
			return true
		})
	}
	for name := range structsWithContext {
		if !found[name] {
			t.Errorf("structsWithContext has %s, which has no context", name)
		}
	}
}

func isNamed(x *ast.SelectorExpr, pkg, name string) bool {
	of, is := x.X.(*ast.Ident)
	return is && of.Name == pkg && x.Sel.Name == name
}

// No package of the product sets a variable of another one, and tests set only those of
// settableByTests.
func TestVariablesAreSetInTheirPackage(t *testing.T) {
	variables := map[string]bool{} // the exported variables of the product
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			group, is := d.(*ast.GenDecl)
			if !is || group.Tok != token.VAR || s.test || mayImportAll(s.pkg) {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					variables[s.pkg+"."+name.Name] = name.IsExported()
				}
			}
		}
	}
	set := map[string]bool{}
	for _, s := range sources(t) {
		packages := map[string]string{} // our packages, by their name in the file
		for _, spec := range s.file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			packages[name] = strings.TrimPrefix(imported, module)
		}
		judge := func(x ast.Expr) {
			of, is := x.(*ast.SelectorExpr)
			if !is {
				return
			}
			pkg, is := of.X.(*ast.Ident)
			if !is {
				return
			}
			name := packages[pkg.Name] + "." + of.Sel.Name
			if !variables[name] {
				return
			}
			if set[name] = true; !slices.Contains(settableByTests, name) || !s.test && !mayImportAll(s.pkg) {
				t.Errorf("%s sets or points to %s; pass it as a setting", s.name, name)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, x := range n.Lhs {
					judge(x)
				}
			case *ast.IncDecStmt:
				judge(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					judge(n.X)
				}
			}
			return true
		})
	}
	for _, name := range settableByTests {
		if !set[name] {
			t.Errorf("settableByTests has %s, which nothing sets", name)
		}
	}
}
