package house

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"sendcode/migrations"
)

// Databases have applied each landed migration, so a landed migration never changes.
// released.sha256 has its checksum. The commit that adds a migration writes the file with
// "sha256sum */*.sql".
func TestLandedMigrationsStay(t *testing.T) {
	sums := map[string]string{}
	for line := range strings.Lines(readFile(t, "migrations/released.sha256")) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Errorf("released.sha256: %q is not a sum, two blanks and a name", line)
			continue
		}
		sums[name] = sum
	}
	for _, files := range []fs.FS{migrations.Postgres, migrations.SQLite} {
		names, err := fs.Glob(files, "*/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			switch sum, content := sums[name], readFile(t, "migrations/"+name); {
			case sum == "":
				t.Errorf("%s is not in released.sha256: add the line of \"sha256sum %[1]s\"", name)
			case sum != fmt.Sprintf("%x", sha256.Sum256([]byte(content))):
				t.Errorf("%s has changed since it landed: add a migration instead", name)
			}
			delete(sums, name)
		}
	}
	for name := range sums {
		t.Errorf("%s has landed and is gone", name)
	}
}
