package servertest

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// server is a program in a place of its own that can be stopped and started again.
type server struct {
	place    *place
	launch   func(context.Context) (*Process, error)
	reporter func(error) // told of a failed Start; for tests

	mu      sync.Mutex
	process *Process // nil while stopped
}

// Addr is 127.0.0.1:port.
func (s *server) Addr() string { return s.place.addr() }

// Log is what the server has written about itself since it was made.
func (s *server) Log() string { return s.place.log() }

// PID is the id of the server's first process, 0 while it is stopped.
func (s *server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Start starts a stopped (or ended) server again, on the same port and directory, and returns when it answers.
func (s *server) Start() error {
	err := s.start(context.Background())
	if err != nil && s.reporter != nil {
		s.reporter(err)
	}
	return err
}

func (s *server) start(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && s.process.running() {
		return nil
	}
	s.process, err = s.launch(ctx)
	return err
}

// launch runs a server's program in its place, and returns when the probe succeeds. The kernel sends it the last signal when this process
// dies.
func (p *place) launch(ctx context.Context, cmd *exec.Cmd, last syscall.Signal, probe func(context.Context) error) (*Process, error) {
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // a server started again goes on in it
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	process, err := run(cmd, last)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, process, probe); err != nil {
		process.Kill()
		return nil, failed(cmd.Path, err, p.logPath())
	}
	return process, nil
}
