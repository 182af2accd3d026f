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
	defer starting.Wait()
	ended := make(chan struct{})
	defer close(ended)
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	for range 100 {
		p, err := claim()
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp4", p.addr()); err != nil {
			t.Error(err)
		} else {
			_ = l.Close()
		}
		closed(t, p.release())
	}
}
