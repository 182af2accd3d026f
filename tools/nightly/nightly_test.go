//go:build nightly

// Only make nightly runs this test: nothing of the product is in it.

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part that fails or takes too long fails the run, and the parts after it run; a skip is told
// with its reason.
func TestNightly(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "make")
	script := "#!/bin/sh\ncase $1 in\nfuzz) echo '    a.go:1: no browser'; echo '--- SKIP: TestPage (0.00s)';;\n" +
		"tests) echo '=== FAIL: web TestB (0.00s)'; exit 2;;\n" +
		"*) echo 'caught  gate'; sleep 100 & echo $! > $0.pid; exec sleep 100;;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	failed, err := nightly(t.Context(), []string{"tests:1m", "mutants:100ms", "prove:100ms", "fuzz:1m"}, program, dir, &out)
	if err != nil || !failed {
		t.Errorf("failed: %v, %v", failed, err)
	}
	for _, want := range []string{
		"| tests | failed | 0s | 1m0s |\n| mutants | stopped; the next run goes on | 0s | 100ms |\n| prove | failed |",
		"| fuzz | passed |", "## tests: failed\n\n- === FAIL: web TestB (0.00s)\n",
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
	for ended := false; !ended; { // else the test's own time ends
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		ended = err != nil || strings.Contains(string(stat), ") Z ") // of a parent that does not wait for it
	}
	if _, err := nightly(t.Context(), []string{"fuzz"}, program, dir, &out); err == nil {
		t.Error("a part without a bound is run")
	}
}

// An interrupted night ends with its page, too.
func TestNightlyInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out strings.Builder
	failed, err := nightly(ctx, []string{"fuzz:1m"}, "true", t.TempDir(), &out)
	if err != nil || !failed || !strings.Contains(out.String(), "| fuzz | not run |") {
		t.Errorf("%v, %v:\n%s", failed, err, &out)
	}
}
