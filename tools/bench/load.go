package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sendcode/tools/bench/report"
)

// sample is one send: the number of its recipient, and when it was asked for and answered.
type sample struct {
	n               int64
	asked, answered time.Time
}

// quiet is how long what follows upon the last mail of a run may take.
const quiet = 50 * time.Millisecond

// measure has callers ask for one code after the other, each for a recipient of its own, for a time.
func (b *rig) measure(ctx context.Context, c contender, callers int, length time.Duration) (report.Run, error) {
	before, err := b.look(ctx, c)
	if err != nil {
		return report.Run{}, err
	}
	samples, err := b.load(ctx, c, callers, length)
	if err != nil {
		return report.Run{}, err
	}
	run, err := b.arrivals(ctx, c, samples)
	if err != nil {
		return run, err
	}
	<-time.After(quiet)
	err = b.spent(ctx, c, before, &run)
	return run, err
}

// load has callers send for a time, each code for a recipient of its own.
func (b *rig) load(ctx context.Context, c contender, callers int, length time.Duration) ([]sample, error) {
	return ask(ctx, c, callers, length, func(x *caller) (int64, error) {
		n := b.recipients.Add(1) - 1
		return n, x.mustSend(recipient(n))
	})
}

// ask has callers make one request after the other for a time. request returns the number of its recipient.
func ask(ctx context.Context, c contender, callers int, length time.Duration, request func(*caller) (int64, error)) ([]sample, error) {
	deadline := time.Now().Add(length)
	samples, failures := make([][]sample, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			x := caller{base: c.base}
			defer x.close()
			for ctx.Err() == nil && time.Now().Before(deadline) && failures[i] == nil {
				s := sample{asked: time.Now()}
				s.n, failures[i] = request(&x)
				s.answered = time.Now()
				samples[i] = append(samples[i], s)
			}
		})
	}
	all.Wait()
	return slices.Concat(samples...), errors.Join(append(failures, ctx.Err())...)
}

// arrivals waits for the mails of samples, which have all recipients of a stretch, and makes a run of both. Bare HTTP sends none.
func (b *rig) arrivals(_ context.Context, c contender, samples []sample) (run report.Run, err error) {
	if len(samples) == 0 {
		return run, errors.New("nothing was sent")
	}
	began, last := samples[0].asked, samples[0].answered
	first, end := samples[0].n, samples[0].n
	for _, s := range samples {
		run.Answers = append(run.Answers, s.answered.Sub(s.asked))
		first, end = min(first, s.n), max(end, s.n)
		began, last = earlier(began, s.asked), later(last, s.answered)
	}
	run.Sends = len(samples)
	if c.name != report.Bare {
		times, err := b.mails.times(first, end+1)
		if err != nil {
			return run, err
		}
		for _, s := range samples {
			at := time.Unix(0, times[s.n-first])
			run.Mails = append(run.Mails, max(0, at.Sub(s.answered)))
			last = later(last, at)
		}
	}
	run.Took = last.Sub(began)
	return run, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
