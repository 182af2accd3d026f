// Package jobs runs what has to be done from time to time beside the requests: retention, counting of statistics, partitions,
// erasure, the watch over prefixes, polling of receipts, and what other packages gather in memory. Each job is one row of a table.
//
// It stands beside the way of a send and is on none: without it codes go out and are checked. internal/app puts the table together.
package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Job is one row of the table.
type Job struct {
	Name  string
	Every time.Duration
	// Run does the work, or a part of it. With again the next part is due at the next tick, not after Every.
	Run func(ctx context.Context) (again bool, err error)
	// AtStop has it run once more when the process ends.
	AtStop bool
}

// DefaultTick is the time between two parts of a job.
const DefaultTick = time.Second

// stopTimeout bounds the last runs when the process ends.
const stopTimeout = 5 * time.Second

// Run runs every job at once and then when it is due, each by itself and never twice at once, until ctx ends.
func Run(ctx context.Context, table []Job, tick time.Duration, logger *slog.Logger) {
	if tick == 0 {
		tick = DefaultTick
	}
	var work sync.WaitGroup
	for _, j := range table {
		work.Go(func() { j.loop(ctx, tick, logger) })
	}
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, j := range table {
		if j.AtStop {
			if _, err := j.Run(last); err != nil {
				logger.Warn("a job failed", "job", j.Name, "error", err)
			}
		}
	}
}

func (j Job) loop(ctx context.Context, tick time.Duration, logger *slog.Logger) {
	var failures failures
	for {
		again, err := j.Run(ctx)
		if ctx.Err() == nil {
			failures.note(j.Name, err, logger)
		}
		wait := max(j.Every, tick)
		if again {
			wait = tick
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// repeatAfter is how long the failures of a job are not logged again.
const repeatAfter = 10 * time.Minute

// failures logs that a job fails, and again only after a while: while the log is away, every job fails at every tick.
type failures struct{ logged time.Time }

func (f *failures) note(job string, err error, logger *slog.Logger) {
	switch {
	case err == nil:
		f.logged = time.Time{}
	case time.Since(f.logged) >= repeatAfter:
		f.logged = time.Now()
		logger.Warn("a job failed", "job", job, "error", err)
	}
}

// Simple is a Run that cannot fail and does everything at once.
func Simple(run func(ctx context.Context)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { run(ctx); return false, nil }
}
