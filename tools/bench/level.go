package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/tools/bench/report"
)

// measureLevel counts the sends of each second on a fresh database without autovacuum.
func (b *rig) measureLevel(ctx context.Context, p plan, r *report.Results) (err error) {
	if err := b.autovacuum(ctx, "off"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.autovacuum(context.WithoutCancel(ctx), "on")) }()
	return b.secondBySecond(ctx, p, p.level, &r.Level)
}

// measureHour does it with autovacuum, for as long as is asked.
func (b *rig) measureHour(ctx context.Context, p plan, r *report.Results) error {
	r.Level.Vacuum = true
	return b.secondBySecond(ctx, p, p.hour, &r.Level)
}

func (b *rig) autovacuum(ctx context.Context, value string) error {
	if _, err := b.admin.Exec(ctx, "ALTER SYSTEM SET autovacuum = "+value); err != nil {
		return err
	}
	_, err := b.admin.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// chunk bounds what is kept in memory.
const chunk = time.Minute

func (b *rig) secondBySecond(ctx context.Context, p plan, length time.Duration, l *report.Level) error {
	service, err := b.startService(ctx, serviceSettings{name: "level"})
	if err != nil {
		return err
	}
	l.Callers = unitCallers(p.callers)
	if _, err := b.load(ctx, service, l.Callers, time.Second); err != nil { // connections plan their statements, on empty tables
		return err
	}
	for ; length > 0; length -= chunk {
		part := min(length, chunk)
		began := time.Now()
		stop := b.everySecond(service)
		samples, err := b.load(ctx, service, l.Callers, part)
		l.CPU = append(l.CPU, stop()...)
		if err != nil {
			return err
		}
		run, err := b.arrivals(ctx, service, samples)
		if err != nil {
			return err
		}
		l.Sends = append(l.Sends, perSecond(samples, run.Mails, began, part)...)
		fmt.Fprintf(b.progress, "%s left; %d sends in the last %s\n", length-part, run.Sends, part)
	}
	return service.process.Close()
}

// everySecond notes what each second costs, until it is stopped.
func (b *rig) everySecond(c contender) (stop func() []time.Duration) {
	var seconds []time.Duration
	ended, noted := make(chan struct{}), make(chan struct{})
	before := b.usages(c)
	tick := time.NewTicker(time.Second)
	go func() {
		defer close(noted)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				now := b.usages(c)
				seconds = append(seconds, cost(now, before))
				before = now
			}
		}
	}()
	return func() []time.Duration {
		close(ended)
		<-noted
		return seconds
	}
}

// cost is what the program, Postgres and Redis have had between two looks.
func cost(now, before map[string]usage) (sum time.Duration) {
	for _, process := range []string{report.Service, report.Postgres, report.Redis} {
		sum += now[process].since(before[process])
	}
	return sum
}

// perSecond counts the mails that arrived in each whole second.
func perSecond(samples []sample, mails []time.Duration, began time.Time, length time.Duration) []int {
	counts := make([]int, int(length/time.Second))
	for i, s := range samples {
		if second := int(s.answered.Add(mails[i]).Sub(began) / time.Second); second < len(counts) {
			counts[second]++
		}
	}
	return counts
}
