package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// withCause adds why Postgres can't write: ErrNoSpace, ErrReadOnly, ErrNoPermission or
// ErrNoPartition, or errTooFewConnections if PgBouncer ended a wait for a connection. If another
// account has the identity, it returns ErrIdentityTaken.
func withCause(err error) error {
	switch sqlState(err) {
	case "53100", "53200": // disk_full, out_of_memory
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case "25006":
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w: %w", store.ErrNoPermission, err)
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && e.Code == "23514" && e.ConstraintName == "": // no partition for the row; a violated CHECK would have a name
		return fmt.Errorf("%w: %w", store.ErrNoPartition, err)
	case ok && strings.Contains(e.Message, "query_wait_timeout"):
		return fmt.Errorf("%w: %w", errTooFewConnections, err)
	case ok && e.ConstraintName == "accounts_identity":
		return store.ErrIdentityTaken
	}
	return err
}

// diskSpaceCheckInterval is the time between two checks of the disk's free space, by one replica
// for all.
const diskSpaceCheckInterval = time.Minute

// pingSQL locks one row, a small write, for which a full disk may have room. So it also writes as
// many pages as a few sends need, if no replica has done so within diskSpaceCheckInterval, or with
// @anyway.
//
// If that is impossible, because the login lacks a right on leases or write_probe, or because one
// of them is published without a replica identity, pingWithoutRoomSQL runs instead, since a send
// doesn't need these tables.
//
// It locks the same tables as sends and checks do, so it waits where they would; concurrent Pings
// wait at most for each other's commit. It returns whether there is a partition for now, the
// migrations' fingerprints, and missingSendRightsSQL.
var pingSQL = `
WITH turn AS (
    INSERT INTO leases AS t (name, until) SELECT 'room', clock.now + CAST(@lasts AS interval) FROM (SELECT @now AS now) AS clock WHERE true
    ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE @anyway OR t.until <= @now OR t.until > excluded.until RETURNING true
), filled AS (
    INSERT INTO write_probe SELECT repeat('x', 7000) FROM turn, generate_series(1, 8)
), ` + lockSendTablesSQL

// pingWithoutRoomSQL is pingSQL without the check of the free space. Its small write is a claim,
// which deleteProbeClaimSQL deletes again.
var pingWithoutRoomSQL = `
WITH claimed AS (
    INSERT INTO idempotency_keys (key, fingerprint, send_id, created_at, held_until)
    SELECT ` + probeClaimKeySQL + `, ` + probeClaimKeySQL + `, '00000000-0000-0000-0000-000000000000', @now, @now
), ` + lockSendTablesSQL

const (
	probeClaimKeySQL    = `decode(repeat('00', 32), 'hex')` // no request has it, because keys are keyed hashes
	deleteProbeClaimSQL = `DELETE FROM idempotency_keys WHERE key = ` + probeClaimKeySQL
)

var lockSendTablesSQL = `locked_sends AS (UPDATE ONLY sends SET id = id WHERE false
), locked_verifications AS (UPDATE ONLY verifications SET id = id WHERE false
), locked_outbox AS (UPDATE ONLY outbox SET id = id WHERE false
), locked_keys AS (UPDATE ONLY idempotency_keys SET key = key WHERE false
), locked_events AS (INSERT INTO app_events (id) SELECT CAST(NULL AS uuid) WHERE false
), locked_minutes AS (INSERT INTO minute_index (minute) SELECT CAST(NULL AS timestamptz) WHERE false
), read AS (SELECT FROM ONLY failures, ONLY suppressions WHERE false
)
SELECT EXISTS (SELECT FROM sendcode_partitions p WHERE coalesce(p.begins, '-infinity') <= @now AND coalesce(p.ends, 'infinity') > @now),
       (SELECT jsonb_object_agg(version, sha256) FROM schema_fingerprints),
       (` + missingSendRightsSQL + `)`

// deleteProbeRowsSQL runs in the transaction of pingSQL, so no row of write_probe is ever visible.
// Each VACUUM returns the table's pages to the system, so that the next check needs new ones.
const deleteProbeRowsSQL = `DELETE FROM write_probe`

// recheckDiskSpaceSQL makes the next Ping, of whichever replica, check the free space.
const recheckDiskSpaceSQL = `UPDATE leases SET until = @now WHERE name = 'room'`

// probeStates are the SQL states of a probe that may fail where a send does not: a missing right,
// and a published table whose deleted rows have no identity (two states).
var probeStates = []string{"42501", "55000", "42P10"}

// Ping implements sqldb.PerDatabase, usually in one round trip. One replica checks the disk's free
// space for all, once in diskSpaceCheckInterval. After a failed send or Ping of this process, its
// next Ping also checks the space.
func (db *DB) Ping(ctx context.Context) error {
	defer db.Observe(&ctx, "ping", "ping")()
	own, err := ownFingerprints()
	if err != nil {
		return migrations.WrapError(err)
	}
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	checkSpace := !db.spaceChecked.Swap(true) // a send that fails from here on makes the next Ping look again
	var partition bool
	var applied map[int64]string
	var denied *string
	probe := func(write, cleanUp string, args pgx.NamedArgs) error {
		return db.readOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			var b pgx.Batch
			b.Queue(db.replaceNow(write), args)
			b.Queue(cleanUp)
			results := conn.SendBatch(ctx, &b)
			defer results.Close()
			if err := results.QueryRow().Scan(&partition, &applied, &denied); err != nil {
				return err
			}
			return results.Close()
		})
	}
	err = probe(pingSQL, deleteProbeRowsSQL, pgx.NamedArgs{"anyway": checkSpace, "lasts": diskSpaceCheckInterval})
	if slices.Contains(probeStates, sqlState(err)) {
		err = probe(pingWithoutRoomSQL, deleteProbeClaimSQL, pgx.NamedArgs{})
	}
	if err != nil {
		db.spaceChecked.Store(false)
	}
	if errors.Is(err, store.ErrNoSpace) {
		_ = db.Run(ctx, "Ping", sqldb.InOrder, &sqldb.Statement{SQL: recheckDiskSpaceSQL}) // otherwise other replicas notice later
	}
	if isUndefinedTable(err) { // without these tables, no migration is applied
		err = migrations.CheckFingerprints(own, nil)
	} else if err == nil {
		err = migrations.CheckFingerprints(own, applied)
	}
	switch {
	case denied != nil: // hidden rows look like a schema without migrations
		err = fmt.Errorf("%w: %s", store.ErrNoPermission, *denied)
	case errors.Is(err, store.ErrNoPermission):
		err = cmp.Or(db.checkRights(ctx, missingSendRightsSQL), err)
	case err == nil && !partition:
		err = store.ErrNoPartition
	default:
		pool := db.pool.Config()
		err = explainStandby(pool.ConnConfig, pool.AfterConnect, db.explainSchema(ctx, err))
	}
	return store.WrapUnavailable(err)
}

// explainStandby wraps a timeout, or a lock that wasn't free, in store.ErrStandbyAway if
// synchronous standbys probably caused it: of two small writes, each within a second, the one that
// doesn't wait for standbys succeeds, and the one that does fails. apply applies the settings to a
// connection.
func explainStandby(config *pgx.ConnConfig, apply func(context.Context, *pgx.Conn) error, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && sqlState(err) != lockNotAvailable {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, connErr := pgx.ConnectConfig(ctx, config)
	if connErr != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	write := func(settings string) error { // leaves no row
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, `BEGIN; `+settings+`INSERT INTO write_probe VALUES (''); `+deleteProbeRowsSQL+`; COMMIT`,
			pgx.QueryExecModeSimpleProtocol)
		return err
	}
	if apply(ctx, conn) != nil || write(`SET LOCAL synchronous_commit = local; `) != nil || write("") == nil {
		return err
	}
	return fmt.Errorf("%w: start one, or take it out of synchronous_standby_names: %w", store.ErrStandbyAway, err)
}
