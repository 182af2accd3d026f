//go:build nightly

// Only make nightly runs these tests: nothing of the product is in them.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sendcode/tools/ensure/locate"
)

// What is missing is told and installed by its packages; what is there is not.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("CC", "")
	if err := os.WriteFile(filepath.Join(dir, "python3"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	names, packages, brews := lists(missing([]locate.Part{locate.Redis, locate.Python, locate.Compiler}))
	const want = `redis-server, a C compiler; ["redis-server" "gcc" "libc6-dev"]; ["brew install redis" "brew install gcc"]`
	if got := fmt.Sprintf("%s; %q; %q", names, packages, brews); got != want {
		t.Errorf("missing: %s, want %s", got, want)
	}
}
