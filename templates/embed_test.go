package templates

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestBinaryCarriesEveryTemplate(t *testing.T) {
	n := 0
	err := filepath.WalkDir("mail", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		n++
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		got, err := FS.ReadFile(filepath.ToSlash(name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v, %d bytes embedded, %d on disk", name, err, len(got), len(want))
		}
		return nil
	})
	if err != nil || n < 7 {
		t.Errorf("%d files, %v", n, err)
	}
}
