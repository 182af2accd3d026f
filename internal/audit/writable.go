package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"modernc.org/sqlite"
)

// Why the log can't be written, as far as the database tells. Each goes with ErrUnavailable.
var (
	// ErrFull: the database has no room left on its disk, or no memory.
	ErrFull = errors.New("audit: no room to write")
	// ErrReadOnly: the database, or its file, can only be read.
	ErrReadOnly = errors.New("audit: the database is read-only")
)

// Result codes of SQLite, https://www.sqlite.org/rescode.html: the lower byte is the primary code.
const (
	sqliteBusy, sqliteLocked, sqliteNoMem = 5, 6, 7
	sqliteReadOnly, sqliteIOErr           = 8, 10
	sqliteFull, sqliteCantOpen            = 13, 14
	sqliteConstraint                      = 19
	sqliteIOErrWrite                      = sqliteIOErr | 3<<8
	sqliteIOErrNoMem                      = sqliteIOErr | 12<<8
	sqliteIOErrShmSize                    = sqliteIOErr | 19<<8
)

// undone says that SQLite certainly did not commit, though the COMMIT was begun: it had not written the frame of the log that
// makes the commit (FULL, a failed write), or had not begun to write at all. It has rolled back by itself, or the driver has.
// After any other error, such as a failed sync, that frame may be in the file and count after a crash, until a later commit
// has overwritten it. https://www.sqlite.org/lang_transaction.html, https://www.sqlite.org/walformat.html
func undone(err error) bool { return undoneCode(sqliteCode(err)) }

func undoneCode(code int) bool {
	switch code & 0xff {
	case sqliteFull, sqliteBusy, sqliteLocked, sqliteReadOnly, sqliteCantOpen, sqliteNoMem, sqliteConstraint:
		return true
	}
	return code == sqliteIOErrWrite
}

func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// sqliteCause makes SQLite's reason why it can't write one of the store's.
func sqliteCause(err error) error {
	switch why := sqliteCode(err); {
	case why == sqliteIOErrWrite || why == sqliteIOErrNoMem || why == sqliteIOErrShmSize:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case why&0xff == sqliteFull || why&0xff == sqliteNoMem:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case why&0xff == sqliteReadOnly:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}

// Ping implements Health: it writes, for a disk without room is read as well as any other. What it writes takes more pages than a
// send does and is gone before the commit, so that the pages are there for the next.
func (s *SQLite) Ping(ctx context.Context) error {
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO writable (filling) VALUES (zeroblob(65536))`)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM writable`)
		}
		return err
	})
}

// postgresCause makes Postgres's reason why it can't write one of the store's.
func postgresCause(err error) error {
	switch code(err) {
	case "53100", "53200": // disk_full, out_of_memory
		return fmt.Errorf("%w: %w", ErrFull, err)
	case "25006":
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return noPartition(err)
}

// The looks whether Postgres can be written. TRUNCATE gives the table a new file, whose pages the disk must have room for. It
// would wait for whatever reads the table, such as a backup; then a row is added instead, which goes with the next TRUNCATE.
// Each is one message, and one transaction.
const (
	fillSQL = `SET LOCAL lock_timeout = '50ms'; TRUNCATE writable; INSERT INTO writable SELECT repeat('x', 7000) FROM generate_series(1, 8)`
	addSQL  = `SET LOCAL lock_timeout = '50ms'; INSERT INTO writable VALUES (repeat('x', 7000))`
)

// Ping implements Health, in the same way.
func (p *Postgres) Ping(ctx context.Context) error {
	if err := p.hasRoom(ctx); err != nil {
		return err
	}
	var err error
	for _, statement := range []string{fillSQL, addSQL} {
		err = p.change(ctx, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if code(err) != lockNotAvailable {
			return err
		}
	}
	return nil // another replica looks at this moment
}

// hasRoom says whether the server takes writes at all, and has a partition for now.
func (p *Postgres) hasRoom(ctx context.Context) error {
	var readOnly, room bool
	err := p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
       EXISTS (SELECT FROM sendcode_partitions p WHERE coalesce(p.begins, '-infinity') <= {{now}} AND coalesce(p.ends, 'infinity') > {{now}})`)).Scan(&readOnly, &room)
	})
	switch {
	case err == nil && readOnly:
		err = fmt.Errorf("%w: %w", ErrUnavailable, ErrReadOnly)
	case err == nil && !room:
		err = fmt.Errorf("%w: %w", ErrUnavailable, ErrNoPartition)
	}
	return err
}

// noPartition makes the database's word for a row without a place our own.
func noPartition(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "23514" && e.ConstraintName == "" { // a check of ours has a name
		return fmt.Errorf("%w: %w", ErrNoPartition, err)
	}
	return err
}
