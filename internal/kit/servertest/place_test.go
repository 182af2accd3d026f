//go:build nightly

// Only make nightly runs these tests: they are of a kit, and of nothing that is served.

package servertest

import (
	"net"
	"os/exec"
	"sync"
	"testing"
)

// A claimed port is free, also while processes are started.
func TestClaimedPortsAreFree(t *testing.T) {
	var starting sync.WaitGroup
	t.Cleanup(starting.Wait)
	for range 4 {
		starting.Go(func() {
			for t.Context().Err() == nil { // until the test ends
				_ = exec.Command("true").Run()
			}
		})
	}
	for range 100 {
		p, err := claim()
		need(t, err)
		l, err := net.Listen("tcp4", p.addr())
		need(t, err)
		_ = l.Close()
		closed(t, p.release())
	}
}
