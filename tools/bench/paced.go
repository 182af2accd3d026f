package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// paced asks at a rate, at random instants, also when answers take long: the wait of a request begins when it was due. It says how
// many were refused.
func (b *rig) paced(ctx context.Context, c contender, rate float64, length time.Duration) (samples []sample, refused int, err error) {
	idle := make(chan *caller, 100_000)
	var mu sync.Mutex
	var failures []error
	var all sync.WaitGroup
	began := time.Now()
	for due := began; ctx.Err() == nil && due.Sub(began) < length; due = due.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second))) {
		if wait := time.Until(due); wait > 0 {
			<-time.After(wait)
		}
		n := b.recipients.Add(1) - 1
		all.Go(func() {
			x := &caller{base: c.base}
			select {
			case x = <-idle:
			default:
			}
			status, err := x.send(recipient(n))
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
	return samples, refused, errors.Join(append(failures, ctx.Err())...)
}
