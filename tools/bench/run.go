package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sendcode/tools/bench/report"
)

// step is one part of a bench.
type step struct {
	name   string
	wanted bool
	run    func(context.Context, plan, *report.Results) error
}

// run does what the plan asks for.
func (b *rig) run(ctx context.Context, p plan) (r report.Results, err error) {
	if r, err = b.describe(ctx, p); err != nil {
		return r, err
	}
	alone := len(p.rows) > 0 || len(p.admin) > 0 || p.hour > 0 || p.takes
	for _, s := range []step{
		{"rows", len(p.rows) > 0, b.measureRows},
		{"administrators", len(p.admin) > 0, b.measureAdmin},
		{"an hour", p.hour > 0, b.measureHour},
		{"start", !alone, b.measureStart},
		{"sends", !alone, b.measureSends},
		{"round trips", !alone, b.measureTrips},
		{"half the rate", !alone, b.measureHalf},
		{"other requests", !alone, b.measureOthers},
		{"takes", !alone || p.takes, b.measureTakes},
		{"attack", !alone && p.attackers > 0, b.measureAttack},
		{"memory", !alone, b.measureMemory},
		{"a minute", !alone && p.level > 0, b.measureLevel},
		{"limiter", !alone && p.limiter, b.measureLimiter},
		{"profile", !alone && p.profile, b.explain},
	} {
		if !s.wanted {
			continue
		}
		began := time.Now()
		if err := s.run(ctx, p, &r); err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(b.progress, "%s: %.0f s\n", s.name, time.Since(began).Seconds())
	}
	return r, nil
}

// measureSends has all contenders take turns. The first round warms them up and does not count.
func (b *rig) measureSends(ctx context.Context, p plan, r *report.Results) error {
	if err := b.startAll(ctx); err != nil {
		return err
	}
	r.Board = report.Board{}
	for round := range p.rounds + 1 {
		for _, callers := range p.callers {
			for i := range b.contenders {
				c := b.contenders[(i+round)%len(b.contenders)]
				run, err := b.measure(ctx, c, callers, p.length)
				if err != nil {
					return fmt.Errorf("%s, %d callers: %w", c.name, callers, err)
				}
				if round > 0 {
					r.Board.Add(c.name, callers, run)
				}
			}
		}
	}
	return nil
}

// measureHalf runs those that record what they do at half the highest rate of the service.
func (b *rig) measureHalf(ctx context.Context, p plan, r *report.Results) error {
	rate := r.Board.Highest(report.Ours) / 2
	r.Half = map[string]report.Paced{}
	for range p.rounds {
		for _, c := range b.contenders {
			if c.name == report.Bare {
				continue
			}
			samples, refused, err := b.paced(ctx, c, rate, p.length)
			if err == nil && refused > 0 {
				err = fmt.Errorf("%d refused", refused)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			run, err := b.arrivals(ctx, c, samples)
			if err != nil {
				return err
			}
			half := r.Half[c.name]
			half.Rate = rate
			half.Runs = append(half.Runs, run)
			r.Half[c.name] = half
		}
	}
	return nil
}

func (b *rig) contender(name string) contender {
	return b.contenders[slices.IndexFunc(b.contenders, func(c contender) bool { return c.name == name })]
}

// unitCallers is the number of callers at which costs are measured: 64, or the most there are.
func unitCallers(callers []int) int {
	if slices.Contains(callers, 64) {
		return 64
	}
	return slices.Max(callers)
}
