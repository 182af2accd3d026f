package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const prefixPauseColumns = `p.id, p.app, p.country, p.prefix, p.since, p.until, p.sends, p.approved, p.usual, p.lifted_at, p.lifted_by, p.lifted_why`

// fields are where prefixPauseColumns are scanned to.
func (p *PrefixPause) fields() []any {
	return []any{
		&p.ID, &p.App, &p.Country, &p.Prefix, timeField{&p.Since}, timeField{&p.Until}, &p.Sends, &p.Approved, &p.Usual,
		timeField{&p.LiftedAt}, &p.LiftedBy, &p.LiftedWhy,
	}
}

func (c *conversion) fields() []any {
	return []any{&c.app, &c.country, &c.prefix, &c.sends, &c.approved}
}

// wentOutSQL: a carrier took it, or may have; test recipients are sent nothing.
const wentOutSQL = `s.channel = 'sms' AND s.number > 0 AND s.prefix <> '' AND s.status IN ('sent', 'unknown') AND NOT (s.provider = 'test' AND s.provider_code = '')`

// The statements are the same in both databases.
const (
	poorSQL = `
SELECT s.app, max(s.country), s.prefix, count(*), count(v.approved_at)
FROM sends s JOIN verifications v ON v.id = s.verification_id
WHERE ` + wentOutSQL + ` AND s.logged_at > $1 AND s.logged_at <= $2
  AND NOT EXISTS (SELECT 1 FROM prefix_pauses p WHERE p.app = s.app AND p.prefix = s.prefix AND coalesce(p.lifted_at, p.until) >= s.logged_at)
GROUP BY s.app, s.prefix HAVING count(*) >= $3 AND 100 * count(v.approved_at) < $4 * count(*)
ORDER BY count(*) DESC, s.app, s.prefix LIMIT $5`
	shareSQL = `
SELECT '', '', '', count(*), count(v.approved_at)
FROM (SELECT s.verification_id FROM sends s
      WHERE ` + wentOutSQL + ` AND s.app = $1 AND s.prefix <> $2 AND ($3 = '' OR s.country = $3) AND s.logged_at > $4 AND s.logged_at <= $5
      ORDER BY s.logged_at DESC, s.id DESC LIMIT $6) n JOIN verifications v ON v.id = n.verification_id`
	pausedSQL = `
SELECT p.app, '', p.prefix, count(*), 0 FROM prefix_pauses p
WHERE p.app = $1 AND p.prefix = $2 AND p.since > $3 AND p.lifted_at IS NULL GROUP BY p.app, p.prefix`
	pauseSQL = `
INSERT INTO prefix_pauses (id, app, country, prefix, since, until, sends, approved, usual)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	prefixPausedSQL = `SELECT ` + prefixPauseColumns + ` FROM prefix_pauses p
WHERE p.app = $1 AND p.prefix = $2 AND p.lifted_at IS NULL AND p.until > $3 ORDER BY p.since DESC LIMIT 1`
	liftPrefixSQL = `UPDATE prefix_pauses SET lifted_at = $1, lifted_by = $2, lifted_why = $3 WHERE id = $4 AND lifted_at IS NULL AND until > $1`
	prefixOfSQL   = `SELECT ` + prefixPauseColumns + ` FROM prefix_pauses p WHERE p.id = $1`
	// pauseOfSQL is what held for a send when it ended.
	pauseOfSQL = `SELECT ` + prefixPauseColumns + ` FROM prefix_pauses p
WHERE p.app = $1 AND p.prefix = $2 AND p.since <= $3 AND coalesce(p.lifted_at, p.until) >= $3 ORDER BY p.since DESC LIMIT 1`
	turnSQL = `
INSERT INTO turns AS t (name, until) VALUES ($1, $3) ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE t.until <= $2`
)

// sqlBook is a watchBook over a transaction.
type sqlBook struct {
	at   func(time.Time) any
	rows func(query string, args ...any) ([]conversion, error)
	exec func(statement string, args ...any) error
}

func (b sqlBook) poor(w Watch, from, to time.Time) ([]conversion, error) {
	return b.rows(poorSQL, b.at(from), b.at(to), w.Sends, w.Percent, maxStarted)
}

func (b sqlBook) share(app, country, prefix string, from, to time.Time) (conversion, error) {
	return b.one(shareSQL, app, prefix, country, b.at(from), b.at(to), usualSends)
}

func (b sqlBook) paused(app, prefix string, after time.Time) (int, error) {
	c, err := b.one(pausedSQL, app, prefix, b.at(after))
	return c.sends, err
}

func (b sqlBook) one(query string, args ...any) (conversion, error) {
	rows, err := b.rows(query, args...)
	if err != nil || len(rows) == 0 {
		return conversion{}, err
	}
	return rows[0], nil
}

func (b sqlBook) pause(p PrefixPause) error {
	return b.exec(pauseSQL, p.ID, p.App, p.Country, p.Prefix, b.at(p.Since), b.at(p.Until), p.Sends, p.Approved, p.Usual)
}

// watchLock is the advisory lock of those who watch.
const watchLock = 0x7761746368

// Watch implements Log.
func (p *Postgres) Watch(ctx context.Context, w Watch) (started []PrefixPause, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		// A statement of its own: what follows sees what whoever had the lock has written.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(watchLock)); err != nil {
			return err
		}
		now, err := p.txClock(ctx, tx)
		if err != nil {
			return err
		}
		started, err = w.watch(now, sqlBook{
			at: postgresWords.at,
			rows: func(query string, args ...any) ([]conversion, error) {
				return txRows(ctx, tx, (*conversion).fields, query, args...)
			},
			exec: func(statement string, args ...any) error { _, err := tx.Exec(ctx, statement, args...); return err },
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return started, nil
}

func (p *Postgres) txClock(ctx context.Context, tx pgx.Tx) (now time.Time, err error) {
	err = tx.QueryRow(ctx, p.sql(`SELECT {{now}}`)).Scan(timeField{&now})
	return now, err
}

// Watch implements Log.
func (s *SQLite) Watch(ctx context.Context, w Watch) (started []PrefixPause, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		started, err = w.watch(now, sqlBook{
			at: sqliteWords.at,
			rows: func(query string, args ...any) ([]conversion, error) {
				rows, err := tx.QueryContext(ctx, query, args...)
				if err != nil {
					return nil, err
				}
				return collect(rows, (*conversion).fields)
			},
			exec: func(statement string, args ...any) error {
				_, err := tx.ExecContext(ctx, statement, args...)
				return err
			},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return started, nil
}

// PrefixPaused implements Log.
func (p *Postgres) PrefixPaused(ctx context.Context, app, prefix string) (PrefixPause, bool, error) {
	now, err := p.clock(ctx)
	if err != nil {
		return PrefixPause{}, false, err
	}
	return only(readRows(ctx, p, (*PrefixPause).fields, prefixPausedSQL, app, prefix, now))
}

// PrefixPaused implements Log.
func (s *SQLite) PrefixPaused(ctx context.Context, app, prefix string) (PrefixPause, bool, error) {
	return only(sqliteRows(ctx, s, (*PrefixPause).fields, prefixPausedSQL, app, prefix, µs(micro(s.now()))))
}

// untried says that a prefix's pause may have stopped the send.
func (s Send) untried() bool { return s.Prefix != "" && s.Status == Failed && s.Reason == ReasonPaused }

func (s Send) pauseArgs(d dialect) []any { return []any{s.App, s.Prefix, d.at(s.FinishedAt)} }

// theOne is a row that there may be.
func theOne(rows []PrefixPause, err error) (*PrefixPause, error) {
	one, found, err := only(rows, err)
	if !found {
		return nil, err
	}
	return &one, nil
}

// only is the first of at most one row.
func only[T any](rows []T, err error) (one T, found bool, _ error) {
	if err != nil || len(rows) == 0 {
		return one, false, err
	}
	return rows[0], true, nil
}

// PrefixPauses implements Log.
func (p *Postgres) PrefixPauses(ctx context.Context, f PrefixPauseFilter) ([]PrefixPause, time.Time, error) {
	f, err := f.checked()
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, now, err
	}
	query, args := f.query(now, postgresWords.at)
	list, err := readRows(ctx, p, (*PrefixPause).fields, query, args...)
	return list, now, err
}

// PrefixPauses implements Log.
func (s *SQLite) PrefixPauses(ctx context.Context, f PrefixPauseFilter) ([]PrefixPause, time.Time, error) {
	f, err := f.checked()
	if err != nil {
		return nil, time.Time{}, err
	}
	now := micro(s.now())
	query, args := f.query(now, sqliteWords.at)
	list, err := sqliteRows(ctx, s, (*PrefixPause).fields, query, args...)
	return list, now, err
}

// LiftPrefix implements Log.
func (p *Postgres) LiftPrefix(ctx context.Context, l PrefixLifting, act *Act) (lifted PrefixPause, done bool, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return PrefixPause{}, false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		now, err := p.txClock(ctx, tx)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, liftPrefixSQL, now, l.By, l.Why, l.ID)
		if err != nil {
			return err
		}
		rows, err := txRows(ctx, tx, (*PrefixPause).fields, prefixOfSQL, l.ID)
		if done = tag.RowsAffected() > 0; err != nil || len(rows) == 0 {
			return errors.Join(err, missing(rows))
		}
		if lifted = rows[0]; act == nil || !done {
			return nil
		}
		return p.addAct(ctx, tx, lifted.lifted(*act))
	})
	return lifted, done && err == nil, err
}

func missing(rows []PrefixPause) error {
	if len(rows) == 0 {
		return ErrNotFound
	}
	return nil
}

// LiftPrefix implements Log.
func (s *SQLite) LiftPrefix(ctx context.Context, l PrefixLifting, act *Act) (lifted PrefixPause, done bool, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return PrefixPause{}, false, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		result, err := tx.ExecContext(ctx, liftPrefixSQL, µs(now), l.By, l.Why, l.ID)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if lifted, err = first(ctx, tx, (*PrefixPause).fields, prefixOfSQL, l.ID); err != nil {
			return err
		}
		if done = n > 0; act == nil || !done {
			return nil
		}
		return sqliteAct(ctx, tx, lifted.lifted(*act), now)
	})
	return lifted, done && err == nil, err
}

// Turn implements Log.
func (p *Postgres) Turn(ctx context.Context, name string, lasts time.Duration) (mine bool, err error) {
	if err := checkTurn(name, lasts); err != nil {
		return false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		now, err := p.txClock(ctx, tx)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, turnSQL, name, now, now.Add(lasts))
		mine = tag.RowsAffected() > 0
		return err
	})
	return mine && err == nil, err
}

// Turn implements Log.
func (s *SQLite) Turn(ctx context.Context, name string, lasts time.Duration) (bool, error) {
	if err := checkTurn(name, lasts); err != nil {
		return false, err
	}
	return s.one(ctx, turnSQL, func(now time.Time) []any { return []any{name, µs(now), µs(now.Add(lasts))} })
}
