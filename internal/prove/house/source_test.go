package house

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each file keeps the rules that neither the compiler nor staticcheck knows.
func TestSourcesKeepTheRules(t *testing.T) {
	sleeps := regexp.MustCompile(`\btime\.Sleep\b`)
	for _, s := range sources(t) {
		if s.pkg == "internal/prove/house" { // it names what it forbids
			continue
		}
		fakeClock := s.test && (slices.Contains(s.imports, "testing/synctest") || strings.Contains(s.text, "servertest.Bubble(") ||
			s.pkg == bubbles)
		for complaint, broken := range map[string]bool{
			"calls time.Sleep; wait for the condition, or take the waiting as an argument": !fakeClock &&
				sleepers[s.name] == "" && sleeps.MatchString(s.text),
			"calls synctest.Test, which crashes under the race detector; servertest.Bubble does not": s.pkg != bubbles &&
				strings.Contains(s.text, "synctest.Test("),
			"declares func init; do it where main can see it": strings.Contains(s.text, "\nfunc init()"),
		} {
			if broken {
				t.Errorf("%s %s", s.name, complaint)
			}
		}
		// The product and one kit put each of these together, so a new part of it is wired in two places.
		for maker, kit := range map[string]string{
			"internal/run/app/core": "internal/verify/verification/verificationtest",
			"internal/http/api":     "internal/verify/verification/verificationtest",
			"internal/http/page":    "internal/http/page/pagetest",
			"internal/run/app":      "internal/run/app/apptest",
		} {
			if !slices.Contains([]string{maker, kit, "internal/run/app"}, s.pkg) && slices.Contains(s.imports, module+maker) &&
				regexp.MustCompile(`\b`+path.Base(maker)+`\.New\(`).MatchString(s.text) {
				t.Errorf("%s calls New of %s; take what %s makes", s.name, maker, kit)
			}
		}
	}
}

// accessName finds the name of an access to the database, after ctx and the store.
var accessName = regexp.MustCompile(`\(ctx,\s+(?:db, |&[ps]\.DB, )?"([A-Z]\w*[a-z]\w*)"`)

// Each access to the database has the name of the store's method that it belongs to: logs, traces and the
// faults of tests go by it.
func TestAccessesHaveTheNamesOfMethods(t *testing.T) {
	methods, named := map[string]bool{}, map[string]string{}
	for _, s := range product(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !strings.HasPrefix(s.pkg, "internal/store/") {
				continue
			}
			methods[f.Name.Name] = true
			for _, m := range accessName.FindAllStringSubmatch(s.text[f.Pos()-s.file.FileStart:f.End()-s.file.FileStart], -1) {
				named[m[1]] = f.Name.Name
				if f.Name.IsExported() && m[1] != f.Name.Name {
					t.Errorf("%s: %s has an access named %s", s.name, f.Name.Name, m[1])
				}
			}
		}
	}
	for name, in := range named {
		if !methods[name] {
			t.Errorf("%s has an access named %s, and there is no such method", in, name)
		}
	}
	if len(named) < 60 {
		t.Errorf("%d names found", len(named))
	}
}

// No statement hides in the header of an if or a switch, where a reader looks for a condition: a
// simple statement there declares names, or sets err or ok for the condition.
func TestNoStatementHidesInAHeader(t *testing.T) {
	checked := regexp.MustCompile(`\b(err|ok|fail)\b`)
	for _, s := range product(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			var simple ast.Stmt
			var condition ast.Node
			switch n := n.(type) {
			case *ast.IfStmt:
				simple, condition = n.Init, n.Cond
			case *ast.SwitchStmt:
				simple, condition = n.Init, n.Tag
			case *ast.TypeSwitchStmt:
				simple, condition = n.Init, n.Assign
			}
			text := func(n ast.Node) string { return s.text[n.Pos()-s.file.FileStart : n.End()-s.file.FileStart] }
			a, assigns := simple.(*ast.AssignStmt)
			if simple == nil || assigns && (a.Tok == token.DEFINE ||
				condition != nil && checked.MatchString(text(condition)) && checked.MatchString(text(a.Lhs[len(a.Lhs)-1]))) {
				return true
			}
			t.Errorf("%s: %s stands in a header; give it a line of its own", s.name, text(simple))
			return true
		})
	}
}
