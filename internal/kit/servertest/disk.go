package servertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Disk is a small file system that a test can fill: a tmpfs mounted at Dir.
type Disk struct {
	Dir string
}

// OnSmallDisk runs a test on a file system of its own, of size bytes. If this user may not mount a
// file system, the test runs again in a process with its own namespaces (user_namespaces(7)), where
// mounting is allowed. If such a process is forbidden, too, the test is skipped; in CI it fails.
func OnSmallDisk(t *testing.T, size int, test func(*Disk)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sendcode-disk-") // not t.TempDir, whose parent no other user may enter
	mustOrSkip(t, err)
	t.Cleanup(func() { reportError(t, os.Remove(dir)) })
	switch err := mount(dir, size); {
	case err == nil:
		t.Cleanup(func() { reportError(t, unmount(dir)) })
		test(&Disk{dir})
	case os.Getenv(inNamespace) == "":
		inOwnNamespace(t)
	default:
		mustOrSkip(t, fmt.Errorf("%w: %w", errNoMount, err))
	}
}

// inNamespace is set for tests that run again in a namespace.
const inNamespace = "SENDCODE_TEST_IN_NAMESPACE"

// errNoMount is the error on a machine where tests cannot mount a file system.
var errNoMount = errors.New("no file system can be mounted here to be filled")

// inOwnNamespace runs only this test again, in a process that may mount, and ends with the same
// result.
func inOwnNamespace(t *testing.T) {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = mayMount()
	output, err := cmd.CombinedOutput()
	switch ended := func(how string) bool { return strings.Contains(string(output), "--- "+how+": "+t.Name()+" (") }; {
	case ended("SKIP"), len(output) == 0 && err != nil: // without output: the process was not started
		mustOrSkip(t, fmt.Errorf("%w: %v %s", errNoMount, err, output))
	case err != nil, !ended("PASS"):
		t.Errorf("in a namespace of its own: %v\n%s", err, output)
	}
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

// Free frees this many bytes on a full disk.
func (d *Disk) Free(bytes int64) error {
	info, err := os.Stat(d.balloon())
	if err != nil {
		return err
	}
	return os.Truncate(d.balloon(), max(0, info.Size()-bytes))
}

// MakeRoom frees what Fill took.
func (d *Disk) MakeRoom() error { return os.Remove(d.balloon()) }

// MakeDir makes the directory dir, and gives it to the user that runs the server.
func (s *PostgresServer) MakeDir(dir string) error {
	return errors.Join(os.Mkdir(dir, 0o700), s.owner.give(dir))
}
