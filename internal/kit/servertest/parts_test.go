//go:build nightly

// Only make nightly runs these tests, because they test a kit and not the product.

package servertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sendcode/tools/ensure/locate"
)

// recorder replaces a test and records how it would have ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper()           {}
func (r *recorder) Skip(args ...any)  { r.skipped = fmt.Sprint(args...) }
func (r *recorder) Fatal(args ...any) { r.failed = fmt.Sprint(args...) }

// If a part is missing, a test that needs the part is skipped, and fails in CI. The message says
// how to install the part.
func TestMissingPartSkipsButFailsInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	for _, part := range []locate.Part{locate.Redis, locate.Compiler, locate.Chromium, locate.Node, locate.Python} {
		for ci, fails := range map[string]bool{"": false, "true": true, "1": true} {
			t.Setenv("CI", ci)
			r := &recorder{TB: t}
			found(r, part)
			if (r.failed != "") != fails || (r.skipped != "") == fails {
				t.Errorf("%s, CI=%s: skipped %q, failed %q", part.Name, ci, r.skipped, r.failed)
			}
			for _, want := range append(slices.Clone(part.Debian), part.Name, part.Homebrew) {
				if !strings.Contains(r.skipped+r.failed, want) {
					t.Errorf("%q does not name %q", r.skipped+r.failed, want)
				}
			}
		}
	}
}

// If there is no home, or it cannot be written, the clusters are cached elsewhere.
func TestCacheWithoutAHome(t *testing.T) {
	for _, home := range []string{"", "/dev/null", t.TempDir()} {
		t.Setenv("XDG_CACHE_HOME", "")
		t.Setenv("HOME", home)
		dir, err := CacheDir()
		if in := home != "" && strings.HasPrefix(dir, home+"/"); err != nil || !mayWrite(dir) || in != (len(home) > len("/dev/null")) {
			t.Errorf("HOME=%s: %s, %v", home, dir, err)
		}
	}
}
