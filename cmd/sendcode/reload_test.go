package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"sendcode/internal/kit/servertest"
)

// SIGHUP has the program itself read its configuration again: a faulty file is logged, and does not
// end it.
func TestSIGHUPReadsTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	servertest.OK(t, os.WriteFile(file, []byte("retention: 2160h\n"), 0o600))
	cmd := process(t, "SENDCODE_CONFIG="+file)
	log, err := cmd.StderrPipe()
	servertest.OK(t, err)
	out := running(t, cmd)
	servertest.OK(t, os.WriteFile(file, []byte("retention: nothing\n"), 0o600))
	servertest.OK(t, cmd.Process.Signal(syscall.SIGHUP))
	lines := bufio.NewReader(log)
	said(t, lines, "configuration reload rejected")
	servertest.OK(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, io.MultiReader(lines, out))
	servertest.OK(t, cmd.Wait())
}

// At a terminal SIGHUP says that it was closed: nothing catches it there.
func TestATerminalThatClosesEndsTheProgram(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		reload, stop := program{terminal: terminal}.reloadOnHangup()
		stop()
		if reload.Environ == nil || (reload.Hangup == nil) != terminal {
			t.Errorf("terminal %v: %+v", terminal, reload)
		}
	}
}
