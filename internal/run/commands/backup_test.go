package commands_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
)

// A copy that is made while codes are sent is a complete database, in which no recipient has more
// than one send. A service on the restored copy refuses the recipients that were admitted before
// the copy, and Ana until the same time as before.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy("    - {name: hour, scope: recipient, limit: 1, window: 1h}\n").Start(1)
	s.Is("the first", s.Ask(0, apptest.Ana), http.StatusAccepted)
	before := s.Ask(0, apptest.Ana)
	s.Is("the second", before, http.StatusTooManyRequests)

	var sent atomic.Int64
	var admitted sync.Map
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				to := fmt.Sprintf("p%d.%d@example.com", worker, n)
				a := s.Post("/v1/verifications", `{"channel":"email","to":"`+to+`","trust":"known"}`)
				if a.StatusCode == http.StatusAccepted {
					admitted.Store(to, true)
					sent.Add(1)
				}
			}
		})
	}
	s.Await("sends", func() bool { return sent.Load() > 40 })
	var known []string
	admitted.Range(func(to, _ any) bool { known = append(known, to.(string)); return len(known) < 40 })
	cfg, copied := s.Config(), filepath.Join(t.TempDir(), "copy.db")
	var output strings.Builder
	apptest.Must(t, commands.Backup(t.Context(), cfg, copied, true, &output))
	after := sent.Load()
	s.Await("sends after the copy", func() bool { return sent.Load() > after })
	stop()
	load.Wait()
	if metrics := string(s.Get("/metrics").Raw); !strings.Contains(output.String(), copied+" has the database of ") ||
		!strings.Contains(metrics, fmt.Sprintf("sendcode_last_backup_timestamp_seconds %g\n",
			float64(config.LastBackup(cfg.DataDir).Unix()))) {
		t.Errorf("%s, and no metric has the instant %v", output.String(), config.LastBackup(cfg.DataDir))
	}
	s.Stop(0)
	s.Replicas = nil

	s.Env["SENDCODE_DATA_DIR"] = filepath.Join(t.TempDir(), "restored")
	cfg = s.Config()
	apptest.Must(t, os.Mkdir(cfg.DataDir, 0o700))
	restored := filepath.Join(cfg.DataDir, config.DatabaseFile)
	for from, to := range map[string]string{copied: restored, copied + ".secrets.yaml": filepath.Join(cfg.DataDir, "secrets.yaml")} {
		info, err := os.Stat(from)
		apptest.Must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", from, info.Mode())
		}
		apptest.Must(t, os.Rename(from, to))
	}
	db, err := sqlite.OpenPool("file:"+restored+"?mode=ro", 1)
	apptest.Must(t, err)
	same(t, db, "PRAGMA integrity_check", "ok")
	same(t, db, "SELECT max(n) FROM (SELECT count(*) AS n FROM sends GROUP BY recipient)", "1")
	apptest.Must(t, db.Close())

	cfg.HoldUntil = time.Now().Add(time.Hour).Truncate(time.Second)
	held, err := s.New(cfg)
	apptest.Must(t, err)
	s.Serve(held)
	s.Is("a held send", s.Ask(0, "new@example.com"), http.StatusServiceUnavailable)
	s.Restart()
	again := s.Ask(0, apptest.Ana)
	s.Is("after the restore", again, http.StatusTooManyRequests, again.Quota.RetryAt.Sub(before.Quota.RetryAt).Abs() < time.Second,
		!before.Quota.RetryAt.IsZero())
	for _, to := range known {
		s.Is(to, s.Ask(0, to), http.StatusTooManyRequests)
	}
	s.Is("a new one", s.Ask(0, "new@example.com"), http.StatusAccepted)
}

func same(t *testing.T, db *sql.DB, query, want string) {
	t.Helper()
	var got string
	apptest.Must(t, db.QueryRow(query).Scan(&got))
	if got != want {
		t.Errorf("%s: %s, want %s", query, got, want)
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	dir, cfg := t.TempDir(), s.Config()
	file := func(name string) string { return filepath.Join(dir, name) }
	refused := func(path string, secrets bool, want string) {
		t.Helper()
		if err := commands.Backup(t.Context(), cfg, path, secrets, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not %q but %v", want, err)
		}
	}
	refused(file("a"), false, "there is no database to copy")
	apptest.Must(t, commands.Migrate(t.Context(), cfg, io.Discard))
	apptest.Must(t, os.WriteFile(file("there"), []byte("x"), 0o600))
	apptest.Must(t, os.WriteFile(file("b.secrets.yaml"), []byte("x"), 0o600))
	refused(file("there"), false, "exists already")
	refused(file("b"), true, "b.secrets.yaml exists already")
	refused(filepath.Join(dir, "none", "a"), false, "no such file or directory")
	results, refusals := make(chan error, 2), 0
	for range 2 {
		go func() { results <- commands.Backup(t.Context(), cfg, file("twice"), false, io.Discard) }()
	}
	for range 2 {
		if err := <-results; err != nil && strings.Contains(err.Error(), "exists already") {
			refusals++
		}
	}
	if info, err := os.Stat(file("twice")); refusals != 1 || err != nil || info.Size() == 0 {
		t.Errorf("%d of two backups to one name were refused: %v %v", refusals, info, err)
	}
	apptest.Must(t, errors.Join(os.Remove(file("twice")), os.Remove(filepath.Join(cfg.DataDir, "last_backup"))))
	// the write-ahead log is so large that no disk has room for a copy, but it is sparse and takes
	// no room itself
	wal := filepath.Join(cfg.DataDir, config.DatabaseFile+"-wal")
	apptest.Must(t, os.WriteFile(wal, nil, 0o600))
	apptest.Must(t, os.Truncate(wal, 1<<42))
	refused(file("a"), false, " MB free, and the copy may take 4398")
	apptest.Must(t, os.Truncate(wal, 0))
	apptest.Must(t, os.WriteFile(filepath.Join(cfg.DataDir, config.DatabaseFile), []byte(strings.Repeat("garbage ", 512)), 0o600))
	refused(file("c"), true, "file is not a database")
	apptest.Must(t, os.Remove(filepath.Join(cfg.DataDir, "secrets.yaml")))
	refused(file("c"), true, "keep a copy of SENDCODE_SECRET_KEYS")
	cfg.DatabaseURL = "postgres://db/sendcode"
	refused(file("c"), false, "pg_dump")
	left, err := os.ReadDir(dir)
	apptest.Must(t, err)
	if len(left) != 2 || !config.LastBackup(cfg.DataDir).IsZero() {
		t.Errorf("left: %v", left)
	}
}
