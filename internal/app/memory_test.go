package app

import (
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The runtime is told of the limit, unless the environment says one.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	gc := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(before); debug.SetGCPercent(gc) })
	tuneRuntime(func(string) string { return "" }, func() (uint64, error) { return 0, memlimit.ErrNoLimit })
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("outside of a container the limit is %d", got)
	}
	container := func() (uint64, error) { return 1_000_000_000_000, nil }
	tuneRuntime(func(string) string { return "8TiB" }, container)
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT the limit is %d", got)
	}
	tuneRuntime(func(string) string { return "" }, container)
	if got := debug.SetMemoryLimit(-1); got != 900_000_000_000 {
		t.Errorf("the limit is %d", got)
	}
	if got := debug.SetGCPercent(100); got != collectAt {
		t.Errorf("GOGC is %d", got)
	}
}
