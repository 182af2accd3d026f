package app

import (
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The runtime keeps within the container, and the heap within two and a half times what is in use
// with the ballast, unless the environment says otherwise. A small container has no room for the
// ballast.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before, gc := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() { ballast = nil; debug.SetMemoryLimit(before); debug.SetGCPercent(gc) })
	t.Setenv("GOGC", "")
	for _, c := range []struct {
		container uint64
		ballast   int
	}{{400 << 20, 0}, {1_000_000_000_000, ballastSize}} {
		ballast = nil
		if TuneGC(memlimit.WithProvider(memlimit.Limit(c.container))); len(ballast) != c.ballast {
			t.Errorf("a container of %d bytes has a ballast of %d", c.container, len(ballast))
		}
	}
	t.Setenv("GOMEMLIMIT", "8TiB")
	TuneGC(memlimit.WithProvider(memlimit.Limit(5_000_000_000)))
	if limit, gc := debug.SetMemoryLimit(-1), debug.SetGCPercent(100); limit != 900_000_000_000 || gc != 150 {
		t.Errorf("the limit is %d, GOGC %d", limit, gc)
	}
	t.Setenv("GOGC", "100")
	ballast = nil
	if TuneGC(); debug.SetGCPercent(100) != 100 || ballast != nil {
		t.Error("the environment's GOGC does not hold")
	}
}
