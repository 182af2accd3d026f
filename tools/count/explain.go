package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// count sums up the package's tests, collects why some were skipped, and returns
// those that failed. A test without an end has failed.
func (p *pkg) count(reasons map[string]int) (own sums, bad []*test) {
	for _, c := range slices.Backward(p.tests) { // subtests come after their parents
		switch {
		case c.action == "fail" || c.action == "":
			bad = append(bad, c)
			if !c.badBelow {
				own.failed++
			}
			if parent := p.parent(c.name); parent != nil {
				parent.badBelow = true
			}
		case c.subtests:
		case c.action == "pass":
			own.passed++
		default:
			own.skipped++
			reasons[c.reason()]++
		}
	}
	slices.Reverse(bad)
	return own, bad
}

// frame matches the lines that tell of a test's course, not of its failure; 1 is
// how a test binary always ends where a test failed.
var frame = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME) |--- (PASS|FAIL|SKIP): |(PASS|FAIL)$|FAIL\t|exit status 1$)`)

// place is where a log line comes from: "    some_test.go:12: ".
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

func (c *test) reason() string {
	for line := range strings.Lines(c.output.String()) {
		if !frame.MatchString(strings.TrimRight(line, "\n")) {
			return place.ReplaceAllString(strings.TrimSpace(line), "")
		}
	}
	return "no reason given"
}

// explain prints what the compiler, the package and its failing tests said.
func (t *tally) explain(p *pkg, failedBuild string, bad []*test) {
	if said, ok := t.builds[failedBuild]; ok {
		t.indent(said.String())
		said.Reset() // once, also where several packages fail for it
	}
	for _, c := range bad {
		said := telling(c.output.String())
		if c.action == "" {
			said += "did not finish\n"
		}
		if said != "" {
			fmt.Fprintf(t.out, "  %s\n", c.name)
			t.indent(said)
		}
	}
	t.indent(telling(p.output.String()))
}

func telling(output string) string {
	var rest strings.Builder
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if !frame.MatchString(line) {
			rest.WriteString(line + "\n")
		}
	}
	return rest.String()
}

// indent prints a line that is repeated once, with the number of times.
func (t *tally) indent(text string) {
	last, times := "", 0
	flush := func() {
		switch {
		case times == 1:
			fmt.Fprintf(t.out, "    %s\n", last)
		case times > 1:
			fmt.Fprintf(t.out, "    %s  (%d times)\n", last, times)
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line != last || times == 0 {
			flush()
			last, times = line, 0
		}
		times++
	}
	flush()
}
