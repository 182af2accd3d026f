package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sendcode/internal/store"
	"sendcode/migrations"
)

const (
	migrationLockKey = 0x73656e64636f6465 // "sendcode"; it must never change, because old and new versions may migrate at once
	// A migration tries this many times to lock a table, each time for up to 5 s (its
	// lock_timeout), so for up to a minute in all.
	maxLockTries = 12
)

// Migrate updates the schema of the database at url. If replicas call it at once, one migrates, and
// the others wait until ctx ends. It leaves a schema newer than this program as it is: migrations
// only add, so the program can use it.
//
// The service works as role. Migrate creates the role if it is missing, and grants its rights,
// unless the name is empty. If the URL logs in as role, Migrate does nothing, because only the
// tables' owner can migrate, and must have done so before. Errors don't contain the URL.
func Migrate(ctx context.Context, url, role string) (err error) {
	parsed, err := parseURL(url)
	if err != nil {
		return err
	}
	config := parsed.ConnConfig
	// A migration that waits for a table's lock blocks all later statements on it, so it gives up
	// and tries again.
	config.RuntimeParams["lock_timeout"] = "5s"
	config.RuntimeParams["application_name"] = "sendcode migrate"
	// A migration may take long, and its lock's session is idle meanwhile.
	for _, name := range []string{"statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"} {
		config.RuntimeParams[name] = "0"
	}
	config.RuntimeParams["row_security"] = "off" // a table that hides rows from the owner is an error
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout()
	}
	if err := checkServerAt(ctx, config); err != nil {
		return migrations.WrapError(withCause(err))
	}
	apply := deferSettings(config) // not recovered: a panic of apply should end the start or the command
	defer func() { err = explainStandby(config, apply, withCause(err)) }()
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(apply))
	defer func() { err = errors.Join(err, db.Close()) }()
	if isRole, err := logsInAs(ctx, db, role); isRole || err != nil {
		return migrations.WrapError(err)
	}
	unlock, err := lockSchema(ctx, db)
	if err != nil {
		return migrations.WrapError(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return retryWhileLocked(ctx, func() error {
		if err := migrations.Migrate(ctx, goose.DialectPostgres, db, migrations.Postgres, "postgres"); err != nil {
			return err
		}
		// This is needed without a new migration too, as partitions exist only for a few weeks
		// ahead.
		if _, err := db.ExecContext(ctx, `SELECT sendcode_make_partitions()`); err != nil {
			return err
		}
		return grantRights(ctx, db, role)
	})
}

// retryWhileLocked calls migrate again, up to maxLockTries times in all, while it can't lock a
// table within lock_timeout.
func retryWhileLocked(ctx context.Context, migrate func() error) (err error) {
	for range maxLockTries {
		if err = migrate(); sqlState(err) != lockNotAvailable || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// lockSchema takes an advisory lock on its own connection, so that only one process migrates. It
// polls: a session that waits inside the database keeps a snapshot, and the other process could
// wait for ever, because CREATE INDEX CONCURRENTLY waits for all snapshots.
func lockSchema(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLockKey),
		lock.WithLockTimeout(1, math.MaxUint32))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := locker.SessionLock(ctx, conn); err != nil {
		if ctx.Err() != nil { // the driver may report only a bad connection
			err = fmt.Errorf("another instance is migrating: %w", ctx.Err())
		}
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return errors.Join(locker.SessionUnlock(context.WithoutCancel(ctx), conn), conn.Close()) },
		nil
}

// ownFingerprints are computed once, because the embedded migrations can't change.
var ownFingerprints = sync.OnceValues(func() (map[int64]string,
	error,
) {
	return migrations.Fingerprints(migrations.Postgres, "postgres")
})

// otherSchemaSQL selects the schema with the service's tables, unless the login finds them through
// its search path.
const otherSchemaSQL = `
SELECT quote_ident(n.nspname), quote_ident(current_user), quote_ident(current_database()), current_setting('search_path') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = '` + migrations.MigrationsTable + `' AND to_regclass(c.relname) IS NULL LIMIT 1`

// explainSchema completes store.ErrSchema if the tables are in a schema that the login doesn't
// search.
func (db *DB) explainSchema(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrSchema) {
		return err
	}
	var schema, role, database, path string
	if db.pool.QueryRow(ctx, otherSchemaSQL).Scan(&schema, &role, &database, &path) != nil {
		return err
	}
	// IN DATABASE has precedence over every other setting of the role.
	return fmt.Errorf("%w; but the schema %s has its tables: %s looks in %s, so run ALTER ROLE %s IN DATABASE %s SET search_path = %s, "+
		"and GRANT USAGE ON SCHEMA %s TO %s", err, schema, role, path, role, database, schema, schema, role)
}

// checkSchema fails if the login lacks rights or, with store.ErrSchema, if the database lacks
// migrations of this program or has them from other files.
func (db *DB) checkSchema(ctx context.Context) error {
	if err := db.checkRights(ctx, missingServiceRightsSQL); err != nil {
		return err
	}
	own, err := ownFingerprints()
	if err != nil {
		return migrations.WrapError(err)
	}
	applied := map[int64]string{}
	err = db.readOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, migrations.FingerprintsSQL)
		var version int64
		var sum string
		_, err := pgx.ForEachRow(rows, []any{&version, &sum}, func() error { applied[version] = sum; return nil })
		return err
	})
	if err != nil && !isUndefinedTable(err) { // without the table, nothing was migrated
		return err
	}
	return db.explainSchema(ctx, migrations.CheckFingerprints(own, applied))
}
