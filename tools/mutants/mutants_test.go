//go:build nightly

// Only `make nightly` runs these tests: they run go test on a sample.

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// testFunc matches the start of a test's declaration.
var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// Each package in mutants.yaml exists, and together they have at least a thousand mutants. Each
// -run flag matches a test, and each entry of equal matches a mutant.
func TestMutantsListNamesExistingCode(t *testing.T) {
	areas, err := readAreas(listText)
	if err != nil {
		t.Fatal(err)
	}
	o := options{root: "../.."}
	all, _, err := plantAll(o, areas, regexp.MustCompile(""), regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 1000 {
		t.Errorf("%d mutants, want at least 1000", len(all))
	}
	for _, a := range areas {
		for _, x := range a.Tests {
			files, _ := filepath.Glob(filepath.Join(o.root, x.Package, "*_test.go"))
			var source []byte
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				source = append(source, text...)
			}
			for _, flag := range x.Flags {
				pattern, chooses := strings.CutPrefix(flag, "-run=")
				pattern, _, _ = strings.Cut(pattern, "/")
				chosen := regexp.MustCompile(pattern)
				if chooses && !slices.ContainsFunc(testFunc.FindAllSubmatch(source, -1),
					func(m [][]byte) bool { return chosen.Match(m[1]) }) {
					t.Errorf("%s: no test of %s matches %s", a.Package, x.Package, flag)
				}
			}
		}
	}
}

const sampled = `
areas:
  - package: .
    tests: [{package: ., flags: [-run=TestFew]}, {package: ., flags: [-run=TestPositive|TestAbs|TestScript]}]
    equal: [{func: abs, operator: bound, why: 0 is its own negative}]
`

// run prints the first test that fails for a mutant, also of an embedded script, and "alive" if
// none fails. It runs no test for a mutant that has no effect or whose result is known. Each seed
// gives another order. With a budget that is used up, the rest is skipped.
func TestRun(t *testing.T) {
	t.Setenv("GOFLAGS", "")
	o := options{root: "testdata/sample", results: filepath.Join(t.TempDir(), "results"), seed: 1, least: 100}
	var first string
	for _, o.timeout = range []time.Duration{time.Minute, time.Nanosecond} { // within a nanosecond no test passes
		var out strings.Builder
		if err := run(t.Context(), o, []byte(sampled), &out); !errors.Is(err, errAlive) {
			t.Errorf("%v", err)
		}
		for _, want := range []string{
			"caught  . few bound 1\n        sample.go:17: <  =>  <=\n        by . TestFew/three\n",
			"caught  . most constant 1\n        sample.go:13: 3  =>  4\n        by . TestFew/three\n",
			"caught  . positive condition 1\n        sample.go:20: n < 0  =>  !(n < 0)\n        by . TestPositive\n",
			"caught  . abs assignment 1\n        sample.go:28: n = -n  =>  (nothing)\n        by . TestAbs\n",
			"caught  . script.lua lua 1\n        script.lua:2: <=  =>  <\n        by . TestScript\n",
			"equal   . abs bound 1\n        sample.go:27: <  =>  <=\n        0 is its own negative\n",
			"alive   . positive error 1\n        sample.go:21: errNegative  =>  nil\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
		}
		if first == "" {
			first = out.String()
		} else if out.String() != first {
			t.Errorf("the second run says\n%s\nthe first one\n%s", out.String(), first)
		}
	}
	o.seed, o.list = 2, true
	var out strings.Builder
	if err := run(t.Context(), o, []byte(sampled), &out); err != nil || strings.HasPrefix(first, "caught  "+out.String()[:20]) {
		t.Errorf("%v: %s", err, &out)
	}
	o.list, o.budget = false, 1
	out.Reset()
	if err := run(t.Context(), o, []byte(sampled), &out); err != nil || !strings.HasPrefix(out.String(), "mutants: skipped: ") {
		t.Errorf("%v: %s", err, &out)
	}
	stale := strings.Replace(sampled, "func: abs", "func: gone", 1)
	if err := run(t.Context(), o, []byte(stale), &out); err == nil || !strings.Contains(err.Error(), "take it off the list") {
		t.Errorf("a list with a function that is gone: %v", err)
	}
}
