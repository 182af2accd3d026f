//go:build nightly

// Only `make nightly` runs these tests, because they do not test the product.

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A part that fails or takes too long fails the run, but later parts still run. The page has each
// skip with its reason.
func TestNightly(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "make")
	script := "#!/bin/sh\ncase $1 in\nfuzz) echo '    a.go:1: no browser'; echo '--- SKIP: TestPage (0.00s)';;\n" +
		"tests) echo '=== FAIL: web TestB (0.00s)'; exit 2;;\n" +
		"*) sleep 100 & echo $! > $0.pid; echo 'caught  gate'; exec sleep 100;;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ok, err := nightly(t.Context(), []string{"tests:1m", "mutants:2s", "prove:2s", "fuzz:1m"}, program, dir, "0123abcd", &out)
	if err != nil || ok {
		t.Errorf("passed: %v, %v", ok, err)
	}
	rows := regexp.MustCompile(`\n\| tests \| failed \| 2.* \| [\dms]+ \| 1m0s \|\n\| mutants \| stopped; the next run goes on \| 2.* \| [\dms]+ \| 2s \|\n\| prove \| failed \|`)
	if !rows.MatchString(out.String()) {
		t.Errorf("the rows are not in\n%s", &out)
	}
	for _, want := range []string{
		"# make nightly, 0123abcd\n", "| fuzz | passed |", "## tests: failed\n\n- === FAIL: web TestB (0.00s)\n",
		"## prove: failed\n\n- signal: interrupt\n", "## fuzz: skipped\n\n- TestPage (0.00s): a.go:1: no browser\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	pid, err := os.ReadFile(program + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; { // otherwise the test times out
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		ended = err != nil || strings.Contains(string(stat), ") Z ") // the process is dead, but its parent has not waited for it
	}
	if _, err := nightly(t.Context(), []string{"fuzz"}, program, dir, "", &out); err == nil {
		t.Error("a part without a bound is run")
	}
}

// A stopped night can be continued. Parts that passed at its commit are on the page and not run
// again. Parts that failed or were stopped are run again, and each run is on the page. At another
// commit, and in a tree that differs from its commit, all parts run.
func TestNightlyGoesOn(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "make")
	script := "#!/bin/sh\necho $1 >> $0.ran\ncase $1 in\nsoak) test -e $0.soaks || { : > $0.soaks; exit 1; };;\n" +
		"tests) test -e $0.slow || { : > $0.slow; exec sleep 100; };;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for ctx.Err() == nil { // otherwise the test times out
			if _, err := os.Stat(program + ".slow"); err == nil {
				return
			}
		}
	}()
	var first, second, others strings.Builder
	args := []string{"fuzz:1m", "soak:1m", "tests:1m", "prove:1m"}
	ok, err := nightly(ctx, args, program, dir, "0123abcd", &first)
	if err != nil || ok || !strings.Contains(first.String(), "| tests | stopped | 2") ||
		!strings.Contains(first.String(), "| prove | not run | 2") {
		t.Errorf("passed: %v, %v:\n%s", ok, err, &first)
	}
	ok, err = nightly(t.Context(), args, program, dir, "0123abcd", &second)
	_, page, _ := strings.Cut(second.String(), "# make nightly")
	if rows := regexp.MustCompile(`(?m)^\| \w+ \| (passed|failed|stopped)`).FindAllString(page, -1); err != nil || !ok ||
		strings.Join(rows, "") != "| fuzz | passed| soak | failed| tests | stopped| soak | passed| tests | passed| prove | passed" {
		t.Errorf("passed: %v, %v: %q in\n%s", ok, err, rows, &second)
	}
	for _, commit := range []string{"0123abcd-dirty", "0123abcd-dirty", "", "4567cdef"} {
		if ok, err := nightly(t.Context(), []string{"fuzz:1m"}, program, dir, commit, &others); err != nil || !ok {
			t.Errorf("passed: %v, %v", ok, err)
		}
	}
	ran, _ := os.ReadFile(program + ".ran")
	if got := strings.Join(strings.Fields(string(ran)), " "); got != "fuzz soak tests soak tests prove fuzz fuzz fuzz fuzz" {
		t.Errorf("ran %s", got)
	}
}
