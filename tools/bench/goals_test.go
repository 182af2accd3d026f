//go:build nightly

package bench

import (
	"regexp"
	"strings"
	"testing"
)

// air is how much worse than measured a goal may become: a goal is what was measured when it was
// set, times air or divided by it.
const air = 1.3

// goals are bounds that are asked for, and what came out.
type goals struct {
	*grid
	missed []string
}

// newGoals makes goals whose misses fail the run when it ends.
func (b *rig) newGoals() *goals {
	g := &goals{grid: newGrid("what", "goal", "measured", "result")}
	b.asked = append(b.asked, g)
	return g
}

// missed returns the goals of the whole run that were missed.
func (b *rig) missed() (all []string) {
	for _, g := range b.asked {
		all = append(all, g.missed...)
	}
	return all
}

func (g *goals) least(name string, bound, value float64) {
	g.judge(name, "≥ ", bound, value, "", value >= bound)
}

func (g *goals) most(name string, bound, value float64, unit string) {
	g.judge(name, "≤ ", bound, value, unit, value <= bound)
}

func (g *goals) judge(name, sign string, bound, value float64, unit string, met bool) {
	result := "met"
	if !met {
		result = "missed"
		g.missed = append(g.missed, name)
	}
	g.add(name, sign+number(bound)+unit, number(value)+unit, result)
}

// measuredAt is the commit of a run, in a document's preface or in what stands there of it.
var measuredAt = regexp.MustCompile(`at commit ([0-9a-z]+)`)

// reason is a line of the section of reasons: "- COMMIT, GOAL: why". People write it below a run;
// nothing else does.
var reason = regexp.MustCompile(`(?m)^- ([0-9a-z]+), (.+?): \S.*$`)

// reasonsOf returns the lines of a section of reasons that were written for a run at this commit.
func reasonsOf(section, commit string) string {
	var kept strings.Builder
	for _, m := range reason.FindAllStringSubmatch(section, -1) {
		if m[1] == commit {
			kept.WriteString(m[0] + "\n")
		}
	}
	return kept.String()
}

// wrongReasons returns the lines that are no reasons, and the reasons of another run than that of
// the document or of a goal that it does not show as missed.
func wrongReasons(text string) (wrong []string) {
	preface, found := sections(text)
	commit := measuredAt.FindStringSubmatch(preface)
	for line := range strings.Lines(strings.TrimSpace(found[titleReasons])) {
		line = strings.TrimSpace(line)
		m := reason.FindStringSubmatch(line)
		missed := func() bool {
			return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(m[2]) + ` .* missed$`).MatchString(found[titleGoals])
		}
		if m == nil || commit == nil || m[1] != commit[1] || !missed() {
			wrong = append(wrong, line)
		}
	}
	return wrong
}

func TestGoals(t *testing.T) {
	b := &rig{}
	first, second := b.newGoals(), b.newGoals()
	first.most("cost", 2*air, 2.6, "")
	first.least("rate", 13/air, 10)
	if len(b.missed()) > 0 {
		t.Errorf("at the bounds: missed %q", b.missed())
	}
	first.most("cost", 2*air, 2.61, " ms")
	second.least("rate", 13/air, 9.99)
	if got := strings.Join(b.missed(), ", "); got != "cost, rate" {
		t.Errorf("missed %q", got)
	}
	if text := first.String(); !strings.Contains(text, "≤ 2.60 ms   2.61 ms  missed\n```\n") {
		t.Errorf("a table and nothing else is expected:\n%s", text)
	}
}

// A reason stays while the run that it was written for stands in the document, and goes with it.
func TestReasons(t *testing.T) {
	const section = "## " + titleReasons + "\n\n- abc123, cost: the disk was full.\n"
	old := "preface\n\n" + section
	titles := []string{titleGoals, titleReasons}
	at := func(commit string) string {
		return document(old, "run at commit "+commit, "today at commit "+commit,
			map[string]string{titleSummary: "whole", titleGoals: "new"}, titles)
	}
	if text := at("abc123"); !strings.Contains(text, section) {
		t.Errorf("the reason of this commit is gone:\n%s", text)
	}
	if text := at("def456"); strings.Contains(text, titleReasons) {
		t.Errorf("the reason of another commit was kept:\n%s", text)
	}
	part := document(old, "another", "today at commit def456", map[string]string{titleRows: "rows"}, titles)
	if !strings.Contains(part, section) {
		t.Errorf("a run of one part dropped a reason:\n%s", part)
	}
	const goals = "## " + titleGoals +
		"\n\n```\nwhat  goal  measured  result\ncost  ≤ 2   3         missed\nrate  ≥ 1   2         met\n```\n\n"
	for line, right := range map[string]bool{
		"- abc123, cost: the disk was full.": true, "- def456, cost: the disk was full.": false,
		"- abc123, rate: the disk was full.": false, "- cost: the disk was full.": false,
	} {
		wrong := wrongReasons("at commit abc123\n\n" + goals + "## " + titleReasons + "\n\n" + line + "\n")
		if right != (len(wrong) == 0) {
			t.Errorf("%q: right is %v, wrong are %q", line, right, wrong)
		}
	}
}
