package servertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Patience is how long tests wait for an expected event. An idle machine needs seconds, but a busy
// one may need many times as long.
const Patience = 5 * time.Minute

const (
	probeTimeout  = 20 * time.Second
	probeInterval = 10 * time.Millisecond
)

// Await calls done every 20 ms until it returns true. It ends the test after [Patience].
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for late := time.After(Patience); !done(); {
		select {
		case <-poll.C:
		case <-late:
			t.Fatalf("waited %v for %s", Patience, what)
		}
	}
}

var errExited = errors.New("it ended")

// await probes a server until the server answers or ends, or until ctx ends. If ctx has no
// deadline, Patience bounds the wait. An answer counts only while our own process runs. Otherwise
// it could come from another program on the same port.
func await(ctx context.Context, process *Process, probe func(context.Context) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience)
		defer cancel()
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		err := probe(attempt)
		cancel()
		if err == nil && process.running() {
			return nil
		}
		select {
		case <-process.done:
			return fmt.Errorf("%w (%v)", errExited, process.err)
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
