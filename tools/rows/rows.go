// Package rows fills a Postgres with sends as a busy service leaves them, so that what works on ten
// rows is seen to work on millions. Tools measure and drill on them; it stands outside the flow of
// a send.
package rows

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"
)

//go:embed rows.sql
var fillSQL string

//go:embed weeks.sql
var weeksSQL string

// step is how many rows are written at once.
const step = 100_000

// Fill writes size rows of the last 90 days into a database that has the schema and no sends, and
// has it look at them.
func Fill(ctx context.Context, database string, size int) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, weeksSQL); err != nil {
		return err
	}
	for first := 1; first <= size; first += step {
		if _, err := conn.Exec(ctx, fillSQL, first, min(first+step-1, size), size); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	return err
}
