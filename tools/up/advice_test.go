package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/tools/ensure/locate"
)

// wants fails the test unless an error has all these texts.
func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in %v", text, err)
		}
	}
}

// If the data are of another version, they stay unchanged, and the error says what to do. The
// servers that were already started have ended.
func TestStartRefusesDataOfAnotherVersion(t *testing.T) {
	for _, part := range []locate.Part{locate.Redis, locate.Postgres} {
		if _, err := part.Find(); err != nil {
			t.Skip(err)
		}
	}
	start := func(dir string) error {
		return advise(up(t.Context(), dir, false, []string{"SENDCODE_ADDR=127.0.0.1:0"}, io.Discard), dir)
	}
	put := func(file, text string) string {
		t.Helper()
		servertest.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		servertest.OK(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	dir := t.TempDir()
	home := postgresHome(dir)
	t.Cleanup(func() { servertest.OK(t, os.RemoveAll(home)) })
	version := put(filepath.Join(home, "postgres", "PG_VERSION"), "99\n")
	wants(t, start(dir), "are of Postgres 99", "postgresql-99", "FRESH=1")
	servertest.OK(t, os.Remove(version))

	log := filepath.Join(dir, "redis", "appendonlydir")
	put(filepath.Join(log, "appendonly.aof.manifest"), "file appendonly.aof.1.base.rdb seq 1 type b\n")
	const newer = "REDIS9999 of a later version"
	base := put(filepath.Join(log, "appendonly.aof.1.base.rdb"), newer)
	for range 2 { // the first run has released its lock and its place
		wants(t, start(dir), "A newer Redis wrote the data in "+filepath.Join(dir, "redis"), "move the folder away")
	}
	text, err := os.ReadFile(base)
	servertest.OK(t, err)
	servertest.Same(t, "the data", string(text), newer)
}

// On a full disk, no secrets are written, not even some of them. The next start makes them.
func TestLoadSecretsOnAFullDiskWritesNone(t *testing.T) {
	servertest.OnSmallDisk(t, 1<<20, func(disk *servertest.Disk) {
		dir := filepath.Join(disk.Dir, "up")
		servertest.OK(t, os.Mkdir(dir, 0o700))
		servertest.OK(t, disk.Fill())
		_, err := loadSecrets(dir)
		wants(t, advise(err, dir), "The disk is full: make room for "+dir)
		servertest.OK(t, disk.MakeRoom())
		made, err := loadSecrets(dir)
		servertest.OK(t, err)
		again, err := loadSecrets(dir)
		servertest.OK(t, err)
		servertest.Same(t, "the secrets of the next start", again, made)
		if !strings.Contains(made, "SENDCODE_API_KEY=sk_") || !strings.Contains(made, "SENDCODE_ADMIN_PASSWORD=") {
			t.Errorf("%q", made)
		}
	})
}

// An error of the file system has the same advice as one in a server's log.
func TestAdvice(t *testing.T) {
	for says, errs := range map[string][]error{
		"may not read or write": {
			&fs.PathError{Op: "mkdir", Path: "data/up", Err: syscall.EACCES},
			errors.New(`FATAL:  could not open file "postmaster.pid": Permission denied`),
		},
		"The disk is full": {
			fmt.Errorf("start: %w", syscall.ENOSPC), errors.New("FATAL:  could not write lock file: No space left on device"),
		},
		"on another file system": {
			&fs.PathError{Op: "mkdir", Path: "data/up", Err: syscall.EROFS}, errors.New("initdb: Read-only file system"),
		},
	} {
		for _, err := range errs {
			wants(t, advise(err, "data/up"), err.Error(), says)
		}
	}
	other := errors.New("another")
	servertest.Same(t, "an error without advice", advise(other, "data/up"), other)
}
