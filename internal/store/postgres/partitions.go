package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// EnsurePartitions implements sqldb.PerDatabase.
func (db *DB) EnsurePartitions(ctx context.Context) (until time.Time, err error) {
	defer db.Observe(&ctx, "ensure_partitions", "ensure_partitions")()
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	err = retryWhileLocked(ctx, func() error { // another replica may take longer than the statement waits
		return db.changeOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, `SELECT sendcode_make_partitions()`).Scan(sqlgen.ScannerFor(&until))
		})
	})
	return until, err
}

// DropPartition implements sqldb.Engine. It drops nothing while the partition is in use.
func (db *DB) DropPartition(ctx context.Context, age time.Duration) (name string, err error) {
	now, err := db.Clock(ctx)
	if err != nil {
		return "", err
	}
	err = db.changeOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		var dropped sql.NullString
		err := conn.QueryRow(ctx, `SELECT sendcode_drop_partition(@before)`,
			pgx.NamedArgs{"before": store.RetentionCutoff(now, age)}).Scan(&dropped)
		name = dropped.String
		return err
	})
	if sqlState(err) == lockNotAvailable {
		return "", nil
	}
	return name, err
}

// PurgeDeleted implements sqldb.Engine. Postgres's vacuum removes deleted rows.
func (db *DB) PurgeDeleted(context.Context) error { return nil }

// lockNotAvailable is the SQLSTATE of a lock that wasn't free within lock_timeout.
const lockNotAvailable = "55P03"
