package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// goTest runs the real go test, which exits with 1, on packages of testdata/sample.
func goTest(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = "testdata/sample"
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, _ := cmd.Output()
	if len(out) == 0 {
		t.Fatal("go test said nothing")
	}
	return out
}

func told(t *testing.T, stream []byte) (text string, ok bool) {
	t.Helper()
	var out strings.Builder
	tally := newTally(&out)
	if err := tally.read(bytes.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	ok = tally.finish()
	return out.String(), ok
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestRealRuns(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		ok     bool
		last   string
		says   []string
		silent []string
	}{
		"every course of a test": {
			args: []string{"./course"}, last: "5 passed, 2 failed, 1 skipped",
			says: []string{
				"FAIL  sample/course", "said by the parent", "TestFailsBelow/bad/slash", "said by the child", "in two lines",
				"said after the children", "skipped 1: no such server here",
			},
			silent: []string{"=== RUN", "--- ", "TestPasses", "no tests"},
		},
		"all well":          {args: []string{"-run=Passes|IsSkipped", "./course"}, ok: true, last: "1 passed, 0 failed, 1 skipped"},
		"twice":             {args: []string{"-run=Passes", "-count=2", "./course"}, ok: true, last: "2 passed, 0 failed, 0 skipped"},
		"no test at all":    {args: []string{"-run=Nothing", "./course", "./silent"}, last: "0 passed, 0 failed, 0 skipped"},
		"skipped only":      {args: []string{"-run=IsSkipped", "./course"}, last: "0 passed, 0 failed, 1 skipped"},
		"seed of a shuffle": {args: []string{"-run=FailsItself", "-shuffle=7", "./course"}, last: "1 passed, 1 failed, 0 skipped", says: []string{"-test.shuffle 7"}},
		"does not compile":  {args: []string{"./unbuilt"}, last: "0 passed, 1 failed, 0 skipped", says: []string{"undefined: undeclared"}},
		"panic":             {args: []string{"./panics"}, last: "0 passed, 2 failed, 0 skipped", says: []string{"said in a panic", "did not finish"}},
		"exits early":       {args: []string{"./exits"}, last: "0 passed, 1 failed, 0 skipped", says: []string{"exit status 3"}},
		"no such package":   {args: []string{"./absent"}, last: "0 passed, 1 failed, 0 skipped", says: []string{"absent"}},
		"good beside bad": {
			args: []string{"-run=Passes", "./course", "./unbuilt", "./silent"}, last: "1 passed, 1 failed, 0 skipped",
			says: []string{"ok    sample/course"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, ok := told(t, goTest(t, c.args...))
			if last := lastLine(text); last != c.last || ok != c.ok {
				t.Errorf("last line %q, ok %v; want %q, %v", last, ok, c.last, c.ok)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("does not say %q", want)
				}
			}
			for _, noise := range c.silent {
				if strings.Contains(text, noise) {
					t.Errorf("says %q", noise)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func TestRepeatedLinesAreFolded(t *testing.T) {
	var out strings.Builder
	newTally(&out).indent("\na\na\na\nb\na\n\n\nend")
	want := "    \n    a  (3 times)\n    b\n    a\n      (2 times)\n    end\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A stream that breaks off (go test was killed) must not look like success.
func TestEveryCutStreamFails(t *testing.T) {
	lines := bytes.SplitAfter(goTest(t, "-run=Passes", "./course"), []byte("\n"))
	for n := range len(lines) - 2 { // the last line is empty, the one before ends the package
		text, ok := told(t, bytes.Join(lines[:n], nil))
		if ok {
			t.Errorf("after %d lines of %d: %s", n, len(lines), text)
		}
	}
}

func TestForeignLinesArePassedOn(t *testing.T) {
	text, ok := told(t, []byte("not json\n{\"other\":1}\nlast, without an end"))
	want := "not json\n{\"other\":1}\nlast, without an end\n0 passed, 0 failed, 0 skipped\n"
	if text != want || ok {
		t.Errorf("%q, %v", text, ok)
	}
}
