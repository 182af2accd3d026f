package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sendcode/internal/kit/servertest"
)

// A file is loaded once, as a whole, after two reads with the same content.
func TestWatchedFileIsNotReadHalfWay(t *testing.T) {
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
		want    string // the content that is loaded; "-": none is loaded
	}{
		{"one", nil, "-"},
		{"one", nil, "one"},
		{"one", nil, "-"},
		{"tw", nil, "-"},
		{"two", nil, "-"},
		{"two", nil, "two"},
		{"thr", nil, "-"},
		{"two", nil, "-"},
		{"two", nil, "-"},
		{"", failure, "-"},
		{"", failure, "gone"},
		{"", failure, "-"},
		{"", nil, "-"},
		{"", nil, ""},
		{"two", nil, "-"},
		{"two", nil, "two"},
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

// After Kubernetes has changed the target of a symbolic link, readRegularFile reads the new file.
func TestReadRegularFileThroughATurnedLink(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "sendcode.yaml"
	servertest.OK(t, os.Symlink(filepath.Join("..data", name), name))
	for _, version := range []string{"one", "two"} {
		servertest.OK(t, os.Mkdir(version, 0o700))
		servertest.OK(t, os.WriteFile(filepath.Join(version, name), []byte(version), 0o600))
		servertest.OK(t, os.Symlink(version, "..next"))
		servertest.OK(t, os.Rename("..next", "..data"))
		if content, err := readRegularFile(name); string(content) != version || err != nil {
			t.Errorf("%q, %v, want %s", content, err, version)
		}
	}
}

// A reload that a panic interrupts counts as rejected, and a repeated one applies all settings.
func TestAnInterruptedReloadIsRepeated(t *testing.T) {
	a := newAlone(t, "")
	t.Cleanup(func() { servertest.OK(t, a.close()) })
	a.SetReload(ReloadOptions{Environ: []string{"SENDCODE_CONFIG_YAML=requests_per_minute: 7", "SENDCODE_API_KEY=" + loneKey}})
	r, keys, before := &reloader{App: a, current: a.cfg}, a.api, *a.settingsHash.Load()
	a.api = nil
	r.reloadFrom(nil, false)
	servertest.Same(t, "in force after a panic", r.current.RequestsPerMinute, 300)
	servertest.Same(t, "settings after a panic", *a.settingsHash.Load(), before)
	a.api = keys
	r.reloadFrom(nil, false)
	servertest.Same(t, "in force after another reload", r.current.RequestsPerMinute, 7)
	if *a.settingsHash.Load() == before {
		t.Error("the hash is that of the settings before")
	}
}
