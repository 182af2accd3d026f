package servertest

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"sendcode/internal/servertest/locate"
)

// Redis has no setting for its clock and nothing between it and us can change what its scripts read. libfaketime can't
// either: Redis's allocator, jemalloc, asks for the time while the library still starts. So this shim is compiled.
//
//go:embed shim/clock.c
var clockShim []byte

// Clock is the wall clock of a server that StartRedisWithClock started.
type Clock struct{ file string }

// Set puts the clock ahead of the machine's by offset, or behind it, at once.
func (c *Clock) Set(offset time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())), 0)
	return errors.Join(err, file.Close())
}

// errNoShim says that a wall clock of its own needs Linux, whose loader preloads.
var errNoShim = errors.New("a server with a clock of its own needs Linux")

// StartRedisWithClock is StartRedis with a wall clock that can be set. The error is also a *locate.Missing where there is
// no C compiler.
func StartRedisWithClock(ctx context.Context, args ...string) (*RedisServer, *Clock, error) {
	if runtime.GOOS != "linux" {
		return nil, nil, errNoShim
	}
	compiler, err := locate.Compiler().Find()
	if err != nil {
		return nil, nil, err
	}
	s, err := newRedis(args)
	if err != nil {
		return nil, nil, err
	}
	clock, err := s.preload(ctx, compiler)
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.place.release())
	}
	return s, clock, nil
}

// preload compiles the shim into the server's directory and has the server load it.
func (s *RedisServer) preload(ctx context.Context, compiler string) (*Clock, error) {
	source, library := filepath.Join(s.Dir(), "clock.c"), filepath.Join(s.Dir(), "clock.so")
	clock := &Clock{filepath.Join(s.Dir(), "clock")}
	if err := errors.Join(os.WriteFile(source, clockShim, 0o600), os.WriteFile(clock.file, make([]byte, 8), 0o600)); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the clock was not compiled: %w: %s", err, out)
	}
	s.env = []string{"LD_PRELOAD=" + library, "SENDCODE_TEST_CLOCK=" + clock.file}
	return clock, nil
}
