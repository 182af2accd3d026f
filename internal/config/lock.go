package config

import (
	"fmt"
	"os"
	"path/filepath"

	"sendcode/internal/config/document"

	"github.com/gofrs/flock"
)

// LockDataDir takes a data directory for this process alone, and makes it (0700) where it is missing. The lock ends
// with release, or with the process however that ends. The lock file stays: removing it would let two processes
// hold locks on two files of the same name.
func LockDataDir(dir string) (release func() error, err error) {
	if err := makeDataDir(dir); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("the data directory %s cannot be locked: %s", document.Plain(dir), cause(err))
	case !locked:
		return nil, fmt.Errorf("the data directory %s is in use by another sendcode process: "+
			"stop that one, or give this one a directory of its own with SENDCODE_DATA_DIR", document.Plain(dir))
	}
	return lock.Unlock, nil
}

func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the data directory %s cannot be made: %s", document.Plain(dir), cause(err))
	}
	return nil
}
