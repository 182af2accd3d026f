package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/run/disk"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

const (
	quickCheckTimeout = time.Minute
	largeWAL          = 256 << 20 // bytes; about 4 MB are usual
	fewDays           = 14        // if the disk has less room than for this many days of growth, there is a remark
)

// checkFile checks the SQLite file, and leaves the file unchanged. The service may run meanwhile.
func (d *doctor) checkFile(ctx context.Context) {
	const what = "database"
	path := filepath.Join(d.cfg.DataDir, config.DatabaseFile)
	dir, dirErr := os.Stat(d.cfg.DataDir)
	if dirErr == nil {
		if err := tryToWrite(d.cfg.DataDir); err != nil {
			d.fail(what, err.Error())
			return
		}
	}
	file, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.remark(what, path+" does not exist: the first start creates it; if the service has run before, correct SENDCODE_DATA_DIR")
		return
	}
	if err := errors.Join(err, dirErr); err != nil {
		d.fail(what, err.Error()+": run the doctor as root, or as the user of the service")
		return
	}
	if !disk.SameOwner(dir, file) {
		d.fail(what, path+" belongs to another user than its folder: run chown --reference="+d.cfg.DataDir+" on it")
	}
	if mode := file.Mode().Perm(); mode&0o200 == 0 {
		d.fail(what, path+" is read-only, so nothing can be sent: run chmod 600 on it")
	} else if mode&0o077 != 0 {
		d.remark(what, path+" can be read by other users: run chmod 600 on it")
	}
	db, err := sqlite.OpenReadOnly(path, d.now)
	if err != nil {
		d.fail(what, err.Error())
		return
	}
	defer func() { _ = db.Close() }()
	checked, cancel := context.WithTimeout(ctx, quickCheckTimeout)
	defer cancel()
	switch err := db.QuickCheck(checked); {
	case checked.Err() != nil && ctx.Err() == nil:
		d.remark(what, "the quick check of "+path+" did not end within a minute: run it on a backup (PRAGMA quick_check)")
	case err != nil:
		d.fail(what, path+" is damaged: "+err.Error()+"; put back a backup, docs/operations.md#one-file")
		return
	}
	if err := db.CheckSchema(ctx); errors.Is(err, store.ErrLaterSchema) {
		d.remark(what, err.Error())
	} else if err != nil {
		d.fail(what, err.Error())
		return
	}
	if moved, err := db.Moved(ctx); moved || err != nil {
		d.fail(what, path+": "+errors.Join(sqlite.ErrMoved, err).Error())
		return
	}
	cfg, err := d.cfg.WithStoredKeys()
	if err != nil {
		d.fail("keys", err.Error())
	} else {
		d.checkKeys(ctx, cfg, db.Store())
	}
	d.runCheck(ctx, what, func(ctx context.Context) (string, error) { return d.checkGrowth(ctx, db, path) })
	d.checkBackup()
}

// checkGrowth returns a sentence about the database's rows and the room on its disk, and prints a
// remark on each fault.
func (d *doctor) checkGrowth(ctx context.Context, db *sqlite.DB, path string) (string, error) {
	text, err := d.checkStorage(ctx, db.Store())
	if err != nil {
		return "", err
	}
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > largeWAL {
		d.remark("database", fmt.Sprintf("%s-wal has %d MB: a command that reads the file for a long time keeps it large; let the command end, or "+
			"restart the service", path, wal.Size()>>20))
	}
	text = "SQLite in " + d.cfg.DataDir + "; its schema fits this version" + text
	perDay, err := db.BytesADay(ctx)
	free, _, ok := disk.Space(d.cfg.DataDir)
	if err != nil || !ok || perDay <= 0 {
		return text, err
	}
	if days := int(free / perDay); days < fewDays {
		d.remark("room", fmt.Sprintf("the disk is full in %d days at today's growth: enlarge it, or shorten retention", days))
	} else {
		text += fmt.Sprintf("; the disk has room for %d days at today's growth", days)
	}
	return text, nil
}

// checkBackup prints how old the last backup is.
func (d *doctor) checkBackup() {
	const what = "backup"
	at := config.LastBackup(d.cfg.DataDir)
	age := d.now().Sub(at)
	switch {
	case at.IsZero() && app.NeedsBackup(d.cfg):
		d.remark(what, "there is none: run sendcode backup each day, docs/operations.md#one-file")
	case at.IsZero():
		d.pass(what, "none, as is right for a trial")
	case age > app.BackupDue:
		d.remark(what, "the last one is "+durationInWords(age)+" old: run sendcode backup, docs/operations.md#one-file")
	default:
		d.pass(what, "the last one is "+durationInWords(age)+" old")
	}
}

// tryToWrite writes 64 KB into a new file in a directory, and removes the file. An empty file would
// prove nothing, since a full disk still has room for a file name.
func tryToWrite(dir string) error {
	probe, err := os.CreateTemp(dir, "doctor-*.tmp")
	if err != nil {
		return fmt.Errorf("no file can be made in %s: %w; let the service's user write there", dir, errors.Unwrap(err))
	}
	_, err = probe.Write(make([]byte, 64<<10))
	err = errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
	if err != nil {
		return fmt.Errorf("nothing can be written in %s: free room, or enlarge the disk: %w", dir, err)
	}
	return nil
}
