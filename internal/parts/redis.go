package parts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"sendcode/internal/parts/locate"
)

// RedisServer is a private redis-server. Its methods may be called from any
// goroutine; each does nothing where the server is already as asked.
type RedisServer struct {
	place    *place
	program  string
	args     []string
	env      []string    // beside this process's own
	reporter func(error) // told of a failed Start; for tests

	mu      sync.Mutex
	process *Process // nil while stopped
}

// StartRedis starts a server and returns when it answers. It keeps nothing on
// disk and evicts nothing, unless args, as on redis-server's command line, say
// otherwise. ctx bounds the wait (a minute where it has no deadline). The error is a
// *locate.Missing where redis-server is not installed. The caller must Close it.
func StartRedis(ctx context.Context, args ...string) (*RedisServer, error) {
	s, err := newRedis(args)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.place.release())
	}
	return s, nil
}

// newRedis claims a place for a server.
func newRedis(args []string) (*RedisServer, error) {
	program, err := locate.Redis().Find()
	if err != nil {
		return nil, err
	}
	place, err := claim()
	if err != nil {
		return nil, err
	}
	return &RedisServer{place: place, program: program, args: args}, nil
}

// URL is redis://127.0.0.1:port/0; the same through every stop and start.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() + "/0" }

// Addr is 127.0.0.1:port.
func (s *RedisServer) Addr() string { return s.place.addr() }

// Dir is the server's working directory, where SAVE puts dump.rdb.
func (s *RedisServer) Dir() string { return s.place.dir }

// Log is what the server has written about itself since it was made.
func (s *RedisServer) Log() string { return s.place.log() }

// PID is the server's process id, 0 while it is stopped.
func (s *RedisServer) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Stop kills the server with SIGKILL and waits: what was not on disk is lost.
func (s *RedisServer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Start starts a stopped (or ended) server again, on the same port and
// directory, and returns when it answers.
func (s *RedisServer) Start() error {
	err := s.start(context.Background())
	if err != nil && s.reporter != nil {
		s.reporter(err)
	}
	return err
}

// Pause freezes the server: it accepts connections, as the kernel does for it,
// and answers nothing until Resume.
func (s *RedisServer) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *RedisServer) Resume() error { return s.signal(syscall.SIGCONT) }

// Close stops the server and removes its directory.
func (s *RedisServer) Close() error {
	s.Stop()
	return s.place.release()
}

func (s *RedisServer) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return s.process.Signal(sig)
}

func (s *RedisServer) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && s.process.running() {
		return nil
	}
	s.process = nil
	log, err := s.place.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.program, append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.place.port), "--dir", s.place.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
	}, s.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.place.dir, log, log
	cmd.Env = append(os.Environ(), s.env...)
	process, err := Run(cmd)
	if err != nil {
		return err
	}
	if err := await(ctx, process, s.ping); err != nil {
		process.Kill()
		return failed("redis-server", err, s.place.logPath())
	}
	s.process = process
	return nil
}

// ping is an inline PING. Any answer but -LOADING means that the server serves;
// -NOAUTH, for one, where args set a password.
func (s *RedisServer) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(answer, "-LOADING") {
		return fmt.Errorf("redis answers %q", strings.TrimSpace(answer))
	}
	return nil
}
