package parts

import (
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies the directories and plain files below src into the existing
// directory dst, gives each to the owner, and returns a checksum over names,
// sizes and contents, the same for equal trees.
func copyTree(src, dst string, o owner) (string, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli)) // against damage, not against malice
	err := filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil || name == "." {
			return err
		}
		target := filepath.Join(dst, name)
		switch {
		case entry.IsDir():
			fmt.Fprintf(sum, "%s/\n", name)
			err = os.Mkdir(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, target, name, sum)
		default:
			err = fmt.Errorf("%s is neither a directory nor a plain file", name)
		}
		return errors.Join(err, o.give(target))
	})
	return fmt.Sprintf("%08x", sum.Sum32()), err
}

func copyFile(src, dst, name string, sum hash.Hash) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size, err := io.Copy(io.MultiWriter(out, sum), in)
	fmt.Fprintf(sum, "%s %d\n", name, size)
	return errors.Join(err, out.Close())
}
