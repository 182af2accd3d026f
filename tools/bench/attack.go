package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// honestRate is how many requests a second, each for another recipient, go on whether there is an attack or not.
const honestRate = 100

// measureAttack measures how long honest requests wait, by turns with and without callers that ask for one recipient as often as
// they are answered. The attackers are a process of their own, on one processor.
func (b *rig) measureAttack(ctx context.Context, p plan) (string, error) {
	service := b.contender(ours)
	var quiet, beside []time.Duration
	refusals, attacks := 0, 0
	honest := func(waits *[]time.Duration) error {
		samples, refused, err := b.paced(ctx, service, honestRate, p.length)
		refusals += refused
		for _, s := range samples {
			*waits = append(*waits, s.answered.Sub(s.asked))
		}
		return err
	}
	for range p.rounds {
		if err := honest(&quiet); err != nil {
			return "", err
		}
		cmd, err := self(attackCommand, service.base, strconv.Itoa(p.attackers))
		if err != nil {
			return "", err
		}
		attackers, err := b.start("attackers", cmd)
		if err != nil {
			return "", err
		}
		err = honest(&beside)
		said, ended := attackers.process.end()
		made, unread := strconv.Atoi(strings.TrimSpace(string(said)))
		if err := errors.Join(err, ended, unread); err != nil {
			return "", err
		}
		attacks += made
	}
	b.goals.most("honest requests refused beside an attack", 0, float64(refusals), "")
	b.goals.most("honest p99 beside an attack ÷ quiet", 2, quantile(.99, beside)/quantile(.99, quiet), "")
	return fmt.Sprintf("%d honest requests a second for different recipients, beside %d callers that request codes for one recipient without "+
		"pause (%s requests/s). %d honest requests were refused. Their 202: p50 %.2f ms quiet and %.2f ms attacked, p99 %.2f ms quiet and "+
		"%.2f ms attacked.\n", honestRate, p.attackers, number(float64(attacks)/(float64(p.rounds)*p.length.Seconds())), refusals,
		quantile(.5, quiet), quantile(.5, beside), quantile(.99, quiet), quantile(.99, beside)), nil
}

// attackCommand makes this program the attackers, until its input ends; then it prints how often they were answered.
const attackCommand = "attack"

func attack(args []string) error {
	runtime.GOMAXPROCS(1)
	attackers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var ended atomic.Bool
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		ended.Store(true)
	}()
	samples, err := ask(context.Background(), contender{base: args[0]}, attackers, 24*time.Hour, func(c *caller) (int64, error) {
		if ended.Load() {
			return 0, errEnough
		}
		_, err := c.send("victim@example.com")
		return 0, err
	})
	fmt.Println(len(samples))
	return err
}
