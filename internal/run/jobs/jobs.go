// Package jobs runs periodic background work: retention, statistics, partitions, erasure, automatic
// pauses of prefixes, polls for receipts, and flushes of data that other packages collect in
// memory. internal/run/app/core builds the list of jobs. No send or check waits for a job.
package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
)

// Job is one kind of periodic work.
type Job struct {
	Name  string
	Every time.Duration
	// Run does the work, or a part of the work. If more is true, Run is called again after a tick.
	// Otherwise Run is called again after Every. Errors are logged and counted, and have no other
	// effect.
	Run func(ctx context.Context) (more bool, err error)
	// AtStop is true if the job runs once more when the process ends.
	AtStop bool
}

// DefaultTick is the shortest time between two runs of a job. A job that has more work to do runs
// again after this time.
const DefaultTick = 500 * time.Millisecond

// stopTimeout bounds the last runs of all jobs together, when the process ends.
const stopTimeout = 5 * time.Second

// Run starts each job in its own goroutine. Each job runs immediately, and then whenever the job is
// due, until ctx ends. Then Run runs the jobs with AtStop once more, one after another. If tick is
// 0, Run uses DefaultTick. observer may be nil.
func Run(ctx context.Context, table []Job, tick time.Duration, observer Observer, logger *slog.Logger) {
	if tick == 0 {
		tick = DefaultTick
	}
	var work sync.WaitGroup
	for _, j := range table {
		work.Go(func() { j.loop(ctx, tick, observer, logger) })
	}
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, j := range table {
		if j.AtStop {
			if _, err := j.runOnce(last); err != nil {
				logger.Warn("job failed", "job", j.Name, "error", err, logs.SeeJobs)
			}
		}
	}
}

// runOnce calls Run, and returns a panic as an error.
func (j Job) runOnce(ctx context.Context) (more bool, err error) {
	defer panics.Recover(panics.Job, func() { err = panics.Err })
	return j.Run(ctx)
}

func (j Job) loop(ctx context.Context, tick time.Duration, observer Observer, logger *slog.Logger) {
	failures := logs.Throttle{Every: failureLogInterval}
	for {
		more, err := j.runOnce(ctx)
		if ctx.Err() == nil {
			if err == nil {
				failures = logs.Throttle{Every: failureLogInterval} // the next failure is logged at once
			} else if _, due := failures.Add("", time.Now()); due {
				logger.Warn("job failed", "job", j.Name, "error", err, logs.SeeJobs)
			}
			if observer != nil {
				observer.JobRan(j.Name, err != nil)
			}
		}
		wait := max(j.Every, tick)
		if more {
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

// failureLogInterval is the shortest time between two log lines about failures of the same job,
// unless the job succeeds in between. While the database is unavailable, a job may fail at every
// tick.
const failureLogInterval = 10 * time.Minute

// InfallibleRun converts run to a Job.Run that returns no error and never reports that there is
// more work.
func InfallibleRun(run func(ctx context.Context)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { run(ctx); return false, nil }
}
