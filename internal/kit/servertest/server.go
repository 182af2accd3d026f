package servertest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"sendcode/tools/ensure/locate"
)

// server is a program in its own place that can be stopped and started again. Its methods may be
// called from any goroutine. A method does nothing if the server is already in the requested state.
type server struct {
	place      *place
	command    func() *exec.Cmd
	stopSignal syscall.Signal              // signal that ends the server at once; the kernel also sends it when this process dies
	probe      func(context.Context) error // returns nil once the server serves

	mu      sync.Mutex
	process *Process // nil while stopped
}

// Addr returns 127.0.0.1:port.
func (s *server) Addr() string { return s.place.addr() }

// Log returns what the server has written to its log since it was made.
func (s *server) Log() string {
	text, _ := os.ReadFile(s.place.logPath()) // no log yet is an empty log
	return string(text)
}

// PID returns the ID of the server's first process; 0 while the server is stopped.
func (s *server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Start starts a stopped (or ended) server again, on the same port and directory, and returns when
// the server answers.
func (s *server) Start() error { return s.start(context.Background()) }

func (s *server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && s.process.running() {
		return nil
	}
	// a restarted server continues the same log
	log, err := os.OpenFile(s.place.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command()
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.place.dir, log, log
	if s.process, err = startProcess(cmd, s.stopSignal); err != nil {
		return err
	}
	if err := await(ctx, s.process, s.probe); err != nil {
		s.process.Kill()
		s.process = nil
		return startError(cmd.Path, err, s.place.logPath())
	}
	return nil
}

// Stop ends the server at once, as a crash does, and waits for its end. Data that are not on the
// disk are lost, and clients are cut off.
func (s *server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	s.process.End(s.stopSignal, Patience)
	s.process = nil
}

func (s *server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return s.process.Signal(sig)
}

// Restart calls Stop and Start.
func (s *server) Restart() error {
	s.Stop()
	return s.Start()
}

// Close stops the server and removes its directory.
func (s *server) Close() error {
	s.Stop()
	return s.place.release()
}

// newServer returns the server of a program that a test needs. The server is not started yet. For
// stopSignal, see server.
func newServer(t testing.TB, part locate.Part, stopSignal syscall.Signal) (s *server, program string) {
	t.Helper()
	program = mustFind(t, part)
	place, err := claim()
	mustOrSkip(t, err)
	return &server{place: place, stopSignal: stopSignal}, program
}

// startOrClose starts a new server. If it does not start, first removes it.
func (s *server) startOrClose(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// closeAfterTest ends the test if err is not nil. Otherwise it closes s after the test, and returns
// it.
func closeAfterTest[S io.Closer](t testing.TB, s S, err error) S {
	t.Helper()
	mustOrSkip(t, err)
	t.Cleanup(func() { reportError(t, s.Close()) })
	return s
}
