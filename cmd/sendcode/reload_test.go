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

// SIGHUP makes the whole program read its configuration again. A mistake in the file is logged, and
// does not end the program.
func TestSIGHUPReadsTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	servertest.OK(t, os.WriteFile(file, []byte("retention: 2160h\n"), 0o600))
	cmd := newProcess(t, "SENDCODE_CONFIG="+file)
	log, err := cmd.StderrPipe()
	servertest.OK(t, err)
	out := startProcess(t, cmd)
	servertest.OK(t, os.WriteFile(file, []byte("retention: nothing\n"), 0o600))
	servertest.OK(t, cmd.Process.Signal(syscall.SIGHUP))
	lines := bufio.NewReader(log)
	awaitLine(t, lines, "configuration reload rejected")
	servertest.OK(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, io.MultiReader(lines, out))
	servertest.OK(t, cmd.Wait())
}

// At a terminal, SIGHUP means that the terminal was closed, so the program does not catch it.
func TestSIGHUPAtATerminalEndsTheProgram(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		reload, stop := program{terminal: terminal}.reloadOnHangup()
		stop()
		if reload.Environ == nil || (reload.Hangup == nil) != terminal {
			t.Errorf("terminal %v: %+v", terminal, reload)
		}
	}
}
