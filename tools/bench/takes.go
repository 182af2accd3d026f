package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"sendcode/tools/bench/report"
)

// limitSettings are the only ones that a measured service has in its file: a limit that refuses nothing here.
const limitSettings = "limits: {user: [{name: minute, key: user, limit: 100000, window: 60s}]}\n"

// limitUsers share the takes.
const limitUsers = 10_000

// writeLimit makes the file of the measured services.
func (b *rig) writeLimit() (file string, err error) {
	file = b.path("limits.yaml")
	return file, os.WriteFile(file, []byte(limitSettings), 0o600)
}

// measureTakes has takes of a limit, decided in Redis, and bare HTTP take turns. The first round warms them up and does not count.
func (b *rig) measureTakes(ctx context.Context, p plan, r *report.Results) error {
	callers := unitCallers(p.callers)
	if len(b.contenders) == 0 {
		if err := b.startAll(ctx); err != nil {
			return err
		}
	}
	r.Takes = report.Board{}
	var taken atomic.Int64
	requests := map[string]func(*caller) (int64, error){
		report.Ours: func(c *caller) (int64, error) {
			status, err := c.do(http.MethodPost, "/v1/limits/user/take", fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d: %s", status, c.body)
			}
			return 0, err
		},
		report.Bare: func(c *caller) (int64, error) { return 0, c.mustSend(recipient(firstRecipient)) },
	}
	for round := range p.rounds + 1 {
		for _, name := range []string{report.Ours, report.Bare, report.Ours}[round%2:][:2] {
			run, err := b.asks(ctx, b.contender(name), callers, p.length, requests[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if round > 0 {
				r.Takes.Add(name, callers, run)
			}
		}
	}
	return nil
}

// asks measures callers that make one request after the other for a time.
func (b *rig) asks(ctx context.Context, of contender, callers int, length time.Duration, request func(*caller) (int64, error)) (run report.Run, err error) {
	before, err := b.look(ctx, of)
	if err != nil {
		return run, err
	}
	began := time.Now()
	samples, err := ask(ctx, of, callers, length, request)
	run.Took, run.Sends = time.Since(began), len(samples)
	for _, s := range samples {
		run.Answers = append(run.Answers, s.answered.Sub(s.asked))
	}
	return run, errors.Join(err, b.spent(ctx, of, before, &run))
}
