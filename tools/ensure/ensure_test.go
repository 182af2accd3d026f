//go:build nightly

// Only make nightly runs these tests: nothing of the product is in them.

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sendcode/tools/ensure/locate"
)

// What is missing is installed where that is possible; elsewhere the command is told, and why
// installing failed.
func TestEnsure(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("CC", "")
	program := func(name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o755) }
	parts := []locate.Part{locate.Redis, locate.Compiler}
	for want, install := range map[string]func([]string) error{
		"":           nil,
		"no network": func([]string) error { return errors.New("no network") },
	} {
		var out strings.Builder
		if ensure(&out, parts, install) || !strings.Contains(out.String(), want) ||
			!strings.Contains(out.String(), "redis-server gcc libc6-dev") &&
				!strings.Contains(out.String(), "brew install redis") {
			t.Errorf("says %q", &out)
		}
	}
	if err := program("gcc"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if !ensure(&out, parts, func(packages []string) error {
		if !slices.Equal(packages, []string{"redis-server"}) {
			t.Errorf("installs %v", packages)
		}
		return program("redis-server")
	}) {
		t.Errorf("not ready: %s", &out)
	}
}
