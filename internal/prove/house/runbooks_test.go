package house

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each warning and error in the log names a section of the runbooks. Each section says in sentences
// what people notice, the likely causes, and a remedy for each cause. It names panels that the
// dashboard has. An alert or a log line leads to each section. A line whose text is a variable w is
// a warning about a setting. It needs no section, because the warning itself says what to do.
func TestEveryWarningHasARunbook(t *testing.T) {
	sections, used := map[string]string{}, map[string]bool{} // sections by the names in package logs, and the sections that are used
	for _, m := range regexp.MustCompile(`(?m)^\tSee(\w+) += see\("([a-z-]+)"\)$`).FindAllStringSubmatch(
		readFile(t, "internal/base/logs/runbook.go"), -1) {
		sections[m[1]] = m[2]
	}
	for _, s := range product(t) {
		for _, args := range loggedBy(s.text) {
			named := regexp.MustCompile(`\blogs\.See(\w+)`).FindAllStringSubmatch(args, -1)
			if len(named) != 1 {
				t.Errorf("%s: a log line names %d sections of the runbooks: add a logs.See… to its attributes: %s",
					s.name, len(named), args)
			}
			for _, m := range named {
				used[sections[m[1]]] = true
			}
		}
	}
	for name, section := range sections {
		if !used[section] {
			t.Errorf("no log line names logs.See%s", name)
		}
	}
	for _, m := range regexp.MustCompile(`docs/runbooks\.md#([a-z-]+)`).FindAllStringSubmatch(readFile(t, "docs/alerts.yaml"), -1) {
		used[m[1]] = true
	}
	board, panels := readFile(t, "deploy/grafana/sendcode.json"), regexp.MustCompile(`(?m)^Panels: (.+)\.$`)
	people := regexp.MustCompile(`\A\n\*\*For people\*\*: \w[^\n]+(\n[^\n]+)*\.\n\n`)
	cause := regexp.MustCompile(`(?m)^\d\. `)
	remedy := regexp.MustCompile(`(?m)^\d\. \*\*[^*]+\.\*\* [^\n]+(\n   [^\n]+)*\.$`)
	for heading, body := range runbooks(t) {
		section := strings.ReplaceAll(strings.ToLower(heading), " ", "-")
		if !people.MatchString(body) {
			t.Errorf("the runbook %s does not begin with what it means for people", heading)
		}
		if causes, remedies := len(cause.FindAllString(body, -1)), len(remedy.FindAllString(body, -1)); causes < 2 || remedies != causes {
			t.Errorf("the runbook %s has %d causes, of which %d are sentences with a remedy; want two or more, each with one",
				heading, causes, remedies)
		}
		named := panels.FindStringSubmatch(body)
		if named == nil {
			t.Errorf("the runbook %s names no panel", heading)
			continue
		}
		for panel := range strings.SplitSeq(named[1], "; ") {
			if !strings.Contains(board, `"title": "`+panel+`", "description"`) {
				t.Errorf("the runbook %s names the panel %q, which the dashboard does not have", heading, panel)
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

func runbooks(t *testing.T) map[string]string {
	_, text, _ := strings.Cut(readFile(t, "docs/runbooks.md"), "\n## ")
	sections := map[string]string{}
	for part := range strings.SplitSeq(text, "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		sections[heading] = body
	}
	return sections
}

// product returns the source files of the product, without tests, kits and tools.
func product(t *testing.T) []source {
	return slices.DeleteFunc(slices.Clone(sources(t)), func(s source) bool { return s.test || mayImportAll(s.pkg) })
}

var (
	texts = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`|'(?:[^'\\\\\n]|\\\\.)+'|//[^\n]*")
	// logCall matches a call that logs a warning or an error, up to its message.
	logCall = regexp.MustCompile(`(?i:\blogger)\.(?:Warn|Error)(?:Context\([^,]+, |\()|\bslog\.Level(?:Warn|Error), `)
)

// loggedBy returns the arguments of each call that logs a warning or an error, without texts and
// comments. It leaves out calls whose message is the variable w.
func loggedBy(text string) (calls []string) {
	text = texts.ReplaceAllString(text, `""`)
	for _, at := range logCall.FindAllStringIndex(text, -1) {
		depth, args := 1, text[at[1]:]
		end := strings.IndexFunc(args, func(r rune) bool {
			depth += strings.Count("(", string(r)) - strings.Count(")", string(r))
			return depth == 0
		})
		if args = args[:end]; args != "w" && !strings.HasPrefix(args, "w,") {
			calls = append(calls, args)
		}
	}
	return calls
}

// The runbook on jobs, to which the line of a failed job leads, has a row for each job that can
// fail, and no other row.
func TestEveryJobHasARowInTheRunbook(t *testing.T) {
	rows, jobs := map[string]bool{}, 0
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.{20,}\\|.{10,}\\|$").FindAllStringSubmatch(
		runbooks(t)["Jobs"], -1) {
		rows[m[1]] = true
	}
	job := regexp.MustCompile(`\{Name: "([a-z-]+)", Every: .*Run: (.*)`)
	for _, s := range product(t) {
		for _, m := range job.FindAllStringSubmatch(s.text, -1) {
			if jobs++; rows[m[1]] == strings.HasPrefix(m[2], "jobs.InfallibleRun(") {
				t.Errorf("%s: the job %s can fail and has no row in the runbook Jobs, or the reverse", s.name, m[1])
			}
			delete(rows, m[1])
		}
	}
	if len(rows) > 0 || jobs < 10 {
		t.Errorf("the runbook Jobs has rows of no job: %v; %d jobs were found", rows, jobs)
	}
}
