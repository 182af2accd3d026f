package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/internal/store"
)

var prefixPauseSQL = `SELECT ` + prefixPauseTable.selectList() + ` FROM prefix_pauses p`

const (
	// wentOutSQL: a carrier took it, or may have; test recipients are sent nothing.
	wentOutSQL = `s.channel = 'sms' AND s.number > 0 AND s.prefix <> '' AND s.status IN ('sent', 'unknown')
  AND NOT (s.provider = 'test' AND s.provider_code = '')`

	poorSQL = `
SELECT s.app, max(s.country), s.prefix, count(*), count(v.approved_at)
FROM sends s JOIN verifications v ON v.id = s.verification_id
WHERE ` + wentOutSQL + ` AND s.logged_at > @from AND s.logged_at <= @to
  AND NOT EXISTS (SELECT 1 FROM prefix_pauses p WHERE p.app = s.app AND p.prefix = s.prefix
    AND coalesce(p.lifted_at, p.until) >= s.logged_at)
GROUP BY s.app, s.prefix HAVING count(*) >= @sends AND 100 * count(v.approved_at) < @percent * count(*)
ORDER BY count(*) DESC, s.app, s.prefix LIMIT @most`

	shareSQL = `
SELECT '', '', '', count(*), count(v.approved_at)
FROM (SELECT s.verification_id FROM sends s
      WHERE ` + wentOutSQL + ` AND s.app = @app AND s.prefix <> @prefix AND (@country = '' OR s.country = @country)
        AND s.logged_at > @from AND s.logged_at <= @to
      ORDER BY s.logged_at DESC, s.id DESC LIMIT @most) n JOIN verifications v ON v.id = n.verification_id`

	pausedSQL = `
SELECT p.app, '', p.prefix, count(*), 0 FROM prefix_pauses p
WHERE p.app = @app AND p.prefix = @prefix AND p.since > @after AND p.lifted_at IS NULL GROUP BY p.app, p.prefix`

	pausesNowSQL = ` WHERE p.app = @app AND p.prefix = @prefix AND p.lifted_at IS NULL AND p.until > (SELECT @now)
  ORDER BY p.since DESC LIMIT 1`

	// pausedThenSQL is what held for a send when it ended.
	pausedThenSQL = ` WHERE p.app = @app AND p.prefix = @prefix AND p.since <= @at AND coalesce(p.lifted_at, p.until) >= @at
  ORDER BY p.since DESC LIMIT 1`

	liftPrefixSQL = `UPDATE prefix_pauses SET lifted_at = @now, lifted_by = @by, lifted_why = @why WHERE id = @id AND lifted_at IS NULL
  AND until > @now`

	turnSQL = `
INSERT INTO turns AS t (name, until) SELECT @name, clock.now + @lasts FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE t.until <= @now`
)

func conversionFields(c *store.Conversion) []any {
	return []any{&c.App, &c.Country, &c.Prefix, &c.Sends, &c.Approved}
}

// sqlBook is a watchBook over a transaction.
type sqlBook struct{ q Tx }

// Poor implements store.PrefixRecords.
func (b sqlBook) Poor(w store.PrefixWatch, from, to time.Time) ([]store.Conversion, error) {
	return All(b.q, conversionFields, poorSQL, Args{"from": from, "to": to, "sends": w.Sends, "percent": w.Approved, "most": store.MaxStarted})
}

// Share implements store.PrefixRecords.
func (b sqlBook) Share(app, country, prefix string, from, to time.Time) (store.Conversion, error) {
	return firstRow(b.q, conversionFields, shareSQL, Args{"app": app, "prefix": prefix, "country": country, "from": from, "to": to,
		"most": store.UsualSends})
}

// Paused implements store.PrefixRecords.
func (b sqlBook) Paused(app, prefix string, after time.Time) (int, error) {
	c, err := firstRow(b.q, conversionFields, pausedSQL, Args{"app": app, "prefix": prefix, "after": after})
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return c.Sends, err
}

// Pause implements store.PrefixRecords.
func (b sqlBook) Pause(p store.PrefixPause) error { return b.q.exec(prefixPauseTable.add(&p)) }

// watchLock is the key of the lock under which one replica watches.
const watchLock = 0x7761746368

// PausePrefixes implements PrefixWatcher.
func (db *DB) PausePrefixes(ctx context.Context, w store.PrefixWatch) ([]store.PrefixPause, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return Writing(ctx, db, func(q Tx) ([]store.PrefixPause, error) {
		// A statement of its own: what follows sees what the last holder of the lock has written.
		if err := q.lock(watchLock); err != nil {
			return nil, err
		}
		return w.PausePrefixes(q.Now, sqlBook{q})
	})
}

// PrefixPaused implements PrefixWatcher.
func (db *DB) PrefixPaused(ctx context.Context, app, prefix string) (p store.PrefixPause, paused bool, err error) {
	p, err = readFirstRow(ctx, db, prefixPauseTable.destinations, prefixPauseSQL+pausesNowSQL, Args{"app": app, "prefix": prefix})
	if errors.Is(err, store.ErrNotFound) {
		return store.PrefixPause{}, false, nil
	}
	return p, err == nil, err
}

// PrefixPauses implements PrefixWatcher.
func (db *DB) PrefixPauses(ctx context.Context, f store.PrefixPauseFilter) (list []store.PrefixPause, now time.Time, err error) {
	if f, err = f.Checked(); err != nil {
		return nil, time.Time{}, err
	}
	now, err = db.readAt(ctx, func(q Tx, now time.Time) error {
		var c Conditions
		if f.Active {
			c.Add("p.lifted_at IS NULL AND p.until > ?", now)
		}
		c.AddBefore("p.since, p.id", f.Before)
		list, err = All(q, prefixPauseTable.destinations, prefixPauseSQL+c.Where()+fmt.Sprint(` ORDER BY p.since DESC, p.id DESC LIMIT `, f.Limit),
			Numbered(c.Args))
		return err
	})
	return list, now, err
}

// LiftPrefix implements PrefixWatcher.
func (db *DB) LiftPrefix(ctx context.Context, l store.PrefixLifting,
	act *store.AuditEntry) (lifted store.PrefixPause, done bool, err error) {
	if l, act, err = l.Checked(act); err != nil {
		return store.PrefixPause{}, false, err
	}
	err = db.Write(ctx, func(q Tx) error {
		if done, err = q.change(liftPrefixSQL, Args{"by": l.By, "why": l.Why, "id": l.ID, "now": q.Now}); err != nil {
			return err
		}
		lifted, err = firstRow(q, prefixPauseTable.destinations, prefixPauseSQL+` WHERE p.id = @id`, Args{"id": l.ID})
		if err != nil || !done || act == nil {
			return err
		}
		return q.addAct(lifted.LiftEntry(*act))
	})
	return lifted, done && err == nil, err
}

// AcquireLease implements PrefixWatcher.
func (db *DB) AcquireLease(ctx context.Context, name string, lasts time.Duration) (bool, error) {
	if err := store.CheckAcquireLease(name, lasts); err != nil {
		return false, err
	}
	return db.runOne(ctx, turnSQL, Args{"name": name, "lasts": lasts})
}
