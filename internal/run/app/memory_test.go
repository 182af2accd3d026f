package app

import (
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"sendcode/internal/kit/servertest"
)

// The runtime's memory limit follows the container's limit, unless the environment sets one. There
// is no ballast in a small container, or if the environment sets GOGC.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { ballast = nil; debug.SetMemoryLimit(before) })
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
	servertest.Same(t, "limit", debug.SetMemoryLimit(-1), 900_000_000_000)
	t.Setenv("GOGC", "100")
	ballast = nil
	TuneGC()
	servertest.Same(t, "ballast beside the environment's GOGC", len(ballast), 0)
}
