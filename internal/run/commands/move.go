package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store/postgres"
	"sendcode/internal/store/sqlite"
)

// MoveToPostgres moves the SQLite file of the data directory to the empty Postgres database at url,
// and prints to out what it did. The URL must log in as the database's owner. The service must be
// stopped.
//
// MoveToPostgres marks the SQLite file as moved before it commits to Postgres, so that two services
// never send from the same rows. After a failure the service can still use the SQLite file, unless
// the error says otherwise. A second call begins again from the first row.
func MoveToPostgres(ctx context.Context, cfg config.Config, url string, out io.Writer) error {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return errors.New("--to must be the URL of a Postgres: postgres://…")
	}
	if err := postgres.CheckMayMigrate(url, cfg.DatabaseRole); err != nil {
		return err
	}
	if !config.DatabaseFileMayExist(cfg.DataDir) {
		return fmt.Errorf("there is no %s in %s: SENDCODE_DATA_DIR must name the folder", config.DatabaseFile, cfg.DataDir)
	}
	unlock, err := config.LockDataDir(ctx, cfg.DataDir, 0)
	if err != nil {
		return fmt.Errorf("%w; stop the service now, and start it on Postgres after the move", err)
	}
	defer func() { _ = unlock() }()
	file, err := sqlite.OpenToMove(filepath.Join(cfg.DataDir, config.DatabaseFile), time.Now)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := file.CheckSchema(ctx); err != nil {
		return err
	}
	if cfg, err = cfg.WithStoredKeys(); err != nil {
		return err
	}
	if _, err := app.CompareKeysWithDatabase(ctx, cfg, file.Store()); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, url, cfg.DatabaseRole); err != nil {
		return err
	}
	before, err := file.Moved(ctx)
	if err != nil {
		return err
	}
	marked, began, rows := false, time.Now(), int64(0)
	err = postgres.Fill(ctx, url, file.Query, func(table string, n int64) {
		rows += n
		_, _ = fmt.Fprintf(out, "%s: %d rows\n", table, n)
	}, func() error {
		marked = true
		return file.SetMoved(ctx, true)
	})
	switch {
	case errors.Is(err, fault.Uncertain):
		return fmt.Errorf("%w: the rows may be in Postgres, so the file is marked as moved: repeat the command; "+
			"if it then says that the database is not empty, all rows are there", err)
	case err != nil && before:
		return fmt.Errorf("%w; an earlier move has marked the file as moved: if the Postgres of that move has the rows, start the service on it", err)
	case err != nil && marked:
		return errors.Join(err, file.SetMoved(context.WithoutCancel(ctx), false))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(out, "%d rows were moved in %v, and the SQLite file is no longer used. Set SENDCODE_DATABASE_URL, and for replicas on "+
		"other machines the same keys, password and API key (the generated ones are in %s); then start the service.\n", rows,
		time.Since(began).Round(time.Second/10), filepath.Join(cfg.DataDir, "secrets.yaml"))
	return err
}
