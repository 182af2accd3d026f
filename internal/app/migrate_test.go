package app

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/config"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// A migration prints what it did. A file from before fingerprints were kept is refused.
func TestMigrateSaysWhatItDid(t *testing.T) {
	cfg := config.Config{DataDir: t.TempDir()}
	for _, want := range []string{
		"Migration 00001_schema.sql was applied.\nMigration 00002_held_suppressions.sql was applied.\n" +
			"Migration 00003_unmapped_events.sql was applied.\nThe schema is up to date.\n",
		"The schema is up to date: no migration was due.\n",
	} {
		var out strings.Builder
		if err := Migrate(t.Context(), cfg, &out); err != nil {
			t.Fatal(err)
		}
		servertest.Same(t, "a run", out.String(), want)
	}
	file, err := sql.Open("sqlite", filepath.Join(cfg.DataDir, config.DatabaseFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.ExecContext(t.Context(), `DROP TABLE schema_fingerprints`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Migrate(t.Context(), cfg, &out); !errors.Is(err, store.ErrSchema) ||
		!strings.Contains(err.Error(), "begin with an empty one") || out.Len() > 0 {
		t.Errorf("%v, and it printed %q", err, out.String())
	}
}
