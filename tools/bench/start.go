package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/tools/bench/report"
)

// measureStart measures from the start of the process to its first 202, on a database that has its schema.
func (b *rig) measureStart(ctx context.Context, p plan, r *report.Results) error {
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return err
	}
	for round := range p.rounds + 1 { // the first one makes the schema
		began := time.Now()
		c, err := b.startService(ctx, serviceSettings{name: "start", database: database})
		if err != nil {
			return err
		}
		x := caller{base: c.base}
		err = x.mustSend(recipient(b.recipients.Add(1) - 1))
		took := time.Since(began)
		x.close()
		if err != nil {
			return err
		}
		if round > 0 {
			r.Started = append(r.Started, took)
		}
		r.Memory.Start, _ = memoryOf(c.process.pid())
		if err := c.process.Close(); err != nil {
			return err
		}
	}
	return nil
}

// measureMemory measures what sends leave behind, and sums the unit costs up.
func (b *rig) measureMemory(ctx context.Context, p plan, r *report.Results) error {
	service := b.contender(report.Ours)
	_, r.Memory.Most = memoryOf(service.process.pid())
	before, err := b.redisMemory(ctx)
	if err != nil {
		return err
	}
	sends := sendsFor(2 * p.length)
	if _, err := b.open(service, sends); err != nil {
		return err
	}
	after, err := b.redisMemory(ctx)
	if err != nil {
		return err
	}
	r.Units.Key = max(0, after-before) / float64(sends)
	callers := unitCallers(p.callers)
	cost := func(process string) time.Duration {
		each := r.Board.Over(report.Ours, callers, func(run report.Run) float64 { return float64(run.CPUEach(process)) }).Median
		return time.Duration(each) + r.Others[len(r.Others)-1].CPU(process) // the last are the checks
	}
	r.Units.Service, r.Units.Postgres, r.Units.Redis = cost(report.Service), cost(report.Postgres), cost(report.Redis)
	r.Units.WAL = r.Board.Over(report.Ours, callers, func(run report.Run) float64 { return run.WAL.Bytes / float64(run.Sends) }).Median
	r.Units.Row, err = b.bytesOfARow(ctx, service.database)
	return err
}

// bytesOfARow is what a send takes on the disk, of all tables and their indexes.
func (b *rig) bytesOfARow(ctx context.Context, database string) (bytes float64, err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `
SELECT sum(pg_total_relation_size(c.oid))::float8 / (SELECT count(*) FROM sends) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`).Scan(&bytes)
	return bytes, err
}

// redisMemory is what Redis has in use, in bytes.
func (b *rig) redisMemory(ctx context.Context) (float64, error) {
	client := redis.NewClient(&redis.Options{Addr: b.redis.Addr()})
	defer client.Close()
	memory, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(memory["Memory"]["used_memory"], 64)
}
