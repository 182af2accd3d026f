package sqlite

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Erase implements Expirer. The file keeps nothing of it either: what a row gives up is overwritten (secure_delete), and the
// write-ahead log is emptied where no reader needs it just now.
func (s *DB) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act store.AuditEntry) error {
	if err := s.DB.Erase(ctx, h, keep, act); err != nil {
		return err
	}
	return s.emptyWAL(ctx)
}

// Forget implements Expirer.
func (s *DB) Forget(ctx context.Context) (n int, err error) {
	if n, err = s.DB.Forget(ctx); err != nil || n == 0 {
		return 0, err
	}
	return n, s.emptyWAL(ctx)
}

// emptyWAL brings what was written into the file itself and leaves nothing beside it, unless a reader needs it just now.
func (s *DB) emptyWAL(ctx context.Context) error {
	_, err := s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return store.Unavailable(sqliteCause(err))
}
