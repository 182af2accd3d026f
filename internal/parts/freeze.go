package parts

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// freeze is a stopped family of processes. A stopped process does not notice
// that its parent is gone, so a shell waits beside it for the end of its input,
// which comes with resume and with our own death, and then wakes the family.
type freeze struct {
	shell *exec.Cmd
	input io.WriteCloser
}

const wake = `pids=; while read -r pid; do pids="$pids $pid"; done; kill -CONT $pids 2>/dev/null; true`

func startFreeze() (*freeze, error) {
	shell := exec.Command("sh", "-c", wake)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // outlives a Ctrl-C
	input, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &freeze{shell, input}, shell.Start()
}

// stop tells the shell first: whatever was stopped will be woken.
func (f *freeze) stop(pid int) error {
	if _, err := fmt.Fprintln(f.input, pid); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (f *freeze) resume() error { return errors.Join(f.input.Close(), f.shell.Wait()) }

// Pause freezes the server with all its children, so that open connections
// fall silent and new ones get no answer until Resume. (The parent first: it
// can then have no new children. They are in sessions of their own, out of
// reach of a signal to its group.)
func (s *PostgresServer) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.frozen != nil {
		return nil
	}
	f, err := startFreeze()
	if err != nil {
		return err
	}
	s.frozen = f
	parent := s.process.PID()
	if err := f.stop(parent); err != nil {
		return errors.Join(err, s.thaw())
	}
	family, err := children(parent)
	if err != nil {
		return errors.Join(err, s.thaw())
	}
	for _, pid := range family {
		if err := f.stop(pid); err != nil {
			return errors.Join(err, s.thaw())
		}
	}
	return nil
}

// Resume ends a Pause.
func (s *PostgresServer) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thaw()
}

func (s *PostgresServer) thaw() error {
	if s.frozen == nil {
		return nil
	}
	err := s.frozen.resume()
	s.frozen = nil
	return err
}
