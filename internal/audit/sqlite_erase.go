package audit

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// Erase implements Log. The file keeps nothing of it either: what a row gives up is overwritten (secure_delete), and the
// write-ahead log is emptied where no reader needs it just now.
func (s *SQLite) Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act Act) error {
	act, err := checkErased(h, keep, act)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		words := strings.NewReplacer("{{now}}", "$2", "{{later}}", "$3", "{{empty}}", "x''", "{{false}}", "0")
		for _, p := range personal {
			if p.erase == "" || p.counted {
				continue
			}
			args := []any{h[:], µs(now)}
			if !strings.Contains(p.erase, "{{now}}") {
				args = args[:1]
			}
			if _, err := tx.ExecContext(ctx, words.Replace(p.erase), args...); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, words.Replace(addErasureSQL), h[:], µs(now), µs(now)+keep.Microseconds()); err != nil {
			return err
		}
		return sqliteAct(ctx, tx, act, now)
	})
	if err != nil {
		return err
	}
	return s.emptyWAL(ctx)
}

// emptyWAL brings what was written into the file itself and leaves nothing beside it, unless a reader needs it just now.
func (s *SQLite) emptyWAL(ctx context.Context) error {
	_, err := s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return unavailable(err)
}

// Forget implements Log.
func (s *SQLite) Forget(ctx context.Context) (n int, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, strings.ReplaceAll(dueErasuresSQL, "{{now}}", "$1"), µs(now))
		if err != nil {
			return err
		}
		due, err := collect(rows, func(h *recipient.Hash) []any { return []any{hashField{h}} })
		if err != nil {
			return err
		}
		for _, h := range due {
			for _, statement := range forgetting() {
				if err := sqliteForget(ctx, tx, statement, h, now); err != nil {
					return err
				}
			}
		}
		n = len(due)
		return nil
	})
	if err != nil || n == 0 {
		return 0, err
	}
	return n, s.emptyWAL(ctx)
}

func sqliteForget(ctx context.Context, tx *sql.Tx, statement string, h recipient.Hash, now time.Time) error {
	statement = strings.NewReplacer("$1", ":hash", "$2", ":nobody", "{{now}}", ":now").Replace(statement)
	var args []any
	for _, arg := range []struct {
		name  string
		value any
	}{{":hash", h[:]}, {":nobody", nobody[:]}, {":now", µs(now)}} {
		if strings.Contains(statement, arg.name) {
			args = append(args, sql.Named(arg.name[1:], arg.value))
		}
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}
