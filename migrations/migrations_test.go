package migrations

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// frozen has the lines of released.sha256: the migrations that a release has, which therefore never
// change. "sha256sum */*.sql" writes it.
func frozen(t *testing.T) map[string]string {
	text, err := os.ReadFile("released.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			sums[name] = sum
		}
	}
	return sums
}

// A migration that a release has is as it was then; from the first release on, each release adds
// its own.
func TestReleasedMigrationsStay(t *testing.T) {
	sums := frozen(t)
	for name, sum := range sums {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sum {
			t.Errorf("%s was changed after its release: add a migration instead", name)
		}
	}
	changelog, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^## \d`).Match(changelog) {
		return // nothing is released
	}
	if regexp.MustCompile(`(?m)^## Unreleased`).Match(changelog) {
		if len(sums) == 0 {
			t.Error("CHANGELOG.md has a release, and released.sha256 no file of it")
		}
		return
	}
	for _, files := range []fs.FS{Postgres, SQLite} {
		names, err := fs.Glob(files, "*/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if sums[name] == "" {
				t.Errorf("%s is released and not in released.sha256", name)
			}
		}
	}
}
