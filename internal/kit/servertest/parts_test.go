//go:build nightly

// Only `make nightly` runs these tests, because they test a kit and not the product.

package servertest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

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
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
}

// If a part is missing, a test that needs the part is skipped, and fails in CI. The message says
// how to install the part.
func TestMissingPartSkipsButFailsInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	for _, part := range []locate.Part{locate.Redis, locate.Compiler, locate.Chromium, locate.Node, locate.Python} {
		for ci, fails := range map[string]bool{"": false, "true": true, "1": true} {
			t.Setenv("CI", ci)
			r := &recorder{TB: t}
			mustFind(r, part)
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

// CacheDir returns a writable directory outside the home if there is no home, or if the
// home can't be written.
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

// A failure names the fields that differ, also those of a struct in a struct.
func TestSameNamesTheFields(t *testing.T) {
	type quota struct {
		used int
		wait time.Duration
	}
	type answer struct {
		Status int
		reason string
		err    error
		at     time.Time
		quota  quota
	}
	got, at := answer{Status: 429, reason: "day"}, time.Unix(0, 0).UTC()
	for want, text := range map[answer]string{
		got:                          "",
		{Status: 429}:                `the answer: reason "day", want ""`,
		{Status: 200, reason: "day"}: "the answer: Status 429, want 200",
		{429, "", io.EOF, at, quota{1, time.Minute}}: `the answer: reason "day", want ""; err <nil>, want EOF; ` +
			"at 0001-01-01 00:00:00 +0000 UTC, want 1970-01-01 00:00:00 +0000 UTC; quota.used 0, want 1; quota.wait 0s, want 1m0s",
	} {
		r := &recorder{TB: t}
		Same(r, "the answer", got, want)
		if r.failed != text {
			t.Errorf("%s\nwant %s", r.failed, text)
		}
	}
	r := &recorder{TB: t}
	Same(r, "error", error(nil), io.EOF)
	Same(t, "of an error", r.failed, "error: <nil>, want EOF")
	Same(r, "at", at, at.Add(time.Hour))
	Same(t, "of a time", r.failed, "at: 1970-01-01 00:00:00 +0000 UTC, want 1970-01-01 01:00:00 +0000 UTC")
	Same(r, "text", "a", "b")
	Same(t, "of a text", r.failed, "text: a, want b")

	list := func(used int) []quota { return []quota{{used: used}, {used: 7}} }
	sameText := func(got, want any) bool { return fmt.Sprint(got) == fmt.Sprint(want) }
	Same(t, "of lists", Difference(list(0), list(2), sameText), "[0].used 0, want 2")
	Same(t, "of lists of two lengths", Difference(list(0)[:1], list(0), sameText), "[{used:0 wait:0}], want [{used:0 wait:0} {used:7 wait:0}]")
	Same(t, "of equal fields", Difference(quota{}, quota{}, sameText), "{used:0 wait:0}, want {used:0 wait:0}")
}
