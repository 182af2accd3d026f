package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
)

var prefixPauseSQL = `SELECT ` + prefixPauseTable.SelectList() + ` FROM prefix_pauses p`

const (
	// acceptedByCarrierSQL holds if a carrier accepted the message of send s, or may have. Test
	// recipients, to whom nothing is sent, don't count.
	acceptedByCarrierSQL = `s.channel = 'sms' AND s.prefix <> '' AND s.status IN ('sent', 'unknown')
  AND NOT (s.provider = 'test' AND s.provider_code = '')`

	lowConversionPrefixesSQL = `
SELECT s.app, max(s.country), s.prefix, v.class, count(*), count(v.approved_at)
FROM sends s JOIN verifications v ON v.id = s.verification_id AND ` + CountedCodeSQL + `
WHERE ` + acceptedByCarrierSQL + ` AND s.logged_at > @from AND s.logged_at <= @to AND @only = (s.app `

	notYetPausedSQL = `)
  AND NOT EXISTS (SELECT 1 FROM prefix_pauses p WHERE p.app = s.app AND p.prefix = s.prefix AND p.class = v.class
    AND coalesce(p.lifted_at, p.until) >= s.logged_at)
GROUP BY s.app, s.prefix, v.class HAVING count(*) >= @sends AND 100 * count(v.approved_at) < @percent * count(*)
ORDER BY count(*) DESC, s.app, s.prefix, v.class LIMIT @most`

	conversionElsewhereSQL = `
SELECT '', '', '', '', count(*), count(v.approved_at)
FROM (SELECT s.verification_id FROM sends s JOIN verifications v ON v.id = s.verification_id AND v.class = @class AND ` + CountedCodeSQL + `
      WHERE ` + acceptedByCarrierSQL + ` AND s.app = @app AND s.prefix <> @prefix AND (@country = '' OR s.country = @country)
        AND s.logged_at > @from AND s.logged_at <= @to
      ORDER BY s.logged_at DESC, s.id DESC LIMIT @most) n JOIN verifications v ON v.id = n.verification_id`

	countEarlierPausesSQL = `
SELECT count(*) FROM prefix_pauses p WHERE p.app = @app AND p.prefix = @prefix AND p.class = @class AND p.since > @after AND p.lifted_at IS NULL`

	currentPauseSQL = ` WHERE p.app = @app AND p.prefix = @prefix AND p.class = @class AND p.lifted_at IS NULL AND p.until > (SELECT @now)
  ORDER BY p.since DESC LIMIT 1`

	// pauseAtSendEndSQL selects the newest pause in force at @at, when the send of @verification
	// ended, for the verification's class.
	pauseAtSendEndSQL = ` WHERE p.app = @app AND p.prefix = @prefix AND p.since <= @at AND coalesce(p.lifted_at, p.until) >= @at
  AND p.class = (SELECT v.class FROM verifications v WHERE v.id = @verification)
  ORDER BY p.since DESC LIMIT 1`

	liftPrefixPauseSQL = `UPDATE prefix_pauses SET lifted_at = @now, lifted_by = @by, lifted_why = @why WHERE id = @id AND lifted_at IS NULL
  AND until > @now`

	acquireJobLeaseSQL = `
INSERT INTO leases AS t (name, until) SELECT @name, clock.now + CAST(@lasts AS interval) FROM (SELECT @now AS now) AS clock WHERE true
ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE t.until <= @now
  OR t.until > excluded.until + CAST(@lasts AS interval)` // the lease was taken while the clock was ahead
)

// These bound the watch on prefixes. An hour has enough messages to judge a prefix, and fraud for
// an hour costs little. If a first pause stops honest people, it ends before most of them ask for
// help.
const (
	watchedSpan       = time.Hour // the counted sends are from a period of this length, which ended one code lifetime ago
	firstPrefixPause  = time.Hour // doubled for each earlier pause within a week that wasn't lifted
	maxPrefixPause    = 24 * time.Hour
	usualPercentSpan  = 7 * 24 * time.Hour // how far back the usual percentage and earlier pauses are read
	usualPercentSends = 10_000             // the newest sends that are read for a usual percentage, at most
	maxNewPauses      = 100                // in one run
)

// prefixConversion has the number of an app's sends to a prefix, and how many of their codes were
// approved. As the result of conversionElsewhereSQL, it has only these numbers.
type prefixConversion struct {
	app, country, prefix string
	class                store.Class
	sends, approved      int
}

func prefixConversionFields(c *prefixConversion) []any {
	return []any{&c.app, &c.country, &c.prefix, (*string)(&c.class), &c.sends, &c.approved}
}

// pausePrefixes pauses no prefix if few codes are approved at other prefixes too.
func (t Tx) pausePrefixes(w store.PrefixWatch) (started []store.PrefixPause, err error) {
	to := t.Now.Add(-w.TTL.Truncate(time.Microsecond))
	from := to.Add(-watchedSpan)
	found, err := QueryAll(t, prefixConversionFields, lowConversionPrefixesSQL+t.Dialect.inList("apps")+notYetPausedSQL,
		Args{
			"from": from, "to": to, "sends": w.MinSends, "percent": w.MinApprovedPercent, "most": maxNewPauses,
			"apps": append([]string{}, w.Apps...), "only": w.Only,
		})
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if w.Exempts(c.prefix) {
			continue
		}
		usual, err := t.usualPercent(w, c, from)
		if err != nil {
			return nil, err
		}
		if usual != store.UnknownUsualPercent && usual < 2*w.MinApprovedPercent {
			continue // few codes are approved anywhere, so this prefix is not unusual
		}
		p, err := t.startPause(c, usual)
		if err != nil {
			return nil, err
		}
		started = append(started, p)
	}
	return started, nil
}

// usualPercent returns the percentage of approved codes of the class outside the prefix, in its
// country or in all countries, whichever is higher. It reads the week up to before, which is the
// start of the watched hour, so that an attack on a country doesn't lower the percentage. A
// percentage of fewer than w.MinSends sends doesn't count. If neither counts, usualPercent returns
// store.UnknownUsualPercent.
func (t Tx) usualPercent(w store.PrefixWatch, c prefixConversion, before time.Time) (int, error) {
	highest := store.UnknownUsualPercent
	for _, country := range []string{c.country, ""} {
		s, err := queryFirst(t, prefixConversionFields, conversionElsewhereSQL,
			Args{
				"app": c.app, "prefix": c.prefix, "class": c.class, "country": country,
				"from": before.Add(-usualPercentSpan), "to": before, "most": usualPercentSends,
			})
		if err != nil {
			return 0, err
		}
		if s.sends >= w.MinSends {
			highest = max(highest, 100*s.approved/s.sends)
		}
	}
	return highest, nil
}

// startPause stores a pause of firstPrefixPause, doubled for each pause of the last week that
// wasn't lifted, up to maxPrefixPause.
func (t Tx) startPause(c prefixConversion, usual int) (store.PrefixPause, error) {
	earlier, err := queryFirst(t, OneColumn[int], countEarlierPausesSQL, Args{
		"app": c.app, "prefix": c.prefix, "class": c.class,
		"after": t.Now.Add(-usualPercentSpan),
	})
	if err != nil {
		return store.PrefixPause{}, err
	}
	lasts := firstPrefixPause
	for ; earlier > 0 && lasts < maxPrefixPause; earlier-- {
		lasts *= 2
	}
	p := store.PrefixPause{
		ID: uuid.NewSHA1(pauseIDNamespace,
			[]byte(c.app+"\x00"+c.prefix+"\x00"+string(c.class)+"\x00"+t.Now.Format(time.RFC3339Nano))),
		App: c.app, Country: c.country, Prefix: c.prefix, Class: c.class, Since: t.Now,
		Until: t.Now.Add(min(lasts, maxPrefixPause)),
		Sends: c.sends, Approved: c.approved, UsualPercent: usual,
	}
	return p, t.exec(prefixPauseTable.InsertSQL(store.InsertedColumn, &p))
}

// pauseIDNamespace is the namespace of the IDs of pauses and of periods of low conversion, UUIDs of
// version 5 (RFC 9562, section 5.5).
var pauseIDNamespace = uuid.MustParse("5f0f3a5e-2b57-5b0e-9d0c-7f6d2f1f9b11")

// prefixWatchLockKey lets one replica at a time pause prefixes.
const prefixWatchLockKey = 0x7761746368

// PausePrefixes pauses the prefixes with too few approved codes, each for one class of callers,
// unless few codes of the class are approved at other prefixes too. Sends from before the end of a
// prefix's last pause don't count, so no send leads to two pauses, even if replicas call it at
// once.
func (db *DB) PausePrefixes(ctx context.Context, w store.PrefixWatch) ([]store.PrefixPause, error) {
	return WriteWithResult(ctx, db, "PausePrefixes", func(q Tx) ([]store.PrefixPause, error) {
		// a separate statement, so that the next one sees the commits of the lock's last holder
		if err := q.ExecAll(Args{"key": prefixWatchLockKey}, db.Dialect.pick(advisoryLockSQL)); err != nil {
			return nil, err
		}
		return q.pausePrefixes(w)
	})
}

// PrefixPaused returns the pause that now stops an app's messages to a prefix for a class, if any.
func (db *DB) PrefixPaused(ctx context.Context, app, prefix string, class store.Class) (p store.PrefixPause,
	paused bool, err error,
) {
	p, err = readFirst(ctx, db, "PrefixPaused", prefixPauseTable.Destinations, prefixPauseSQL+currentPauseSQL,
		Args{"app": app, "prefix": prefix, "class": class})
	if errors.Is(err, fault.NotFound) {
		return store.PrefixPause{}, false, nil
	}
	return p, err == nil, err
}

// PrefixPauses returns pauses sorted by Since and then ID, newest first, with the time on the
// database's clock.
func (db *DB) PrefixPauses(ctx context.Context,
	f store.PrefixPauseFilter,
) (list []store.PrefixPause, now time.Time, err error) {
	now, err = db.readWithClock(ctx, "PrefixPauses", func(q Tx, now time.Time) error {
		var c Conditions
		if f.Active {
			c.Add("p.lifted_at IS NULL AND p.until > ?", now)
		}
		c.addBefore("p.since, p.id", f.Before)
		list, err = QueryAll(q, prefixPauseTable.Destinations,
			prefixPauseSQL+c.Where()+fmt.Sprint(` ORDER BY p.since DESC, p.id DESC LIMIT `, f.Limit), c.Args)
		return err
	})
	return list, now, err
}

// LiftPrefixPause ends a pause and returns it, or fault.NotFound if no pause has the ID. act may be
// nil. If the pause had ended already, LiftPrefixPause writes nothing, not even act, and done is
// false.
func (db *DB) LiftPrefixPause(ctx context.Context, l store.LiftPauseRequest,
	act *store.AuditEntry,
) (lifted store.PrefixPause, done bool, err error) {
	if l, act, err = l.Validated(act); err != nil {
		return store.PrefixPause{}, false, err
	}
	err = db.Write(ctx, "LiftPrefixPause", func(q Tx) error {
		if done, err = q.Change(liftPrefixPauseSQL, Args{"by": l.By, "why": l.Why, "id": l.ID, "now": q.Now}); err != nil {
			return err
		}
		lifted, err = queryFirst(q, prefixPauseTable.Destinations, prefixPauseSQL+` WHERE p.id = @id`, Args{"id": l.ID})
		if err != nil || !done || act == nil {
			return err
		}
		return q.addAuditEntry(act.WithLiftedPause(lifted))
	})
	return lifted, done && err == nil, err
}

// AcquireJobLease takes the named lease for a job that one replica does for all. It returns false
// until an earlier lease, of any replica, has ended. No lease can be released early.
func (db *DB) AcquireJobLease(ctx context.Context, name string, lasts time.Duration) (bool, error) {
	return db.runOne(ctx, "AcquireJobLease", acquireJobLeaseSQL, Args{"name": name, "lasts": lasts})
}
