//go:build unix && !linux

package servertest

import (
	"os"
	"syscall"
)

func fastTempDir() string { return os.TempDir() }

// dieWithParent does nothing here: there is no such signal, so the child stays
// in the terminal's process group and a Ctrl-C reaches it as well.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
