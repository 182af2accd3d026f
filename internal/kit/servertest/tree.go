package servertest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies the contents of src into the existing directory dst, and gives them to o.
func copyTree(src, dst string, o owner) error {
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil || o.credential == nil {
		return err
	}
	return filepath.WalkDir(dst, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, o.give(path))
	})
}
