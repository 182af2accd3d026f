package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/jobs"
)

// counter is a job that records when it ran.
type counter struct {
	runs  []time.Duration // times since the first run
	began time.Time
	again int // number of runs that ask for another one
	fails bool
	panic bool
}

func (c *counter) run(context.Context) (bool, error) {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	c.runs = append(c.runs, time.Since(c.began))
	if c.panic {
		panic("planted")
	}
	if c.fails {
		return false, errors.New("down for a test")
	}
	return len(c.runs) <= c.again, nil
}

func during(d time.Duration, table []jobs.Job, observer jobs.Observer, logger *slog.Logger) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); jobs.Run(ctx, table, 0, observer, logger) }()
	time.Sleep(d)
	synctest.Wait()
	stop()
	<-done
}

// Run runs each job at once, then at the next tick if the job has more to do, or else after its
// interval. It runs a job with AtStop once more at the end.
func TestJobsRunWhenTheyAreDue(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		seldom, busy, last := &counter{}, &counter{again: 2}, &counter{panic: true}
		during(90*time.Second, []jobs.Job{
			{Name: "seldom", Every: time.Minute, Run: seldom.run},
			{Name: "busy", Every: time.Minute, Run: busy.run},
			{Name: "last", Every: time.Hour, Run: last.run, AtStop: true},
		}, nil, slog.New(slog.DiscardHandler))
		got := fmt.Sprint("seldom ", seldom.runs, ", busy ", busy.runs, ", last ", last.runs)
		servertest.Same(t, "runs", got, "seldom [0s 1m0s], busy [0s 500ms 1s 1m1s], last [0s 1m30s]")
	})
}

// A job that hangs delays no other job, and ends with its context.
func TestRunJobThatHangsDelaysNoOther(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		other := &counter{}
		hangs := func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
		during(10*time.Second, []jobs.Job{{Name: "hangs", Run: hangs}, {Name: "other", Run: other.run}}, nil, slog.New(slog.DiscardHandler))
		servertest.Same(t, "runs", len(other.runs), 21)
	})
}

// ran counts the runs of jobs, as metrics do.
type ran struct{ runs, failed map[string]int }

func (r ran) PrefixPaused(string, string) {}

func (r ran) JobRan(job string, failed bool) {
	r.runs[job]++
	if failed {
		r.failed[job]++
	}
}

// While the database is unavailable, the log has one line for each job in ten minutes, not one for
// each tick. Each failure is counted.
func TestAFailureIsLoggedOnceInAWhile(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		printed := &servertest.Text{}
		job := &counter{fails: true}
		observed := ran{map[string]int{}, map[string]int{}}
		during(25*time.Minute, []jobs.Job{{Name: "receipts", Run: job.run}}, observed, slog.New(slog.NewTextHandler(printed, nil)))
		servertest.Same(t, "counted runs", observed.runs["receipts"], len(job.runs))
		servertest.Same(t, "counted failures", observed.failed["receipts"], len(job.runs))
		if n := strings.Count(printed.String(), `msg="job failed" job=receipts`); n != 3 || len(job.runs) < 1500 {
			t.Errorf("%d lines of %d runs: %s", n, len(job.runs), printed)
		}
	})
}
