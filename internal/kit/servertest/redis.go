package servertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/tools/ensure/locate"
)

// LongTimeouts is the query of a client's URL with timeouts long enough for a busy machine.
const LongTimeouts = "?read_timeout=30s&write_timeout=30s&dial_timeout=30s&pool_timeout=30s"

// RedisServer is a private redis-server.
type RedisServer struct {
	server
	env []string // in addition to this process's environment
}

// Redis starts a private Redis for one test, as [StartRedis] does, and closes it afterwards.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s, err := StartRedis(t.Context(), args...)
	return closeAfterTest(t, s, err)
}

// StartRedis starts a server and returns when it answers. The server keeps nothing on disk and
// evicts nothing, unless args, as on redis-server's command line, change that. ctx bounds the wait;
// without a deadline, [Patience] does. The error is a *locate.Missing if redis-server is not
// installed. The caller must Close the server.
func StartRedis(ctx context.Context, args ...string) (*RedisServer, error) {
	s, err := newRedis(args)
	if err != nil {
		return nil, err
	}
	return s, s.startOrClose(ctx)
}

// KeepRedis starts a server that loads the data in the directory dir, and returns when it answers.
// The server syncs its log to the disk each second. The data stay after Close.
func KeepRedis(ctx context.Context, dir string) (*RedisServer, error) {
	s, err := newRedis([]string{"--dir", dir, "--appendonly", "yes"})
	if err != nil {
		return nil, err
	}
	s.stopSignal = syscall.SIGTERM // at SIGTERM, Redis syncs the end of its log
	return s, s.startOrClose(ctx)
}

// newRedis returns a server that has its place, but is not started yet.
func newRedis(args []string) (*RedisServer, error) {
	program, err := locate.Redis.Find()
	if err != nil {
		return nil, err
	}
	place, err := claim()
	if err != nil {
		return nil, err
	}
	s := &RedisServer{server: server{place: place, stopSignal: syscall.SIGKILL}}
	s.probe = s.ping
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program, append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(place.port), "--dir", place.dir,
			"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
		}, args...)...)
		cmd.Env = append(os.Environ(), s.env...)
		return cmd
	}
	return s, nil
}

// URL returns redis://127.0.0.1:port/0. It stays the same through every stop and start.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() + "/0" }

// Client returns a client of the server, which is closed when the test ends.
func (s *RedisServer) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closeAfterTest(t, redis.NewClient(&redis.Options{Addr: s.Addr()}), nil)
}

// Pause freezes the server until Resume. The kernel still accepts connections for it, but the
// server answers nothing.
func (s *RedisServer) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause, and returns when the server answers.
func (s *RedisServer) Resume() error {
	if err := s.signal(syscall.SIGCONT); err != nil || s.PID() == 0 {
		return err
	}
	return await(context.Background(), s.process, s.probe)
}

// ping sends an inline PING. Any answer but -LOADING means that the server serves, for example
// -NOAUTH if args set a password.
func (s *RedisServer) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline() // await sets one
	_ = conn.SetDeadline(deadline)
	_, _ = conn.Write([]byte("PING\r\n")) // if that fails, there is no answer
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.HasPrefix(answer, "-LOADING") {
		err = fmt.Errorf("redis answers %q", strings.TrimSpace(answer))
	}
	return err
}
