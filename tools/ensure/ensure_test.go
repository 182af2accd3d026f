//go:build nightly

// Only `make nightly` runs these tests, because they do not test the product.

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/tools/ensure/locate"
)

// sizes finds the lines in which apt-get prints the size of an installation. mayInstall returns
// true only for root, and not with ENSURE=no.
func TestMayInstallSaysTheSizeBefore(t *testing.T) {
	const simulated = `Reading package lists...
0 upgraded, 3 newly installed, 0 to remove and 1 not upgraded.
Need to get 1,234 kB of archives.
After this operation, 5,678 kB of additional disk space will be used.
Abort.
`
	const want = "Need to get 1,234 kB of archives. After this operation, 5,678 kB of additional disk space will be used."
	if got := sizes(simulated); got != want {
		t.Errorf("sizes: %q", got)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for asked, installs := range map[string]bool{"": true, "yes": true, "no": false} {
		t.Setenv("ENSURE", asked)
		if got := mayInstall(0); got != installs || mayInstall(1000) {
			t.Errorf("ENSURE=%s installs as root: %v; as another user: %v", asked, got, mayInstall(1000))
		}
	}
}

// selectParts returns the parts with the given names, all parts for "nightly", and all except those
// of `make nightly` without names. It fails for an unknown name.
func TestSelectParts(t *testing.T) {
	two, err := selectParts([]string{locate.Redis.Name, locate.Postgres.Name})
	if err != nil || len(two) != 2 || two[0].Name != "redis-server" {
		t.Errorf("two parts: %v, %v", two, err)
	}
	if all, err := selectParts(nil); err != nil || len(all) != len(locate.All) || slices.ContainsFunc(all, isPatroni) {
		t.Errorf("all parts of a day: %d, %v", len(all), err)
	}
	if all, err := selectParts([]string{"nightly"}); err != nil || len(all) <= len(locate.All) || !slices.ContainsFunc(all, isPatroni) {
		t.Errorf("all parts of the night: %d, %v", len(all), err)
	}
	if _, err := selectParts([]string{"redis"}); err == nil {
		t.Error("a part that is not known is accepted")
	}
}

func isPatroni(p locate.Part) bool { return p.Name == locate.Patroni.Name }

// missing returns the parts without a program in the PATH, and listPackages returns their names and
// packages.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("CC", "")
	if err := os.WriteFile(filepath.Join(dir, "python3"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	names, packages, brewCommands := listPackages(missing([]locate.Part{locate.Redis, locate.Python, locate.Compiler}))
	servertest.Same(t, "names", names, "redis-server, a C compiler")
	servertest.Same(t, "packages", strings.Join(packages, ", "), "redis-server, gcc, libc6-dev")
	servertest.Same(t, "brews", strings.Join(brewCommands, ", "), "brew install redis, brew install gcc")
}
