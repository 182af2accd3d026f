package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file is read when it has stayed as it is, whole, and once.
func TestAFileIsNotReadHalfWay(t *testing.T) {
	content, failure := "", errors.New("gone")
	var err error
	w := watchedFile{name: "f", read: func(name string) ([]byte, error) {
		if name != "f" {
			return []byte("other " + name), nil
		}
		return []byte(content), err
	}}
	steps := []struct {
		content string
		err     error
		want    string // what would be loaded; "-" for nothing
	}{
		{"one", nil, "-"}, {"one", nil, "one"}, {"one", nil, "-"},
		{"tw", nil, "-"}, {"two", nil, "-"}, {"two", nil, "two"},
		{"thr", nil, "-"}, {"two", nil, "-"}, {"two", nil, "-"},
		{"", failure, "-"}, {"", failure, "gone"}, {"", failure, "-"},
		{"", nil, "-"}, {"", nil, ""}, {"two", nil, "-"}, {"two", nil, "two"},
	}
	for i, step := range steps {
		content, err = step.content, step.err
		read, got := w.readerIfChanged(), "-"
		content, err = "changed since", nil
		if read != nil {
			raw, failed := read("f")
			if got = string(raw); failed != nil {
				got = failed.Error()
			}
			if raw, _ := read("secret"); string(raw) != "other secret" {
				t.Errorf("another file: %s", raw)
			}
		}
		if got != step.want {
			t.Fatalf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if (&watchedFile{read: w.read}).readerIfChanged() != nil {
		t.Error("without a file there is nothing to read")
	}
}

// A link that Kubernetes turns to another folder is seen, as is a file that takes the place of the
// link.
func TestATurnedLinkIsSeen(t *testing.T) {
	t.Chdir(t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := watchedFile{name: "sendcode.yaml", read: readRegularFile}
	sees := func(want string) {
		t.Helper()
		if w.readerIfChanged() != nil {
			t.Errorf("%s is read at the first look", want)
		}
		read := w.readerIfChanged()
		if read == nil {
			t.Fatalf("%s is not seen", want)
		}
		if content, err := read(w.name); string(content) != want || err != nil {
			t.Errorf("%q, %v, want %s", content, err, want)
		}
	}
	must(os.Symlink(filepath.Join("..data", w.name), w.name))
	for _, version := range []string{"one", "two"} {
		must(os.Mkdir(version, 0o700))
		must(os.WriteFile(filepath.Join(version, w.name), []byte(version), 0o600))
		must(os.Symlink(version, "..next"))
		must(os.Rename("..next", "..data"))
		sees(version)
	}
	must(os.WriteFile("new", []byte("three"), 0o600))
	must(os.Rename("new", w.name))
	sees("three")
}
