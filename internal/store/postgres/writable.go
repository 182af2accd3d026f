package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/fault"
	"sendcode/internal/store"
)

// postgresCause wraps err in ErrFull, ErrReadOnly or ErrNoPartition if Postgres says that this is why it can't write.
func postgresCause(err error) error {
	switch sqlState(err) {
	case "53100", "53200": // disk_full, out_of_memory
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case "25006":
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && e.Code == "23514" && e.ConstraintName == "" { // no partition for the row; a CHECK of the schema would have a name
		return fmt.Errorf("%w: %w", store.ErrNoPartition, err)
	}
	return err
}

// provenFor is how long a committed send proves that Postgres can be written.
const provenFor = 2 * time.Second

// pingSQL writes as many pages as a few sends need, in place of those of the Ping before, and returns whether there is a partition for the
// present time. Concurrent Pings wait for each other's commit at most.
const pingSQL = `
WITH gone AS (DELETE FROM write_probe),
     filled AS (INSERT INTO write_probe SELECT repeat('x', 7000) FROM generate_series(1, 8))
SELECT EXISTS (SELECT FROM sendcode_partitions p WHERE coalesce(p.begins, '-infinity') <= @now AND coalesce(p.ends, 'infinity') > @now)`

// Ping implements sqldb.Native. A send that was committed in the last two seconds, with no failed one since, proves that Postgres can be
// written; else one statement tries it, after a look at the schema.
func (p *DB) Ping(ctx context.Context) error {
	if at := p.committed.Load(); at != nil && time.Since(*at) < provenFor {
		return nil
	}
	if err := p.checkSchema(ctx); err != nil {
		return errors.Join(fault.Unavailable, err)
	}
	var room bool
	err := p.change(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, p.sql(pingSQL)).Scan(&room) })
	if err == nil && !room {
		err = fmt.Errorf("%w: %w", fault.Unavailable, store.ErrNoPartition)
	}
	return err
}
