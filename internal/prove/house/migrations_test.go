package house

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"sendcode/migrations"
)

// A migration that a release has is as it was then, by the sum that "sha256sum */*.sql" wrote into released.sha256; from the
// first release on, each release adds its own.
func TestReleasedMigrationsStay(t *testing.T) {
	sums := map[string]string{}
	for line := range strings.Lines(readFile(t, "migrations/released.sha256")) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			continue
		}
		sums[name] = sum
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(readFile(t, "migrations/"+name)))); got != sum {
			t.Errorf("%s was changed after its release: add a migration instead", name)
		}
	}
	changelog := readFile(t, "CHANGELOG.md")
	if !regexp.MustCompile(`(?m)^## \d`).MatchString(changelog) {
		return // nothing is released
	}
	if regexp.MustCompile(`(?m)^## Unreleased`).MatchString(changelog) {
		if len(sums) == 0 {
			t.Error("CHANGELOG.md has a release, and released.sha256 no file of it")
		}
		return
	}
	for _, files := range []fs.FS{migrations.Postgres, migrations.SQLite} {
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
