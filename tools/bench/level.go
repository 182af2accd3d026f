package main

import (
	"context"
	"errors"
	"time"

	"sendcode/tools/bench/report"
)

// measureLevel counts the sends of each second on a fresh database that nothing vacuums or analyzes.
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
	for ; length > 0; length -= chunk {
		part := min(length, chunk)
		began := time.Now()
		samples, err := b.load(ctx, service, l.Callers, part)
		if err != nil {
			return err
		}
		run, err := b.arrivals(ctx, service, samples)
		if err != nil {
			return err
		}
		l.Sends = append(l.Sends, perSecond(samples, run.Mails, began, part)...)
	}
	return service.process.Close()
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
