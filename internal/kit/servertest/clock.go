package servertest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"sendcode/tools/ensure/locate"
)

// clockShim is the source of a library that moves the clock of a server. Redis has no setting for
// its clock, and no proxy can change the time that its scripts read. libfaketime can't change it
// either, because Redis's allocator, jemalloc, asks for the time while libfaketime is still
// starting.
//
//go:embed shim/clock.c
var clockShim string

// Clock is the wall clock of a server that [RedisWithClock] or [PostgresServer.SetUpClock] started.
type Clock struct{ file string }

// Set sets the clock ahead of the machine's clock by offset, or behind it if offset is negative.
// The running server reads the new time at once.
func (c *Clock) Set(offset time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())), 0)
	return errors.Join(err, file.Close())
}

// clockIn returns environment variables that give a server a wall clock which the test can set. It
// relies on LD_PRELOAD, so it skips the test on other systems than Linux.
func clockIn(t testing.TB, p *place) (env []string, clock *Clock) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a server with a clock of its own needs Linux")
	}
	source, library := p.write(t, "clock.c", clockShim), filepath.Join(p.dir, "clock.so")
	clock = &Clock{p.write(t, "clock", string(make([]byte, 8)))}
	if out, err := exec.CommandContext(t.Context(), mustFind(t, locate.Compiler), "-shared", "-fPIC", "-O2", "-o", library,
		source).CombinedOutput(); err != nil {
		t.Fatalf("the clock was not compiled: %v: %s", err, out)
	}
	return []string{"LD_PRELOAD=" + library, "SENDCODE_TEST_CLOCK=" + clock.file}, clock
}

// RedisWithClock starts a private Redis for one test with a wall clock that the test can set.
func RedisWithClock(t testing.TB, args ...string) (*RedisServer, *Clock) {
	t.Helper()
	s, err := newRedis(args)
	mustOrSkip(t, err)
	var clock *Clock
	s.env, clock = clockIn(t, s.place)
	return closeAfterTest(t, s, s.startOrClose(t.Context())), clock
}

// SetUpClock restarts the server with a wall clock that the test can set.
func (s *PostgresServer) SetUpClock(t testing.TB) (clock *Clock) {
	t.Helper()
	s.env, clock = clockIn(t, s.place)
	mustOrSkip(t, s.owner.give(clock.file))
	mustOrSkip(t, s.Restart())
	return clock
}
