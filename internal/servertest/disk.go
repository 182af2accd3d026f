package servertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Disk is a small file system that a test can fill: a tmpfs mounted at Dir.
type Disk struct {
	Dir string
}

// SmallDisk mounts a file system of so many bytes for one test, and takes it
// down afterwards. It skips the test where this user may not mount.
func SmallDisk(t testing.TB, size int) *Disk {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a tmpfs is needed to fill a disk")
	}
	dir, err := os.MkdirTemp("", "sendcode-disk-") // not t.TempDir, which no other user may enter
	need(t, err)
	t.Cleanup(func() { closed(t, os.Remove(dir)) })
	d := &Disk{dir}
	options := fmt.Sprintf("size=%d,mode=0777", size)
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", d.Dir).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here to be filled: %s", strings.TrimSpace(string(said)))
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "-l", d.Dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %s", said)
		}
	})
	return d
}

func (d *Disk) balloon() string { return filepath.Join(d.Dir, "balloon") }

// Fill takes all space that is left.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.balloon(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		n, err := f.Write(chunk)
		switch {
		case errors.Is(err, syscall.ENOSPC) && n == 0:
			chunk = chunk[:len(chunk)/2]
		case err != nil && !errors.Is(err, syscall.ENOSPC):
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// Leave has a full disk take so many bytes more.
func (d *Disk) Leave(bytes int64) error {
	info, err := os.Stat(d.balloon())
	if err != nil {
		return err
	}
	return os.Truncate(d.balloon(), max(0, info.Size()-bytes))
}

// MakeRoom frees what Fill took.
func (d *Disk) MakeRoom() error { return os.Remove(d.balloon()) }

// GiveTo makes a directory on the disk that the server's programs may write in.
func (s *PostgresServer) GiveTo(dir string) error {
	return errors.Join(os.Mkdir(dir, 0o700), s.owner.give(dir))
}
