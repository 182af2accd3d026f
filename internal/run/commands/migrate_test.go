package commands_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/migrations"
)

// Migrate prints what it has done. It refuses a file whose migrations have other fingerprints than
// this program's.
func TestMigrateSaysWhatItDid(t *testing.T) {
	cfg := config.Config{DataDir: t.TempDir()}
	names, _ := fs.Glob(migrations.SQLite, "sqlite/*.sql")
	all := ""
	for _, name := range names {
		all += "Migration " + filepath.Base(name) + " was applied.\n"
	}
	for _, want := range []string{all + "The schema is up to date.\n", "The schema is up to date: no migration was due.\n"} {
		var out strings.Builder
		apptest.Must(t, commands.Migrate(t.Context(), cfg, &out))
		servertest.Same(t, "a run", out.String(), want)
	}
	file, err := sql.Open("sqlite", filepath.Join(cfg.DataDir, config.DatabaseFile))
	apptest.Must(t, err)
	_, err = file.ExecContext(t.Context(), `UPDATE schema_fingerprints SET sha256 = 'x'`)
	apptest.Must(t, errors.Join(err, file.Close()))
	var out strings.Builder
	if err := commands.Migrate(t.Context(), cfg, &out); !errors.Is(err, store.ErrSchema) ||
		!strings.Contains(err.Error(), "begin with an empty database") || out.Len() > 0 {
		t.Errorf("%v, and it printed %q", err, out.String())
	}
}
