package house

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/server"
)

const dynamic = "\x00" // stands for what is known at run time alone

// Each warning and error of the log has a section of the runbooks (server.RunbookLines), each section says the four things that a person who is
// woken up asks, and each is reached from an alert or a line. A line whose whole text is computed is a warning about a setting, in a variable
// w, and says itself what to do.
func TestEveryWarningHasARunbook(t *testing.T) {
	written := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || free(s.pkg) {
			continue
		}
		constants := constantsOf(s.file)
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			arg := messageOf(call)
			if name, isName := arg.(*ast.Ident); arg == nil || isName && name.Name == "w" {
				return true
			}
			text := textOf(arg, constants)
			found := false
			for head := range sectionOfLine() {
				if head == server.RunbookKey(text) || strings.HasPrefix(text, dynamic) && strings.HasSuffix(head, strings.TrimPrefix(text, dynamic)) && text != dynamic {
					written[head], found = true, true
				}
			}
			if !found {
				t.Errorf("%s: the log line %q has no section of the runbooks: add it to server.RunbookLines", s.name, text)
			}
			return true
		})
	}
	reached := regexp.MustCompile(`docs/runbooks\.md#([a-z-]+)`).FindAllStringSubmatch(readFile(t, "docs/alerts.yaml"), -1)
	used := map[string]bool{}
	for _, section := range reached {
		used[section[1]] = true
	}
	for head, section := range sectionOfLine() {
		used[section] = true
		if !written[head] {
			t.Errorf("no log line begins with %q", head)
		}
	}
	_, text, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## ")
	for part := range strings.SplitSeq(text, "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		section := strings.ReplaceAll(strings.ToLower(heading), " ", "-")
		for _, question := range []string{"Means", "Look", "Causes", "Do"} {
			if !strings.Contains(body, "- **"+question+"**: ") {
				t.Errorf("the runbook %s does not say %s", heading, question)
			}
		}
		if !used[section] {
			t.Errorf("no alert and no log line leads to the runbook %s", heading)
		}
		delete(used, section)
	}
	for _, section := range slices.Sorted(maps.Keys(used)) {
		t.Errorf("there is no runbook %s", section)
	}
}

// The runbook on jobs, to which each line of a failed one leads, has a row for each job of the tables that can fail, and for no other.
func TestEveryJobHasARowInTheRunbook(t *testing.T) {
	_, jobs, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## Jobs\n")
	jobs, _, _ = strings.Cut(jobs, "\n## ")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.{20,}\\|.{10,}\\|$").FindAllStringSubmatch(jobs, -1) {
		rows[row[1]] = true
	}
	for _, s := range sources(t) {
		if s.test || free(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if name, fails := jobOf(n); name != "" && fails {
				if !rows[name] {
					t.Errorf("%s: the job %s has no row in the runbook Jobs", s.name, name)
				}
				delete(rows, name)
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("the runbook Jobs has a row for %s, which is no job that can fail", name)
	}
}

// jobOf returns the name of a row of a table of jobs, "" for other nodes; fails: its Run is not one of jobs.Func, which never fails.
func jobOf(n ast.Node) (name string, fails bool) {
	row, ok := n.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	fails = true
	for _, e := range row.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return "", false
		}
		switch lastName(field.Key) {
		case "Name":
			name = textOf(field.Value, nil)
		case "Run":
			call, ok := field.Value.(*ast.CallExpr)
			fails = !ok || lastName(call.Fun) != "Func"
		case "Every", "AtStop":
		default:
			return "", false
		}
	}
	return name, fails && len(row.Elts) > 2
}

// sectionOfLine is server.RunbookLines the other way round.
func sectionOfLine() map[string]string {
	all := map[string]string{}
	for section, lines := range server.RunbookLines {
		for _, line := range lines {
			all[line] = section
		}
	}
	return all
}

// messageOf returns the text of a call that logs a warning or an error; nil for other calls.
func messageOf(call *ast.CallExpr) ast.Expr {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	at := -1
	switch of := strings.ToLower(lastName(f.X)); {
	case of == "logger" && (f.Sel.Name == "Warn" || f.Sel.Name == "Error"):
		at = 0
	case of == "logger" && (f.Sel.Name == "WarnContext" || f.Sel.Name == "ErrorContext"):
		at = 1
	default:
		at = 1 + slices.IndexFunc(call.Args, func(arg ast.Expr) bool {
			level, ok := arg.(*ast.SelectorExpr)
			return ok && lastName(level.X) == "slog" && (level.Sel.Name == "LevelWarn" || level.Sel.Name == "LevelError")
		})
		if at == 0 {
			return nil
		}
	}
	if at >= len(call.Args) {
		return nil
	}
	return call.Args[at]
}

func lastName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// constantsOf returns the texts of a file's constants, by name.
func constantsOf(file *ast.File) map[string]string {
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, spec := range d.Specs {
				if v := spec.(*ast.ValueSpec); len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						all[name.Name] = textOf(v.Values[i], nil)
					}
				}
			}
		}
		return true
	})
	return all
}

// textOf returns a text, with dynamic in the place of what is not constant.
func textOf(e ast.Expr, constants map[string]string) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(x.X, constants) + textOf(x.Y, constants)
	case *ast.Ident:
		if text, ok := constants[x.Name]; ok {
			return text
		}
	}
	return dynamic
}
