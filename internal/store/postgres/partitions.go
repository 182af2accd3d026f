package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// EnsurePartitions implements Expirer.
func (p *DB) EnsurePartitions(ctx context.Context) (until time.Time, err error) {
	err = retryLocked(ctx, func() error { // another replica may take longer than the statement waits
		return p.change(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, `SELECT sendcode_make_partitions()`).Scan(sqldb.TimeField{To: &until})
		})
	})
	return until, err
}

// partitions returns the existing partitions, oldest first.
func (p *DB) partitions(ctx context.Context) ([]store.Partition, error) {
	return readRows(ctx, p, func(x *store.Partition) []any {
		return []any{&x.Name, sqldb.TimeField{To: &x.Begins}, sqldb.TimeField{To: &x.Ends}, &x.Rows, &x.Bytes}
	}, `
SELECT p.name, p.begins, p.ends, c.reltuples::bigint, pg_total_relation_size(p.id)
FROM sendcode_partitions p JOIN pg_class c ON c.oid = p.id ORDER BY p.ends`)
}

// dropPartition drops the oldest partition that lies wholly before an instant. It returns its name, or "" if there is none or it is
// in use.
func (p *DB) dropPartition(ctx context.Context, before time.Time) (name string, err error) {
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		var dropped sql.NullString
		err := conn.QueryRow(ctx, `SELECT sendcode_drop_partition($1)`, before).Scan(&dropped)
		name = dropped.String
		return err
	})
	if sqlState(err) == lockNotAvailable {
		return "", nil
	}
	return name, err
}

// lockNotAvailable is the SQLSTATE of a lock that was not free within lock_timeout.
const lockNotAvailable = "55P03"

// Expire implements Expirer. If no row of the oldest partition has to stay, the whole partition is dropped.
func (p *DB) Expire(ctx context.Context, age time.Duration, limit int) (gone store.Expired, err error) {
	now, err := p.Clock(ctx)
	if err != nil {
		return gone, err
	}
	dropped, err := p.dropPartition(ctx, store.DueBefore(now, age))
	if err != nil {
		return gone, err
	}
	gone, err = p.DB.Expire(ctx, age, limit)
	gone.Partition, gone.More = dropped, gone.More || dropped != ""
	return gone, err
}

// StorageStatus implements Expirer.
func (p *DB) StorageStatus(ctx context.Context, age time.Duration) (e store.StorageStatus, err error) {
	if e, err = p.DB.StorageStatus(ctx, age); err != nil {
		return store.StorageStatus{}, err
	}
	e.Partitions, err = p.partitions(ctx)
	return e, err
}
