package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/store/postgres"
	"sendcode/tools/bench/report"
	"sendcode/tools/rows"
)

// measureRows has services on databases of several sizes take turns.
func (b *rig) measureRows(ctx context.Context, p plan, r *report.Results) error {
	var services []contender
	for _, size := range p.rows {
		database, err := b.filled(ctx, size)
		if err != nil {
			return fmt.Errorf("%d rows: %w", size, err)
		}
		c, err := b.startService(ctx, serviceSettings{name: fmt.Sprint("rows-", size), database: database})
		if err != nil {
			return err
		}
		services = append(services, c)
		r.Rows = append(r.Rows, report.RowCost{Rows: size})
	}
	callers := unitCallers(p.callers)
	for round := range p.rounds + 1 {
		for i := range services {
			n := (i + round) % len(services)
			run, err := b.measure(ctx, services[n], callers, p.length)
			if err != nil {
				return err
			}
			if round > 0 {
				r.Rows[n].Runs = append(r.Rows[n].Runs, run)
			}
		}
	}
	return nil
}

// countAhead does at once what the service would do beside the sends, a few hours a second.
func countAhead(ctx context.Context, database string) error {
	log, err := postgres.Open(ctx, database, "")
	if err != nil {
		return err
	}
	_, err = log.CountHours(ctx, 90*24*time.Hour, 10_000)
	return errors.Join(err, log.Close())
}

// filled makes a database with so many rows, of which nothing waits to be written.
func (b *rig) filled(ctx context.Context, size int) (database string, err error) {
	if database, err = b.postgres.CreateDatabase(ctx); err != nil {
		return "", err
	}
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + b.path("data-fill"),
		"SENDCODE_DATABASE_URL=" + database}, os.ReadFile)
	if err != nil {
		return "", err
	}
	if err := app.Migrate(ctx, cfg); err != nil {
		return "", err
	}
	if err := rows.Fill(ctx, database, size); err != nil {
		return "", err
	}
	if err := countAhead(ctx, database); err != nil {
		return "", err
	}
	_, err = b.admin.Exec(ctx, "CHECKPOINT")
	return database, err
}
