package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// retired are words that named something in log lines, errors, metrics or SQL, each with what is said now.
var retired = []struct {
	old *regexp.Regexp
	now string
}{
	{regexp.MustCompile(`\b[Tt]he log\b`), `"database", or "send log" for its record: a log has lines`},
	{regexp.MustCompile(`\b(limiter|log|[Rr]edis) is (away|back)\b`), `"unavailable", "available again"`},
	{regexp.MustCompile(`\bset aside\b|\bworks again\b`), `"suspended", "in use again"`},
	{regexp.MustCompile(`\b(vouches|brought twice|runs in a circle|speaks of)\b`), "what happened, in the field's terms"},
	{regexp.MustCompile(`^(deed|says|because|mistake|act)$`), `keys "action", "text", "reason", "error", "audit_entry"`},
	{regexp.MustCompile(`^admin: `), `"console: "`},
	{regexp.MustCompile(`^sendcode_log_|_by_(the_)?log\b|_by_log_alone`), `"database"`},
	{regexp.MustCompile(`(?i)\b(from|into|update|table|join|with) (embargoes|turns|awaited|acts|flights|minutes|barred|told)\b`),
		"the tables' names in migrations/"},
}

// writers are the calls whose texts an operator reads: log lines, errors, metrics.
var writers = regexp.MustCompile(`^(Debug|Info|Warn|Error|Log|LogAttrs)(Context)?$|^(New|Errorf|counter|gauge|desc|seconds|registerHealth)$`)

// The texts that operators search for keep the terms of the glossary, and a log line begins with no article.
func TestNoRetiredWords(t *testing.T) {
	lines := 0
	for _, s := range sources(t) {
		if s.test || free(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := calledName(call)
			logs := writers.FindStringSubmatch(name)
			sql := strings.HasPrefix(s.pkg, "internal/store/")
			if logs == nil && !sql {
				return true
			}
			for i, text := range texts(call) {
				for _, word := range retired {
					if word.old.MatchString(text) {
						t.Errorf("%s: %q: say %s", s.name, text, word.now)
					}
				}
				if logs == nil || logs[1] == "" || i > 0 {
					continue
				}
				lines++
				if first, _, _ := strings.Cut(text, " "); first == "a" || first == "an" || first == "the" {
					t.Errorf("%s: %q: a log line begins with its subject, without an article", s.name, text)
				}
			}
			return true
		})
	}
	if lines < 60 {
		t.Errorf("only %d log lines were found", lines)
	}
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// texts returns the strings among the arguments of a call, also the parts of sums.
func texts(call *ast.CallExpr) (all []string) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if _, inner := n.(*ast.CallExpr); inner {
				return false
			}
			if b, ok := n.(*ast.BasicLit); ok && b.Kind == token.STRING {
				text, _ := strconv.Unquote(b.Value)
				all = append(all, text)
			}
			return true
		})
	}
	return all
}
