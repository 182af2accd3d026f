package servertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"sendcode/tools/ensure/locate"
)

// SentinelServer is a private Redis Sentinel that watches one primary under the name main.
type SentinelServer struct {
	*server
	client *redis.SentinelClient
}

// Sentinel starts a Sentinel over the primary at addr for one test, and closes it afterwards. It
// returns when the Sentinel knows a replica that has all data of the primary. The Sentinel promotes
// the replica only at the command SENTINEL FAILOVER, however long the primary does not answer.
func Sentinel(t testing.TB, addr string) *SentinelServer {
	t.Helper()
	s, program := newServer(t, locate.Redis, syscall.SIGKILL)
	conf := s.place.write(t, "sentinel.conf", fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s 1\n"+
		"sentinel down-after-milliseconds main 3600000\nsentinel failover-timeout main 60000\n", s.place.port, s.place.dir,
		strings.ReplaceAll(addr, ":", " "))) // the Sentinel also writes this file
	sentinel := &SentinelServer{s, closeAfterTest(t, redis.NewSentinelClient(&redis.Options{Addr: s.Addr()}), nil)}
	s.command = func() *exec.Cmd { return exec.Command(program, conf, "--sentinel") }
	s.probe = sentinel.CheckReplica
	return closeAfterTest(t, sentinel, s.startOrClose(t.Context()))
}

// CheckReplica returns nil if the Sentinel knows a replica that it can promote.
func (s *SentinelServer) CheckReplica(ctx context.Context) error {
	replicas, err := s.client.Replicas(ctx, "main").Result()
	if err == nil && (len(replicas) == 0 || replicas[0]["master-link-status"] != "ok" || replicas[0]["flags"] != "slave") {
		err = errors.New("no replica is in step")
	}
	return err
}

// TryFailover reports whether a server other than the one at addr is the primary. If the one at
// addr is, TryFailover asks the Sentinel to promote the replica.
func (s *SentinelServer) TryFailover(ctx context.Context, addr string) bool {
	now, err := s.client.GetMasterAddrByName(ctx, "main").Result()
	if err == nil && strings.Join(now, ":") == addr {
		_ = s.client.Failover(ctx, "main").Err() // refused during a promotion
		return false
	}
	return err == nil
}

// URL returns redis+sentinel://127.0.0.1:port/main/0.
func (s *SentinelServer) URL() string { return "redis+sentinel://" + s.Addr() + "/main/0" }
