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

// Redis has no setting for its clock and nothing between it and us can change what its scripts
// read. libfaketime can't either: Redis's allocator, jemalloc, asks for the time while the library
// still starts. So this shim is compiled.
//
//go:embed shim/clock.c
var clockShim string

// Clock is the wall clock of a server of RedisWithClock.
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

// RedisWithClock starts a private Redis for one test with a wall clock that the test can set, which
// needs Linux, whose loader preloads.
func RedisWithClock(t testing.TB, args ...string) (*RedisServer, *Clock) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a server with a clock of its own needs Linux")
	}
	compiler := found(t, locate.Compiler)
	s, err := newRedis(args)
	need(t, err)
	source, library := s.place.write(t, "clock.c", clockShim), filepath.Join(s.place.dir, "clock.so")
	clock := &Clock{s.place.write(t, "clock", string(make([]byte, 8)))}
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O2", "-o", library,
		source).CombinedOutput(); err != nil {
		t.Fatalf("the clock was not compiled: %v: %s", err, out)
	}
	s.env = []string{"LD_PRELOAD=" + library, "SENDCODE_TEST_CLOCK=" + clock.file}
	return kept(t, s, s.first(t.Context())), clock
}
