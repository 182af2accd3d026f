//go:build unix && !linux

package servertest

import (
	"errors"
	"os"
	"syscall"
)

func fastTempDir() string { return os.TempDir() }

// dieWithParent does nothing here: there is no such signal, so the child stays
// in the terminal's process group and a Ctrl-C reaches it as well.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func mount(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }

func mayMount() *syscall.SysProcAttr { return nil } // the process finds that it may not
