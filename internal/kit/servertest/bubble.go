package servertest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// bubbles counts the running bubbles, and keeps GOMAXPROCS as it was before the first of them.
var bubbles struct {
	sync.Mutex
	n, processors int
}

// Bubble calls synctest.Test. Under the race detector it uses one processor. If two timers of a
// bubble fire on two processors at the same time, they use one state of the detector, which
// sometimes crashes the process (golang.org/issue/78156).
func Bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if Raced {
		onOneProcessor(1)
		defer onOneProcessor(-1)
	}
	synctest.Test(t, test)
}

func onOneProcessor(delta int) {
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.n == 0 {
		bubbles.processors = runtime.GOMAXPROCS(1)
	}
	bubbles.n += delta
	if bubbles.n == 0 {
		runtime.GOMAXPROCS(bubbles.processors)
	}
}
