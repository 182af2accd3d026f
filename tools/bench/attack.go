package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/tools/bench/report"
)

// honestRate is how many requests a second, each for another recipient, go on whether there is an attack or not.
const honestRate = 100

// measureAttack measures how long honest requests wait, by turns with and without callers that ask for one recipient as often as
// they are answered. The attackers are a process of their own, on one processor.
func (b *rig) measureAttack(ctx context.Context, p plan, r *report.Results) error {
	service := b.contender(report.Ours)
	a := report.Attack{Attackers: p.attackers, Honest: honestRate}
	attacks := 0
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
			a.Quiet, a.Beside = append(a.Quiet, still...), append(a.Beside, under...)
			a.Refused, attacks = a.Refused+n+m, attacks+made
		}
	}
	a.Rate = float64(attacks) / (float64(p.rounds) * p.length.Seconds())
	r.Attack = a
	return nil
}

func (b *rig) honest(ctx context.Context, service contender, length time.Duration) (waits []time.Duration, refused int, err error) {
	samples, refused, err := b.paced(ctx, service, honestRate, length)
	for _, s := range samples {
		waits = append(waits, s.answered.Sub(s.asked))
	}
	return waits, refused, err
}

// attackCommand makes this program the attackers, until its input ends; then it prints how often they were answered.
const attackCommand = "attack"

// attack starts the attackers. What stops them says how many requests they made.
func (b *rig) attack(service contender, attackers int) (stop func() (int, error), err error) {
	cmd, err := self(attackCommand, service.base, strconv.Itoa(attackers))
	if err != nil {
		return nil, err
	}
	c, err := b.start("attackers", cmd)
	if err != nil {
		return nil, err
	}
	return func() (int, error) {
		if err := c.process.input.Close(); err != nil {
			return 0, err
		}
		said, err := io.ReadAll(c.process.output)
		c.process.ended = true
		if err := errors.Join(err, c.process.cmd.Wait()); err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(said)))
	}, nil
}

func attack(args []string) error {
	runtime.GOMAXPROCS(1)
	attackers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	fmt.Println("ready")
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
				_, failures[i] = c.send("victim@example.com")
				answered.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(answered.Load())
	return errors.Join(failures...)
}
