package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// sums are numbers of tests.
type sums struct{ passed, failed, skipped int }

func (s sums) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
}

func (s *sums) add(more sums) {
	s.passed += more.passed
	s.failed += more.failed
	s.skipped += more.skipped
}

// tally counts tests that have no subtests; a test that has some counts only
// where it fails and none of them does.
type tally struct {
	sums
	out     io.Writer
	running map[string]*pkg
	builds  map[string]*strings.Builder // what the compiler and vet said
	reasons map[string]int              // of skips
}

type pkg struct {
	name   string
	tests  []*test          // as they began
	latest map[string]*test // by name; with -count there are several of a name
	output strings.Builder  // of no test
}

type test struct {
	name     string
	action   string // pass, fail, skip; empty while it runs
	output   strings.Builder
	subtests bool
	badBelow bool // a subtest failed
}

func newTally(out io.Writer) *tally {
	return &tally{
		out: out, running: make(map[string]*pkg),
		builds: make(map[string]*strings.Builder), reasons: make(map[string]int),
	}
}

func (t *tally) take(e event) {
	switch {
	case e.Action == "build-output":
		t.build(e.ImportPath).WriteString(e.Output)
	case e.Package == "":
	case e.Test != "":
		t.pkg(e.Package).take(e)
	case e.Action == "output":
		t.pkg(e.Package).output.WriteString(e.Output)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		t.end(t.pkg(e.Package), e)
	default:
		t.pkg(e.Package) // has started
	}
}

func (t *tally) build(path string) *strings.Builder {
	if t.builds[path] == nil {
		t.builds[path] = new(strings.Builder)
	}
	return t.builds[path]
}

func (t *tally) pkg(name string) *pkg {
	if t.running[name] == nil {
		t.running[name] = &pkg{name: name, latest: make(map[string]*test)}
	}
	return t.running[name]
}

func (p *pkg) take(e event) {
	current := p.latest[e.Test]
	if current == nil || e.Action == "run" {
		current = &test{name: e.Test}
		p.latest[e.Test] = current
		p.tests = append(p.tests, current)
		if parent := p.parent(e.Test); parent != nil {
			parent.subtests = true
		}
	}
	switch e.Action {
	case "output":
		current.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		current.action = e.Action
	}
}

// parent finds the test above: a subtest's own name may contain slashes, too.
func (p *pkg) parent(name string) *test {
	for i := strings.LastIndexByte(name, '/'); i >= 0; i = strings.LastIndexByte(name[:i], '/') {
		if above := p.latest[name[:i]]; above != nil {
			return above
		}
	}
	return nil
}

// end counts a package's tests and prints what there is to know of it.
func (t *tally) end(p *pkg, e event) {
	delete(t.running, p.name)
	own, bad := p.count(t.reasons)
	if e.Action == "fail" && own.failed == 0 {
		own.failed++ // it did not build, or ended outside a test
	}
	t.add(own)
	switch {
	case e.Action == "fail":
		fmt.Fprintf(t.out, "FAIL  %s  %.1f s  %v\n", p.name, e.Elapsed, own)
		t.explain(p, e.FailedBuild, bad)
	case len(p.tests) > 0:
		fmt.Fprintf(t.out, "ok    %s  %.1f s  %v\n", p.name, e.Elapsed, own)
	}
}

// finish prints the last lines and reports whether all is well.
func (t *tally) finish() bool {
	for _, name := range slices.Sorted(maps.Keys(t.running)) {
		own, bad := t.running[name].count(t.reasons)
		own.failed = max(own.failed, 1)
		t.add(own)
		fmt.Fprintf(t.out, "FAIL  %s did not come to an end\n", name)
		t.explain(t.running[name], "", bad)
	}
	for _, reason := range slices.Sorted(maps.Keys(t.reasons)) {
		fmt.Fprintf(t.out, "skipped %d: %s\n", t.reasons[reason], reason)
	}
	fmt.Fprintln(t.out, t.sums)
	return t.failed == 0 && t.passed > 0
}
