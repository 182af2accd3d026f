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
)

// Each warning and error of the log names a section of the runbooks beside its text, each section
// says in sentences what people notice and what the likely causes are, each with its remedy, and
// each is reached from an alert or a line. A line whose whole text is computed is a warning about a
// setting, in a variable w, and says itself what to do.
func TestEveryWarningHasARunbook(t *testing.T) {
	sections, used := map[string]string{}, map[string]bool{} // by name of the constant; by section
	for _, s := range sources(t) {
		if s.pkg == "internal/runbook" {
			maps.Copy(sections, constantsOf(s.file))
		}
	}
	for _, s := range sources(t) {
		if s.test || free(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			arg := messageOf(call)
			if name, isName := arg.(*ast.Ident); arg == nil || isName && name.Name == "w" {
				return true
			}
			named := runbooksOf(call)
			if len(named) != 1 {
				t.Errorf(
					"%s: the log line %q names %d sections of the runbooks: add one of package runbook to its attributes",
					s.name, textOf(arg), len(named))
			}
			for _, name := range named {
				used[sections[name]] = true
			}
			return true
		})
	}
	for name, section := range sections {
		if !used[section] {
			t.Errorf("no log line names runbook.%s", name)
		}
	}
	for _, section := range regexp.MustCompile(`docs/runbooks\.md#([a-z-]+)`).FindAllStringSubmatch(readFile(t,
		"docs/alerts.yaml"), -1) {
		used[section[1]] = true
	}
	_, text, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## ")
	for part := range strings.SplitSeq(text, "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		section := strings.ReplaceAll(strings.ToLower(heading), " ", "-")
		if !regexp.MustCompile(`\A\n\*\*For people\*\*: \w[^\n]+(\n[^\n]+)*\.\n\n`).MatchString(body) {
			t.Errorf("the runbook %s does not begin with what it means for people", heading)
		}
		causes := regexp.MustCompile(`(?m)^\d\. `).FindAllString(body, -1)
		remedies := regexp.MustCompile(`(?m)^\d\. \*\*[^*]+\.\*\* [^\n]+(\n   [^\n]+)*\.$`).FindAllString(body, -1)
		if len(causes) < 2 || len(remedies) != len(causes) {
			t.Errorf(
				"the runbook %s has %d causes, of which %d are sentences with a remedy; want two or more, each with one", heading,
				len(causes), len(remedies))
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

// runbooksOf returns the constants of package runbook that a call names.
func runbooksOf(call *ast.CallExpr) (names []string) {
	ast.Inspect(call, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && lastName(s.X) == "runbook" {
			names = append(names, s.Sel.Name)
		}
		return true
	})
	return names
}

// Each runbook names panels, and the dashboard has them.
func TestEveryRunbookHasAPanel(t *testing.T) {
	board := readFile(t, "deploy/grafana/sendcode.json")
	_, text, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## ")
	for part := range strings.SplitSeq(text, "\n## ") {
		heading, _, _ := strings.Cut(part, "\n")
		named := regexp.MustCompile(`(?m)^Panels: (.+)\.$`).FindStringSubmatch(part)
		if named == nil {
			t.Errorf("the runbook %s names no panel", heading)
			continue
		}
		for panel := range strings.SplitSeq(named[1], "; ") {
			if !strings.Contains(board, `"title": "`+panel+`", "description"`) {
				t.Errorf("the runbook %s names the panel %q, which the dashboard does not have", heading, panel)
			}
		}
	}
}

// The runbook on jobs, to which each line of a failed one leads, has a row for each job of the
// tables that can fail, and for no other.
func TestEveryJobHasARowInTheRunbook(t *testing.T) {
	_, jobs, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## Jobs\n")
	jobs, _, _ = strings.Cut(jobs, "\n## ")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.{20,}\\|.{10,}\\|$").FindAllStringSubmatch(jobs,
		-1) {
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

// jobOf returns the name of a row of a table of jobs, "" for other nodes; fails: its Run is not one
// of jobs.InfallibleRun, which never fails.
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
			name = textOf(field.Value)
		case "Run":
			call, ok := field.Value.(*ast.CallExpr)
			fails = !ok || lastName(call.Fun) != "InfallibleRun"
		case "Every", "AtStop":
		default:
			return "", false
		}
	}
	return name, fails && len(row.Elts) > 2
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
			return ok && lastName(level.X) == "slog" &&
				(level.Sel.Name == "LevelWarn" || level.Sel.Name == "LevelError")
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
						all[name.Name] = textOf(v.Values[i])
					}
				}
			}
		}
		return true
	})
	return all
}

// textOf returns a text; "" for what is not written as one.
func textOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(x.X) + textOf(x.Y)
	}
	return ""
}
