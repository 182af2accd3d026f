//go:build nightly

package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
)

//go:embed retention.sql
var oldSQL string

const (
	retentionRate = 500             // sends a second beside the deletion
	retentionStep = 5 * time.Second // in which the processor time of the service and its servers is read
)

// measureRetention has a week of old sends dropped, and a tenth as many of the week after it
// deleted singly, with their verifications, while sends go on.
func (b *rig) measureRetention() string {
	now := time.Now().UTC()
	edge := now.AddDate(0, 0, -42-int(now.Weekday()+6)%7).Truncate(24 * time.Hour) // a Monday
	keep := (now.Sub(edge.AddDate(0, 0, 4)) - store.MaxCodeLife).Truncate(time.Hour)
	database := b.filled(100_000, func(database string) {
		b.insertOld(database, edge,
			store.RetentionCutoff(now, keep).Add(-time.Hour))
	})
	db, err := postgres.Open(b.Context(), database, "")
	b.must(err)
	defer func() { b.must(db.Close()) }()

	quiet := b.startService(serviceSettings{database: database, retention: "0s"})
	b.beside(quiet, time.Second, &run{cpu: map[string]time.Duration{}}) // warms up
	before, during := run{cpu: map[string]time.Duration{}}, run{cpu: map[string]time.Duration{}}
	b.beside(quiet, time.Minute, &before)
	b.end(quiet)
	began, due := time.Now(), true
	deleting := b.startService(serviceSettings{database: database, retention: fmt.Sprint(keep)})
	for due && time.Since(began) < 30*time.Minute {
		b.beside(deleting, time.Minute, &during)
		status, err := db.StorageStatus(b.Context(), keep)
		b.must(err)
		// a few rows of Fill become due meanwhile
		due = status.Due > 100 || status.Partitions[0].Ends.Before(store.RetentionCutoff(now, keep))
		b.Logf("after %.0f s: %d due, oldest partition %s", time.Since(began).Seconds(), status.Due,
			status.Partitions[0].Name)
	}
	took := time.Since(began)
	cost := costOfSend(during) / costOfSend(before)
	goals := b.newGoals()
	goals.most("a send beside the retention ÷ before it", 1.2, cost, "")
	goals.most("until nothing is due", 10*air, took.Minutes(), " min")
	return fmt.Sprintf(
		"A partition of %s sends, and %s due sends of the next one, each with a verification. With %d sends a second beside it, "+
			"nothing was due after %.0f s. A send cost %s times the processor time of before (program, Postgres and Redis).\n"+
			"Its 202: %s; before: %s.\n\n%s", number(float64(b.old)), number(float64(b.old/10)), retentionRate,
		took.Seconds(), number(cost),
		waits(during), waits(before), goals.String())
}

func waits(r run) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.1f ms, at most %.0f ms", quantile(.5, r.answers), quantile(.99, r.answers),
		quantile(1, r.answers))
}

// beside sends at retentionRate for a time, and adds what that cost to all.
func (b *rig) beside(c contender, length time.Duration, all *run) {
	// What a process of autovacuum had in the step in which it ends is lost.
	for at := time.Duration(0); at < length; at += min(length, retentionStep) {
		before := b.usages(c)
		samples, refused := b.paced(c, retentionRate, min(length, retentionStep))
		if refused > 0 {
			b.Fatalf("%d refused", refused)
		}
		for process, spent := range used(before, b.usages(c)) {
			all.cpu[process] += spent
		}
		r := b.arrivals(samples, true)
		all.sends, all.answers = all.sends+r.sends, append(all.answers, r.answers...)
	}
}

// insertOld adds as many sends as the plan says in the week before edge, and a tenth as many
// between edge and due.
func (b *rig) insertOld(database string, edge, due time.Time) {
	fill, ctx := errgroup.WithContext(b.Context())
	fill.SetLimit(4)
	const step = 100_000
	for first := 1; first <= b.old; first += step {
		fill.Go(func() error { return insertSome(ctx, database, first, step, b.old, edge.AddDate(0, 0, -7), edge) })
		if first <= b.old/10 {
			fill.Go(func() error { return insertSome(ctx, database, first, step, b.old/10, edge, due) })
		}
	}
	b.must(fill.Wait())
	conn, err := pgx.Connect(b.Context(), database)
	b.must(err)
	_, err = conn.Exec(b.Context(), "VACUUM ANALYZE")
	b.must(errors.Join(err, conn.Close(b.Context())))
}

func insertSome(ctx context.Context, database string, first, step, size int, from, until time.Time) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, oldSQL, first, min(first+step-1, size), size, from, until)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
