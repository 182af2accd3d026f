// Package golden compares results of tests with golden files, which a person has reviewed. A failed
// test prints the lines that differ.
package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

var update = flag.Bool("update", false, "write the golden files anew")

// File fails the test unless got equals the file at path. With -update it writes the file instead.
func File(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the test gets; run it with -update if the change is meant:\n%s", path,
			Diff(path, string(want), got))
	}
}

const maxDiffLines = 60

// Diff returns a unified diff from want to got, with three lines of context. It cuts the diff off
// after maxDiffLines.
func Diff(path, want, got string) string {
	text := string(diff.Diff(path, []byte(want), "now", []byte(got)))
	_, text, _ = strings.Cut(text, "\n") // without the heading "diff path now"
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= maxDiffLines {
		return text
	}
	return strings.Join(lines[:maxDiffLines], "") + fmt.Sprintf("… and %d more lines\n", len(lines)-maxDiffLines)
}
