package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// honestRate is how many requests a second, each for somebody else, go on whether there is an attack or not.
const honestRate = 100

// isolate measures how long honest requests wait, in turn with and without somebody who asks for one recipient as often
// as there is an answer. The attackers are a process of their own, on one processor.
func (b *rig) isolate(ctx context.Context, out io.Writer, service contender, p plan) error {
	var quiet, attacked []result
	refused, attacks := 0, 0
	for round := range p.rounds + 1 { // the first one warms up
		still, n, err := b.honest(ctx, service, p.length)
		if err != nil {
			return err
		}
		stop, err := b.attack(service, p.attackers)
		if err != nil {
			return err
		}
		under, m, err := b.honest(ctx, service, p.length)
		made, stopped := stop()
		if err := errors.Join(err, stopped); err != nil {
			return err
		}
		if round > 0 {
			quiet, attacked = append(quiet, result{answers: still}), append(attacked, result{answers: under})
			refused, attacks = refused+n+m, attacks+made
		}
	}
	rate := float64(attacks) / (float64(p.rounds) * p.length.Seconds())
	fmt.Fprintf(out, "\nIsolation: %d honest requests/s, each for somebody else, beside %d attackers on one recipient (%.0f requests/s)\n",
		honestRate, p.attackers, rate)
	fmt.Fprintf(out, "             quiet    attacked  ratio\n")
	for _, q := range []float64{.5, .99} {
		still, under := quantile(quiet, q), quantile(attacked, q)
		fmt.Fprintf(out, "  p%-4.0f %11s %11s  %5.2f\n", q*100, ms(still), ms(under), float64(under)/float64(still))
	}
	fmt.Fprintf(out, "  %d honest requests refused\n", refused)
	return nil
}

// honest asks at a fixed rate, also when answers take long: a request's wait begins when it was due.
func (b *rig) honest(ctx context.Context, service contender, length time.Duration) (waits []time.Duration, refused int, err error) {
	idle := make(chan *caller, honestRate*int(settle/time.Second))
	var mu sync.Mutex
	var failures []error
	var all sync.WaitGroup
	began := time.Now()
	for n := 0; ctx.Err() == nil && time.Since(began) < length; n++ {
		due := began.Add(time.Duration(n) * time.Second / honestRate)
		<-time.After(time.Until(due))
		all.Go(func() {
			c := &caller{base: service.base}
			select {
			case c = <-idle:
			default:
			}
			status, _, err := c.askFor(fmt.Sprintf("someone-%d@example.com", b.recipients.Add(1)))
			wait := time.Since(due)
			idle <- c
			mu.Lock()
			defer mu.Unlock()
			if waits = append(waits, wait); err != nil {
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
	return waits, refused, errors.Join(append(failures, ctx.Err())...)
}

// attackCommand makes this program the attackers, until its input ends; then it prints how often they were answered.
const attackCommand = "attack"

// attack starts the attackers. What stops them says how many requests they made.
func (b *rig) attack(service contender, attackers int) (stop func() (int, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, attackCommand, service.base, strconv.Itoa(attackers))
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (int, error) {
		if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(said.String()))
	}, nil
}

func attack(args []string) error {
	runtime.GOMAXPROCS(1)
	attackers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		close(ended)
	}()
	var answered atomic.Int64
	failures := make([]error, attackers)
	var all sync.WaitGroup
	for i := range attackers {
		all.Go(func() {
			c := caller{base: args[0]}
			defer c.close()
			for failures[i] == nil {
				select {
				case <-ended:
					return
				default:
				}
				_, _, failures[i] = c.askFor("victim@example.com")
				answered.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(answered.Load())
	return errors.Join(failures...)
}
