package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
)

// A pooler such as PgBouncer rejects a connection whose first message has settings that it doesn't
// know. So a statement sets them, which every pooler forwards.

// startupSettings stay in a connection's first message, because the protocol needs them there, or
// PgBouncer knows them.
var startupSettings = map[string]bool{
	"application_name": true, "client_encoding": true, "options": true, "replication": true, "standard_conforming_strings": true,
}

// deferSettings removes all settings but startupSettings from config. It returns a function that
// sets the removed ones on a new connection. The first message has two settings that may differ by
// default for the database or the login: without them pgx runs no statement of the simple protocol.
func deferSettings(config *pgx.ConnConfig) func(context.Context, *pgx.Conn) error {
	config.RuntimeParams["standard_conforming_strings"], config.RuntimeParams["client_encoding"] = "on", "UTF8"
	var names, values []string
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if !startupSettings[name] {
			names, values = append(names, name), append(values, config.RuntimeParams[name])
			delete(config.RuntimeParams, name)
		}
	}
	return func(ctx context.Context, conn *pgx.Conn) error {
		// The statement isn't prepared, because it must also work with a pooler that gives a server
		// connection to each transaction, which only checkServer detects and rejects. It turns
		// synchronous_commit on if that's off by default, because a committed row must be on the
		// disk.
		_, err := conn.Exec(ctx, `SELECT set_config(name, value, false) FROM unnest(@names::text[], @values::text[]) AS s (name, value)
UNION ALL SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`,
			pgx.QueryExecModeExec, pgx.NamedArgs{"names": names, "values": values})
		return err
	}
}

var (
	errTransactionPooling = errors.New(
		"store: the pooler in front of Postgres gives a connection to each transaction, and the service needs one " +
			"for each session: " +
			"set pool_mode = session in PgBouncer for this database, or connect to Postgres itself")
	errIneffectiveLocks = errors.New(
		"store: an advisory lock of one session does not lock out another on this server, as in CockroachDB before 26.2, " +
			"and the service counts the sends of a recipient under such a lock: use PostgreSQL")
	errDistributedTables = errors.New(
		"store: the database has tables that Citus distributes over several servers, where a transaction may take effect although its " +
			"COMMIT fails, and a lock of one server does not lock out a session of another: use a database without distributed tables")
	errTooFewConnections = fmt.Errorf("store: the pooler in front of Postgres has too few connections: "+
		"set default_pool_size in PgBouncer to %d for each replica, and 6 more", ConnsPerReplica)
)

// checkServer fails if the database's encoding isn't UTF-8, if a pooler gives a server connection
// to each transaction (prepared statements and settings need sessions), if an advisory lock of one
// session doesn't lock out another, or if the database has distributed tables. It opens a second
// connection to test the pooler and the locks.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	if encoding := conn.PgConn().ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return fmt.Errorf("store: the database has the encoding %s: create one with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	if err := checkTables(ctx, conn); err != nil {
		return err
	}
	firstPID, err := serverPID(ctx, conn)
	if err != nil {
		return err
	}
	// without a pooler, the two are equal
	pooled := firstPID != conn.PgConn().PID()
	// a pooler without a second connection makes the client wait
	bounded, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	second, err := pgx.ConnectConfig(bounded, conn.Config())
	switch {
	case err != nil && pooled:
		return secondConnError(bounded, err)
	case err != nil:
		return store.WrapUnavailable(withCause(err))
	}
	defer func() { _ = second.Close(context.WithoutCancel(ctx)) }()
	if pooled {
		secondPID, err := serverPID(bounded, second)
		if err != nil {
			return secondConnError(bounded, err)
		}
		perTransaction, err := poolsTransactions(ctx, conn, second, firstPID, secondPID)
		if perTransaction {
			return errTransactionPooling
		}
		if err != nil {
			return err
		}
	}
	return checkLocks(ctx, conn, second)
}

// checkTables returns errDistributedTables if the catalog of Citus, which has a row for each
// distributed table, is there and not empty.
func checkTables(ctx context.Context, conn *pgx.Conn) error {
	var distributed bool
	err := conn.QueryRow(ctx, "SELECT to_regclass('pg_dist_partition') IS NOT NULL", pgx.QueryExecModeSimpleProtocol).Scan(&distributed)
	if err != nil || !distributed {
		return err
	}
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_dist_partition)", pgx.QueryExecModeSimpleProtocol).Scan(&distributed)
	if err == nil && distributed {
		err = errDistributedTables
	}
	return err
}

// probeLockKey is taken by nothing but checkLocks.
const probeLockKey = migrationLockKey + 1

// checkLocks returns errIneffectiveLocks if both sessions get the same advisory lock. If another
// process holds it, locks work.
func checkLocks(ctx context.Context, first, second *pgx.Conn) error {
	if _, err := first.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = first.Exec(context.WithoutCancel(ctx), "ROLLBACK") }()
	// first keeps its lock in a transaction; second is in none, so its lock ends with the
	// statement.
	for _, conn := range []*pgx.Conn{first, second} {
		var locked bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(@key)", pgx.QueryExecModeSimpleProtocol,
			pgx.NamedArgs{"key": int64(probeLockKey)}).Scan(&locked)
		if err != nil || !locked {
			return err
		}
	}
	return errIneffectiveLocks
}

// secondConnError returns errTooFewConnections if ctx ended, because the pooler probably has no
// further connection.
func secondConnError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errTooFewConnections
	}
	return store.WrapUnavailable(withCause(err))
}

// poolsTransactions reports whether a pooler runs a connection's statements in different server
// processes. firstPID and secondPID are the processes that answered on first and second. It queries
// both connections again, several times. Meanwhile second occupies a process by an open
// transaction: otherwise a pooler might happen to give each connection the same process again.
func poolsTransactions(ctx context.Context, first, second *pgx.Conn, firstPID, secondPID uint32) (bool, error) {
	const rounds = 8
	for range rounds {
		if firstPID == secondPID {
			return true, nil
		}
		if _, err := second.Exec(ctx, "BEGIN"); err != nil {
			return strings.Contains(err.Error(), "statement pooling"), err // PgBouncer's words
		}
		secondAgain, err := serverPID(ctx, second)
		if err != nil {
			return false, err
		}
		firstAgain, err := serverPID(ctx, first)
		if err != nil {
			return false, err
		}
		if _, err := second.Exec(ctx, "ROLLBACK"); err != nil {
			return false, err
		}
		if secondAgain != secondPID || firstAgain != firstPID {
			return true, nil
		}
	}
	return false, nil
}

// serverPID prepares no statement.
func serverPID(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// checkServerAt runs checkServer on a connection of its own.
func checkServerAt(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	deferSettings(config) // removes settings that a pooler might reject; the check needs none
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(checkServer(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
}
