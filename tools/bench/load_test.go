//go:build nightly

package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one request: the number of its recipient, and when it was asked and answered.
type sample struct {
	n               int64
	asked, answered time.Time
}

// request is what a caller does again and again; it returns the number of its recipient, or
// errEnough where there is no more to ask.
type request func(*caller) (n int64, err error)

var errEnough = errors.New("there is no more to ask")

// shared has callers share a list.
func shared(list []opened, do func(*caller, *opened) error) request {
	var next atomic.Int64
	return func(c *caller) (int64, error) {
		i := int(next.Add(1)) - 1
		if i >= len(list) {
			return 0, errEnough
		}
		return list[i].n, do(c, &list[i])
	}
}

// quiet is how long what follows upon the last mail of a run may take.
const quiet = 50 * time.Millisecond

// send asks for a code for a recipient of its own.
func (b *rig) send(x *caller) (int64, error) {
	n := b.recipients.Add(1) - 1
	return n, x.must(http.StatusAccepted, sendPath, sendBody(recipient(n)))
}

// measure has callers make requests for a time, and returns what these cost. Those that send codes
// last until their mails are there.
func (b *rig) measure(c contender, callers int, length time.Duration, request request, mails bool) run {
	before := b.look(c)
	r := b.arrivals(b.ask(c, callers, length, request), mails)
	<-time.After(quiet)
	b.spent(c, before, &r)
	return r
}

// sends is measure of codes.
func (b *rig) sends(c contender, callers int, length time.Duration) run {
	return b.measure(c, callers, length, b.send, c.name != bareHTTP)
}

// ask has callers make requests of a contender, and ends the test if one fails.
func (b *rig) ask(c contender, callers int, length time.Duration, request request) []sample {
	b.Helper()
	samples, err := ask(b.Context(), c, callers, length, request)
	if err != nil {
		b.Fatalf("%s: %v", c.name, err)
	}
	return samples
}

// ask has callers make one request after the other for a time, or until there are no more.
func ask(ctx context.Context, c contender, callers int, length time.Duration, request request) ([]sample, error) {
	deadline := time.Now().Add(length)
	samples, failures := make([][]sample, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			x := caller{base: c.base}
			defer x.close()
			for ctx.Err() == nil && time.Now().Before(deadline) && failures[i] == nil {
				s := sample{asked: time.Now()}
				if s.n, failures[i] = request(&x); failures[i] == errEnough {
					failures[i] = nil
					return
				}
				s.answered = time.Now()
				samples[i] = append(samples[i], s)
			}
		})
	}
	all.Wait()
	return slices.Concat(samples...), errors.Join(append(failures, ctx.Err())...)
}

// arrivals makes a run of samples. Where each sent a mail, the samples have all recipients of a
// stretch, and their mails are waited for.
func (b *rig) arrivals(samples []sample, mails bool) (r run) {
	if len(samples) == 0 {
		b.Fatal("nothing was asked")
	}
	began, last, first, end := samples[0].asked, samples[0].answered, samples[0].n, samples[0].n
	for _, s := range samples {
		r.answers = append(r.answers, s.answered.Sub(s.asked))
		first, end = min(first, s.n), max(end, s.n)
		began, last = earliest(began, s.asked), latest(last, s.answered)
	}
	if mails {
		came, err := b.mails.collect(first, end+1)
		b.must(err)
		for _, s := range samples {
			at := came[s.n-first].at
			r.mails = append(r.mails, max(0, at.Sub(s.answered)))
			last = latest(last, at)
		}
	}
	r.sends, r.took = len(samples), last.Sub(began)
	return r
}

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func latest(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// paced asks for codes at a rate, at random instants, also when answers take long: the wait of a
// request begins when it was due. It returns how many were refused.
func (b *rig) paced(c contender, rate float64, length time.Duration) (samples []sample, refused int) {
	idle := make(chan *caller, 100_000)
	var mu sync.Mutex
	var failures []error
	var all sync.WaitGroup
	began := time.Now()
	pause := func() time.Duration { return time.Duration(rand.ExpFloat64() / rate * float64(time.Second)) }
	for due := began; due.Sub(began) < length; due = due.Add(pause()) {
		<-time.After(time.Until(due))
		n := b.recipients.Add(1) - 1
		all.Go(func() {
			x := &caller{base: c.base}
			select {
			case x = <-idle:
			default:
			}
			status, err := x.do(http.MethodPost, sendPath, sendBody(recipient(n)))
			s := sample{n: n, asked: due, answered: time.Now()}
			idle <- x
			mu.Lock()
			defer mu.Unlock()
			samples = append(samples, s)
			if err != nil {
				failures = append(failures, err)
			} else if status != http.StatusAccepted {
				refused++
			}
		})
	}
	all.Wait()
	for range len(idle) {
		(<-idle).close()
	}
	b.must(errors.Join(failures...))
	return samples, refused
}

// unitCallers is the number of callers at which costs are measured: 64, or the most there are.
func (b *rig) unitCallers() int {
	if slices.Contains(b.callers, 64) {
		return 64
	}
	return slices.Max(b.callers)
}
