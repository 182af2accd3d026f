package parts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/parts/locate"
)

// SentinelServer is a private Redis Sentinel that watches one primary, by the
// name main, and alone decides that it is down.
type SentinelServer struct {
	place   *place
	process *Process
}

// StartSentinel starts a Sentinel over the primary at addr and returns when it
// knows a replica of it that is in step. It notices within half a second that
// the primary is gone. The caller must Close it.
func StartSentinel(ctx context.Context, addr string) (*SentinelServer, error) {
	program, err := locate.Redis().Find()
	if err != nil {
		return nil, err
	}
	place, err := claim()
	if err != nil {
		return nil, err
	}
	s := &SentinelServer{place: place}
	if err := s.start(ctx, program, addr); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
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
	log, err := s.place.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, conf, "--sentinel")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.place.dir, log, log
	if s.process, err = Run(cmd); err != nil {
		return err
	}
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	if err := await(ctx, s.process, func(ctx context.Context) error { return s.knowsReplica(ctx, client) }); err != nil {
		return failed("redis-sentinel", err, s.place.logPath())
	}
	return nil
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

// Close stops the Sentinel and removes its directory.
func (s *SentinelServer) Close() error {
	if s.process != nil {
		s.process.Kill()
	}
	return s.place.release()
}

// Sentinel starts a Sentinel for one test, as [StartSentinel] does, and closes
// it afterwards.
func Sentinel(t testing.TB, addr string) *SentinelServer {
	t.Helper()
	s, err := StartSentinel(t.Context(), addr)
	need(t, err)
	t.Cleanup(func() { closed(t, s.Close()) })
	return s
}
