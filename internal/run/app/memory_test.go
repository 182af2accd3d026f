package app

import (
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The runtime keeps within the container, and the heap within two and a half times what is in use, unless
// the environment says otherwise.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before, gc := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(before); debug.SetGCPercent(gc) })
	t.Setenv("GOGC", "")
	TuneGC(memlimit.WithProvider(memlimit.Limit(1_000_000_000_000)))
	t.Setenv("GOMEMLIMIT", "8TiB")
	TuneGC(memlimit.WithProvider(memlimit.Limit(5_000_000_000)))
	if limit, gc := debug.SetMemoryLimit(-1), debug.SetGCPercent(100); limit != 900_000_000_000 || gc != 150 {
		t.Errorf("the limit is %d, GOGC %d", limit, gc)
	}
	t.Setenv("GOGC", "100")
	if TuneGC(); debug.SetGCPercent(100) != 100 {
		t.Error("the environment's GOGC does not hold")
	}
}
