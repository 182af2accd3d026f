package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// These are result codes (https://www.sqlite.org/rescode.html). The lower byte is the primary code.
const (
	sqliteBusy, sqliteLocked, sqliteNoMem = 5, 6, 7
	sqliteReadOnly, sqliteIOErr           = 8, 10
	sqliteFull, sqliteCantOpen            = 13, 14
	sqliteConstraint                      = 19
	sqliteIOErrWrite                      = sqliteIOErr | 3<<8
	sqliteIOErrNoMem                      = sqliteIOErr | 12<<8
	sqliteIOErrShmSize                    = sqliteIOErr | 19<<8
)

// commitUndone reports whether a failed COMMIT certainly committed nothing: the error means that
// SQLite didn't write the last frame of the write-ahead log, and it or the driver rolled back.
// After any other error, such as a failed sync, the last frame may be in the file, and if the
// process crashes before a later commit overwrites it, the transaction may take effect. See
// https://www.sqlite.org/lang_transaction.html and https://www.sqlite.org/walformat.html.
func commitUndone(err error) bool { return commitUndoneCode(sqliteCode(err)) }

func commitUndoneCode(code int) bool {
	switch code & 0xff {
	case sqliteFull, sqliteBusy, sqliteLocked, sqliteReadOnly, sqliteCantOpen, sqliteNoMem, sqliteConstraint:
		return true
	}
	return code == sqliteIOErrWrite
}

func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// withCause wraps err in ErrNoSpace or ErrReadOnly if SQLite's result code says so.
func withCause(err error) error {
	switch why := sqliteCode(err); {
	case why == sqliteIOErrWrite || why == sqliteIOErrNoMem || why == sqliteIOErrShmSize:
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case why&0xff == sqliteFull || why&0xff == sqliteNoMem:
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case why&0xff == sqliteReadOnly:
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return err
}

// LastSendCommit implements sqldb.Engine. It is nil: a Ping is cheap in SQLite, so health checks
// call Ping.
func (db *DB) LastSendCommit() *sqldb.CommitTiming { return nil }

// Ping implements sqldb.PerDatabase. It writes, because reading also works on a full disk. It adds
// more pages than a send needs, and frees them before the commit for the next send.
func (db *DB) Ping(ctx context.Context) error {
	defer db.Observe(&ctx, "ping", "ping")()
	return db.Engine.Write(ctx, "Ping", sqldb.InOrder, func(q sqldb.Tx) error {
		return q.ExecAll(nil, `INSERT INTO write_probe (filling) VALUES (zeroblob(65536))`, `DELETE FROM write_probe`)
	})
}
