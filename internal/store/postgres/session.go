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

// A pooler such as PgBouncer rejects a connection if the first message has settings that the pooler
// does not know. So the service makes these settings by a statement on the open connection. Every
// pooler forwards statements.

// startupSettings are the settings that stay in the startup message, the first message of a
// connection, because the protocol needs them there or because PgBouncer knows them.
var startupSettings = map[string]bool{"application_name": true, "client_encoding": true, "options": true, "replication": true}

// deferSettings removes every setting outside startupSettings from the configuration. It returns a
// function that makes the removed settings by a statement on a new connection.
func deferSettings(config *pgx.ConnConfig) func(context.Context, *pgx.Conn) error {
	var names, values []string
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if !startupSettings[name] {
			names, values = append(names, name), append(values, config.RuntimeParams[name])
			delete(config.RuntimeParams, name)
		}
	}
	return func(ctx context.Context, conn *pgx.Conn) error {
		// The statement is not prepared, because it must also work with a pooler that gives a
		// server connection to each transaction. Only later does checkServer detect and reject such
		// a pooler. If the server's default for synchronous_commit is off, the statement turns it
		// on, because a committed row must be on the disk.
		_, err := conn.Exec(ctx, `SELECT set_config(name, value, false) FROM unnest(@names::text[], @values::text[]) AS s (name, value)
UNION ALL SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`,
			pgx.QueryExecModeExec, pgx.NamedArgs{"names": names, "values": values})
		return err
	}
}

var (
	errDividedSessions = errors.New(
		"store: the pooler in front of Postgres gives a connection to each transaction, and the service needs one " +
			"for each session: " +
			"set pool_mode = session in PgBouncer for this database, or connect to Postgres itself")
	errSharedLocks = errors.New(
		"store: an advisory lock of one session does not lock out another on this server, as in CockroachDB before 26.2, " +
			"and the service counts the sends of a recipient under such a lock: use PostgreSQL")
	errFewPlaces = fmt.Errorf("store: the pooler in front of Postgres has too few connections: "+
		"set default_pool_size in PgBouncer to %d for each replica, and 6 more", ConnsPerReplica)
)

// checkServer returns an error in three cases. In the first case, the database's encoding is not
// UTF-8. In the second case, a pooler gives a server connection to each transaction instead of each
// session. The service needs sessions for its prepared statements and settings. In the third case,
// an advisory lock of one session does not lock out another session. checkServer opens a second
// connection to test the last two cases.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	if encoding := conn.PgConn().ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return fmt.Errorf("store: the database has the encoding %s: create one with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	server, err := serverPID(ctx, conn)
	if err != nil {
		return err
	}
	// an equal process ID means that no pooler is in between
	pooled := server != conn.PgConn().PID()
	// A pooler that has no second connection lets the client wait. So the second connection needs a
	// timeout.
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
		other, err := serverPID(bounded, second)
		if err != nil {
			return secondConnError(bounded, err)
		}
		divided, err := dividesSessions(ctx, conn, second, server, other)
		if divided {
			return errDividedSessions
		}
		if err != nil {
			return err
		}
	}
	return checkLocks(ctx, conn, second)
}

// probeLockKey is the key of the advisory lock that checkLocks takes; nothing else takes it.
const probeLockKey = migrationLockKey + 1

// checkLocks returns errSharedLocks if both sessions get the same advisory lock. If another process
// holds the lock, advisory locks work and the result is nil.
func checkLocks(ctx context.Context, first, second *pgx.Conn) error {
	if _, err := first.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = first.Exec(context.WithoutCancel(ctx), "ROLLBACK") }()
	// The connection first is in a transaction and keeps its lock. The connection second is in no
	// transaction, so its lock ends with the statement.
	for _, conn := range []*pgx.Conn{first, second} {
		var locked bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(@key)", pgx.QueryExecModeSimpleProtocol,
			pgx.NamedArgs{"key": int64(probeLockKey)}).Scan(&locked)
		if err != nil || !locked {
			return err
		}
	}
	return errSharedLocks
}

// secondConnError explains why checkServer could not open its second connection. If ctx ended
// first, it returns errFewPlaces, because the pooler probably has no further connection to
// Postgres. Otherwise it returns err wrapped in fault.Unavailable.
func secondConnError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errFewPlaces
	}
	return store.WrapUnavailable(withCause(err))
}

// dividesSessions reports whether a pooler runs the statements of one connection in different
// server processes of Postgres. The parameters server and other are the IDs of the processes that
// have answered on the connections first and second. Several times, dividesSessions asks each
// connection again for its process, and compares this process with the earlier one. Meanwhile the
// second connection has an open transaction and so occupies a process. Without this transaction, a
// pooler might happen to give each connection the same process again.
func dividesSessions(ctx context.Context, first, second *pgx.Conn, server, other uint32) (bool, error) {
	const rounds = 8
	for range rounds {
		if server == other {
			return true, nil
		}
		if _, err := second.Exec(ctx, "BEGIN"); err != nil {
			return strings.Contains(err.Error(), "statement pooling"), err // PgBouncer's words
		}
		held, err := serverPID(ctx, second)
		if err != nil {
			return false, err
		}
		current, err := serverPID(ctx, first)
		if err != nil {
			return false, err
		}
		if _, err := second.Exec(ctx, "ROLLBACK"); err != nil {
			return false, err
		}
		if held != other || current != server {
			return true, nil
		}
	}
	return false, nil
}

// serverPID returns the process ID of the server process that answers. It prepares no statement.
func serverPID(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// checkServerAt opens a connection, checks its server with checkServer, and closes it. It returns
// an error if the connection or the check fails.
func checkServerAt(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	deferSettings(config) // removes the settings that a pooler might reject; the check needs none
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(checkServer(ctx, conn), conn.Close(context.WithoutCancel(ctx)))
}
