package servertest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	startTimeout  = time.Minute
	probeTimeout  = 2 * time.Second
	probeInterval = 10 * time.Millisecond
)

var errExited = errors.New("it ended")

// await probes a new server until it serves, ends, or the time is up. An answer
// counts only while our own process runs: it could be a stranger's.
func await(ctx context.Context, process *Process, probe func(context.Context) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
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
