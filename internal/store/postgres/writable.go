package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/migrations"
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

// pingSQL writes as many pages as a few sends need, in place of those of the Ping before, and returns whether there is a partition for the
// present time, and the fingerprints of the migrations. Concurrent Pings wait for each other's commit at most.
const pingSQL = `
WITH gone AS (DELETE FROM write_probe),
     filled AS (INSERT INTO write_probe SELECT repeat('x', 7000) FROM generate_series(1, 8))
SELECT EXISTS (SELECT FROM sendcode_partitions p WHERE coalesce(p.begins, '-infinity') <= @now AND coalesce(p.ends, 'infinity') > @now),
       (SELECT jsonb_object_agg(version, sha256) FROM schema_fingerprints)`

// Ping implements sqldb.Native, by one statement, which it repeats once after a lost connection.
func (p *DB) Ping(ctx context.Context) error {
	own, err := ownFingerprints()
	if err != nil {
		return migrations.Wrap(err)
	}
	var room bool
	var applied map[int64]string
	err = p.read(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, p.sql(pingSQL)).Scan(&room, &applied) })
	if isUndefined(err) { // without these tables, nothing is applied
		err = migrations.CheckFingerprints(own, nil)
	} else if err == nil {
		err = migrations.CheckFingerprints(own, applied)
	}
	if err == nil && !room {
		err = store.ErrNoPartition
	}
	return store.Unavailable(err)
}
