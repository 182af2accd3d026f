package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each text of the list is still in its file exactly once, and each package of tests is there.
func TestTheListFitsTheCode(t *testing.T) {
	l, err := load("../..", listText)
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.mutants()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if len(m.tests) == 0 {
			t.Errorf("%s: no tests", m.name())
		}
		for _, x := range m.tests {
			if _, err := os.Stat(filepath.Join("../..", x.Package)); err != nil {
				t.Errorf("%s: %v", m.name(), err)
			}
		}
	}
	if len(all) < 100 {
		t.Errorf("%d mutants, want at least 100", len(all))
	}
}

const oneArea = `
areas:
  - name: numbers
    tests: [{package: ., flags: [-run=TestFew]}, {package: ., flags: [-run=TestPositive|TestCount]}]
    mutants:
`

func sampled(t *testing.T, mutants string) (options, []byte) {
	t.Helper()
	return options{root: "testdata/sample", results: t.TempDir(), timeout: time.Minute}, []byte(oneArea + mutants)
}

func judged(t *testing.T, o options, text []byte) (said string, err error) {
	t.Helper()
	t.Setenv("GOFLAGS", "")
	var out strings.Builder
	err = run(t.Context(), o, text, &out)
	return out.String(), err
}

// A mutant is caught by the first test that fails, also one in an embedded file; one that no test notices lives; one that is equal
// in effect is not run. What is known is not found out again until the list or, for one that lives, a test changes.
func TestRun(t *testing.T) {
	o, text := sampled(t, `
      - {file: sample.go, find: n < most, with: n <= 3}
      - {file: words.txt, find: one two, with: one}
      - {file: sample.go, find: n < 0, with: n <= 0, equal: it gives 0 for 0}
      - {file: sample.go, find: return 0, with: 'return -0 // alive'}
`)
	said, err := judged(t, o, text)
	if !errors.Is(err, errAlive) {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"caught  numbers  sample.go: n < most  =>  n <= 3\n                 by . TestFew/three,",
		"caught  numbers  words.txt: one two  =>  one\n                 by . TestCount,",
		"equal   numbers  sample.go: n < 0  =>  n <= 0\n                 it gives 0 for 0\n",
		"alive   numbers  sample.go: return 0  =>  return -0 // alive\n",
		"all               4        2        1        1        0\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	again, err := judged(t, o, text)
	if again != said || !errors.Is(err, errAlive) { // with the times of the first run
		t.Errorf("%v, and the second run says\n%s", err, again)
	}
}
