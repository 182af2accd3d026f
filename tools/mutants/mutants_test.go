//go:build nightly

// Only make nightly runs these tests: they run go test on a sample.

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

// testFunc is a test's name in a file.
var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// Each text of the list is still in its file exactly once, and each test that it names is there.
func TestTheListFitsTheCode(t *testing.T) {
	all, err := load(options{root: "../.."}, listText)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if len(m.Tests) == 0 {
			t.Errorf("%s: no tests", m.name())
		}
		for _, x := range m.Tests {
			files, _ := filepath.Glob(filepath.Join("../..", x.Package, "*_test.go"))
			var source []byte
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				source = append(source, text...)
			}
			if len(files) == 0 {
				t.Errorf("%s: no tests in %s", m.name(), x.Package)
			}
			for _, flag := range x.Flags {
				pattern, chooses := strings.CutPrefix(flag, "-run=")
				pattern, _, _ = strings.Cut(pattern, "/")
				chosen := regexp.MustCompile(pattern)
				if chooses && !slices.ContainsFunc(testFunc.FindAllSubmatch(source, -1),
					func(m [][]byte) bool { return chosen.Match(m[1]) }) {
					t.Errorf("%s: no test of %s matches %s", m.name(), x.Package, flag)
				}
			}
		}
	}
	days := daysOf(all)
	for day := range week {
		n := 0
		for _, m := range all {
			if days[filepath.Dir(m.File)] == day+1 {
				n++
			}
		}
		if n < len(all)/week/2 || n > len(all)/week*2 {
			t.Errorf("%d of %d mutants are of day %d", n, len(all), day+1)
		}
	}
	if len(all) < 100 {
		t.Errorf("%d mutants, want at least 100", len(all))
	}
}

const sampled = `
areas:
  - name: numbers
    tests: [{package: ., flags: [-run=TestFew]}, {package: ., flags: [-run=TestPositive|TestCount]}]
    mutants:
      - {file: sample.go, find: n < most, with: n <= 3}
      - {file: words.txt, find: one two, with: one}
      - {file: sample.go, find: n < 0, with: n <= 0, equal: it gives 0 for 0}
      - {file: sample.go, find: return 0, with: 'return -0 // alive'}
`

// A mutant is caught by the first test that fails, also one in an embedded file; one that no test
// notices lives; one that is equal in effect is not run. What is known is not found out again.
func TestRun(t *testing.T) {
	t.Setenv("GOFLAGS", "")
	o := options{root: "testdata/sample", results: filepath.Join(t.TempDir(), "results")}
	for _, o.timeout = range []time.Duration{time.Minute, time.Nanosecond} { // in which no test passes
		var out strings.Builder
		if err := run(t.Context(), o, []byte(sampled), &out); !errors.Is(err, errAlive) {
			t.Errorf("%v", err)
		}
		for _, want := range []string{
			"caught  numbers  sample.go: n < most  =>  n <= 3\n                 by . TestFew/three\n",
			"caught  numbers  words.txt: one two  =>  one\n                 by . TestCount\n",
			"equal   numbers  sample.go: n < 0  =>  n <= 0\n                 it gives 0 for 0\n",
			"alive   numbers  sample.go: return 0  =>  return -0 // alive\n",
			"2 caught  1 alive  1 equal",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
		}
	}
	var out strings.Builder
	o.day = 2 // the one package is the first day's
	if err := run(t.Context(), o, []byte(sampled), &out); err != nil ||
		!strings.HasSuffix(out.String(), "mutants: skipped: day 2 of 7; 4 are of packages of other days\n") {
		t.Errorf("%v: %s", err, &out)
	}
}
