package parts

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func redisClient(t *testing.T, s *RedisServer) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestRedisStopsAndStartsOnTheSamePort(t *testing.T) {
	s := Redis(t)
	client, url, pid := redisClient(t, s), s.URL(), s.PID()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil || s.PID() != pid {
		t.Fatalf("starting a running server: pid %d, then %d, %v", pid, s.PID(), err)
	}
	s.Stop()
	s.Stop()
	if s.PID() != 0 || !gone(pid) {
		t.Error("the stopped server still runs")
	}
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("the stopped server answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("URL %s, then %s", url, s.URL())
	}
	if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("after a restart without persistence: %v, want redis.Nil", err)
	}
}

func TestRedisKeepsDataWhenAsked(t *testing.T) {
	s := Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := redisClient(t, s)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRedisDefaults(t *testing.T) {
	client := redisClient(t, Redis(t))
	for setting, want := range map[string]string{
		"maxmemory-policy": "noeviction", "save": "", "appendonly": "no", "bind": "127.0.0.1",
	} {
		if got, err := client.ConfigGet(t.Context(), setting).Result(); err != nil || got[setting] != want {
			t.Errorf("%s is %q, %v; want %q", setting, got[setting], err, want)
		}
	}
}

func TestRedisWithAPasswordIsReady(t *testing.T) {
	s := Redis(t, "--requirepass", "open sesame")
	if err := redisClient(t, s).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("ping without the password: %v", err)
	}
}

func TestTwoRedisAreApart(t *testing.T) {
	one, two := Redis(t), Redis(t)
	if err := redisClient(t, one).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := redisClient(t, two).DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("the other server has %d keys, %v", n, err)
	}
}

func TestRedisPauses(t *testing.T) {
	s := Redis(t)
	client := redisClient(t, s)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	do(t, s.Pause, s.Pause)
	awaitStopped(t, s.PID())
	if err := shortly(t, s.ping); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) { // the latter while it dials
		t.Errorf("the paused server: %v, want silence", err)
	}
	do(t, s.Resume, s.Resume)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a connection after the pause: %v", err)
	}
	do(t, s.Pause)
	s.Stop()
	do(t, s.Start)
	if err := s.ping(t.Context()); err != nil {
		t.Errorf("stopped while paused, started again: %v", err)
	}
}

func TestRedisThatCannotStartShowsItsLog(t *testing.T) {
	Redis(t) // skips where there is none
	_, err := StartRedis(t.Context(), "--no-such-setting", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error %v, want the server's complaint", err)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	Redis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := StartRedis(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("server %v, error %v", s, err)
	}
}

// A Redis that still reads its file listens already.
func TestRedisThatLoadsIsNotReady(t *testing.T) {
	for answer, ready := range map[string]bool{
		"+PONG\r\n":                            true,
		"-NOAUTH Authentication required.\r\n": true,
		"-LOADING Redis is loading the dataset in memory\r\n": false,
		"+PO": false, // and then silence
		"":    false,
	} {
		port := FreePort(t)
		s := &RedisServer{place: newPlace(t.TempDir(), port)}
		l, err := net.Listen("tcp4", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err == nil {
				io.WriteString(conn, answer)
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		if ready {
			err = s.ping(t.Context())
		} else {
			err = shortly(t, s.ping)
		}
		if (err == nil) != ready {
			t.Errorf("answer %q: %v, want ready: %v", answer, err, ready)
		}
		l.Close()
	}
}
