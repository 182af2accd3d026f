package doctor

import (
	"bytes"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
)

// embedded returns a service whose data directory and SQLite file exist.
func embedded(t *testing.T) *apptest.Stack {
	t.Helper()
	s := apptest.Embedded(t)
	apptest.Must(t, commands.Migrate(t.Context(), s.Config(), io.Discard))
	return s
}

// If the file or its keys have a fault, the doctor says what to do. Without a fault, the doctor
// says that all is well, even while the service runs.
func TestDoctorLooksAtTheFile(t *testing.T) {
	t.Parallel()
	change := func(statement string) func(*apptest.Stack, string) {
		return func(s *apptest.Stack, path string) {
			db, err := sqlite.OpenPool("file:"+path, 1)
			apptest.Must(s.T, err)
			defer func(db *sql.DB) { _ = db.Close() }(db)
			_, err = db.Exec(statement)
			apptest.Must(s.T, err)
		}
	}
	for want, fault := range map[string]func(s *apptest.Stack, path string){
		" is read-only, so nothing can be sent: run chmod 600": func(s *apptest.Stack, path string) {
			apptest.Must(s.T, os.Chmod(path, 0o400))
		},
		"file is not a database (26); put back a backup": func(s *apptest.Stack, path string) {
			apptest.Must(s.T, os.WriteFile(path, bytes.Repeat([]byte("garbage "), 4096), 0o600))
		},
		"set SENDCODE_INDEX_KEY to the key with which the database was written": func(s *apptest.Stack, _ string) {
			s.Env["SENDCODE_INDEX_KEY"] = config.NewIndexKey()
		},
		"✗ keys: ": func(s *apptest.Stack, path string) {
			apptest.Must(s.T, os.Remove(filepath.Join(filepath.Dir(path), "secrets.yaml")))
		},
		"of this program is not applied: run sendcode migrate": change(`DELETE FROM schema_fingerprints WHERE version = 1`),
		"migration 1 was applied from another file than this program's, so another build made this schema: start that build": change(
			`UPDATE schema_fingerprints SET sha256 = 'x' WHERE version = 1`),
		"sendcode move has moved this file's rows": change(`PRAGMA user_version = 1`),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := embedded(t)
			s.Start(1).Stop(0) // the start writes the check values of the keys
			fault(s, filepath.Join(s.Env["SENDCODE_DATA_DIR"], config.DatabaseFile))
			examine(s, dns{}, 0, true, "✗ ", want)
		})
	}
	gone := embedded(t)
	apptest.Must(t, os.RemoveAll(gone.Env["SENDCODE_DATA_DIR"]))
	examine(gone, dns{}, 0, false, "! database: ", " does not exist: the first start creates it; if the service has run before, correct SENDCODE_DATA_DIR")
	gone.Env["SENDCODE_DATA_DIR"] = "/proc" // in which root can make no file either
	examine(gone, dns{}, 0, true, "✗ database: no file can be made in /proc: ", "let the service's user write there")
	s := embedded(t).Start(1)
	s.Ask(0, apptest.Ana)
	s.AwaitMail(apptest.Ana, 1)
	examine(s, dns{}, 0, false, "✓ database: SQLite in ", "the disk has room for ", "✓ keys: rows by key",
		"✓ backup: none, as is right for a trial", "! clients: back ends name no client_ip: 1 of the newest 1 sends of the last day.")
	apptest.Must(t, commands.Backup(t.Context(), s.Config(), filepath.Join(t.TempDir(), "copy"), false, io.Discard))
	examine(s, dns{}, 0, false, "✓ backup: the last one is 0 hours old")
	examine(s, dns{}, -50*time.Hour, false, "! backup: the last one is 2 days old: run sendcode backup")
	change(`INSERT INTO schema_fingerprints (version, sha256) VALUES (999, 'x')`)(s,
		filepath.Join(s.Env["SENDCODE_DATA_DIR"], config.DatabaseFile))
	examine(s, dns{}, 0, false, "! database: ", "migration 999 is of a later version", "✓ keys: rows by key")
}
