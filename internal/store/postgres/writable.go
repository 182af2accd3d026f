package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
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

// Ping tests with these statements whether Postgres can write. fillSQL empties the table and fills a new file, for which the disk must have
// room. TRUNCATE would wait for readers of the table, such as a backup; if its lock is not free, addSQL adds a row instead, which the
// next TRUNCATE removes. Each is sent as one message and runs as one transaction.
const (
	fillSQL = `SET LOCAL lock_timeout = '50ms'; TRUNCATE write_probe; INSERT INTO write_probe SELECT repeat('x', 7000) FROM generate_series(1, 8)`
	addSQL  = `SET LOCAL lock_timeout = '50ms'; INSERT INTO write_probe VALUES (repeat('x', 7000))`
)

// Ping implements sqldb.Native. It writes a few pages, or one row if the table is locked.
func (p *DB) Ping(ctx context.Context) error {
	if err := p.canWrite(ctx); err != nil {
		return err
	}
	var err error
	for _, statement := range []string{fillSQL, addSQL} {
		err = p.change(ctx, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if sqlState(err) != lockNotAvailable {
			return err
		}
	}
	return nil // the table is locked, probably by the Ping of another replica
}

// canWrite returns an error if the server is read-only, or has no partition for the present time.
func (p *DB) canWrite(ctx context.Context) error {
	var readOnly, room bool
	err := p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
       EXISTS (SELECT FROM sendcode_partitions p WHERE coalesce(p.begins, '-infinity') <= {{now}}
         AND coalesce(p.ends, 'infinity') > {{now}})`)).Scan(&readOnly, &room)
	})
	switch {
	case err == nil && readOnly:
		err = fmt.Errorf("%w: %w", fault.Unavailable, store.ErrReadOnly)
	case err == nil && !room:
		err = fmt.Errorf("%w: %w", fault.Unavailable, store.ErrNoPartition)
	}
	return err
}
