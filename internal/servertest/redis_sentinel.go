package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/servertest/locate"
)

// SentinelServer is a private Redis Sentinel that watches one primary, by the
// name main, and alone decides that it is down.
type SentinelServer struct {
	place   *place
	process *Process
}

// Sentinel starts a Sentinel over the primary at addr for one test, and closes it afterwards. It returns when the Sentinel knows a replica
// that is in step. The Sentinel notices within half a second that the primary is gone.
func Sentinel(t testing.TB, addr string) *SentinelServer {
	t.Helper()
	program, err := locate.Redis().Find()
	need(t, err)
	place, err := claim()
	need(t, err)
	s := &SentinelServer{place: place}
	t.Cleanup(func() { closed(t, s.close()) })
	need(t, s.start(t.Context(), program, addr))
	return s
}

func (s *SentinelServer) start(ctx context.Context, program, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	conf := filepath.Join(s.place.dir, "sentinel.conf") // which it writes, too
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s 1\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n", s.place.port, s.place.dir, host, port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	s.process, err = s.place.launch(ctx, exec.Command(program, conf, "--sentinel"), syscall.SIGKILL, func(ctx context.Context) error {
		return s.knowsReplica(ctx, client)
	})
	return err
}

func (s *SentinelServer) knowsReplica(ctx context.Context, client *redis.SentinelClient) error {
	replicas, err := client.Replicas(ctx, "main").Result()
	if err == nil && (len(replicas) == 0 || replicas[0]["master-link-status"] != "ok") {
		err = errors.New("no replica is in step")
	}
	return err
}

// Addr is 127.0.0.1:port.
func (s *SentinelServer) Addr() string { return s.place.addr() }

// URL is redis+sentinel:// with the name and database 0.
func (s *SentinelServer) URL() string { return "redis+sentinel://" + s.Addr() + "/main/0" }

func (s *SentinelServer) close() error {
	if s.process != nil {
		s.process.Kill()
	}
	return s.place.release()
}
