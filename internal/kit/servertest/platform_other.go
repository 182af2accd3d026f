//go:build unix && !linux

package servertest

import (
	"errors"
	"os"
	"syscall"
)

func fastTempDir() string { return os.TempDir() }

// dieWithParent does nothing, because these systems can't send a signal to a child when its parent
// dies. The child stays in the terminal's process group instead, so that a Ctrl-C reaches it, too.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func mount(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }

func mayMount() *syscall.SysProcAttr { return nil } // the mount itself then fails
