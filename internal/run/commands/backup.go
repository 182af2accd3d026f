package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sendcode/internal/run/config"
	"sendcode/internal/run/disk"
	"sendcode/internal/store/sqlite"
)

const postgresBackup = "the database is Postgres: back it up with pg_dump (docs/operations.md#backup-and-restore)"

// Backup copies the SQLite file to path. If secrets is true, it also copies the file of secrets to
// path.secrets.yaml. The service may run meanwhile, since Backup does not lock the data directory.
// The copy shows the SQLite file at one instant.
//
// Backup does not overwrite files. The disk needs room for the copy. If copying fails, Backup
// leaves no file. After the copy, Backup records when it began, for the metrics and the doctor. If
// the recording fails, Backup returns an error, and the copy stays. Backup prints path and that
// time to out.
func Backup(ctx context.Context, cfg config.Config, path string, secrets bool, out io.Writer) error {
	if cfg.DatabaseURL != "" {
		return errors.New(postgresBackup)
	}
	from, secretsPath := filepath.Join(cfg.DataDir, config.DatabaseFile), path+".secrets.yaml"
	if err := checkRoomFor(from, path, 1); err != nil {
		return err
	}
	if err := createEmptyFile(path); err != nil {
		return err
	}
	created, began := []string{path}, time.Now()
	err := func() error {
		if secrets {
			if err := createEmptyFile(secretsPath); err != nil {
				return err
			}
			created = append(created, secretsPath)
			if err := config.BackUpSecrets(cfg.DataDir, secretsPath); err != nil {
				return err
			}
		}
		return config.WriteFile(path, func(f *os.File) error { return sqlite.Backup(ctx, from, f.Name()) })
	}()
	if err != nil {
		for _, file := range created {
			err = errors.Join(err, os.Remove(file))
		}
		return fmt.Errorf("no backup was made: %w", err)
	}
	if err := recordBackup(cfg, began); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(out, "%s has the database of %s.\n", path, began.UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	if !secrets && config.HasSecretsFile(cfg.DataDir) {
		_, err = fmt.Fprintln(out, "Without the keys in secrets.yaml beside the database, it is of no use: keep a copy of that file, too (--with-secrets).")
	}
	return err
}

// recordBackup records when a complete backup began. The metrics and the doctor show this time.
func recordBackup(cfg config.Config, began time.Time) error {
	if err := config.RecordBackup(cfg.DataDir, began); err != nil {
		return fmt.Errorf("the backup is complete, but its time can't be recorded for the metrics: %w", err)
	}
	return nil
}

// createEmptyFile fails if the file exists, so that of two backups to the same name the second
// fails here.
func createEmptyFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: name another file, or move it away", path)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// checkRoomFor returns an error if the disk of path has too little room for a copy of the SQLite
// file from. The needed room is the size of this file and of its write-ahead log, multiplied by
// times.
func checkRoomFor(from, path string, times float64) error {
	size := 0.0
	for _, name := range []string{from, from + "-wal"} {
		switch info, err := os.Stat(name); {
		case err == nil:
			size += times * float64(info.Size())
		case name == from:
			return fmt.Errorf("there is no database to copy: %w", err)
		}
	}
	if free, _, ok := disk.Space(filepath.Dir(path)); ok && free < size {
		return fmt.Errorf("the disk of %s has %s free, and the copy may take %s: free %s, or name a file on another disk", path,
			megabytes(free), megabytes(size), megabytes(size-free))
	}
	return nil
}

func megabytes(n float64) string { return fmt.Sprintf("%.1f MB", n/1e6) }
