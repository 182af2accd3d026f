package sqldb

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

var (
	lowConversionSQL = `SELECT ` + lowConversionTable.SelectList() + ` FROM low_conversions l`

	// verificationOfSendSQL joins the verification v of each send n by its key. The planner might
	// otherwise read the whole table.
	verificationOfSendSQL = dialectSQL{
		Postgres: "CROSS JOIN LATERAL (SELECT * FROM verifications v WHERE v.id = n.verification_id LIMIT 1) v",
		SQLite:   "CROSS JOIN verifications v ON v.id = n.verification_id",
	}
)

// conversionsSQL selects the conversion of each app. It reads at most @most sends, the newest ones
// of the span.
func (d dialect) conversionsSQL() string {
	return `
SELECT n.app, count(*), count(v.approved_at)
FROM (SELECT s.app, s.verification_id FROM sends s
      WHERE s.logged_at > @from AND s.logged_at <= @to AND ` + d.partitionsSince("@from") + `
        AND s.status IN ('sent', 'unknown') AND NOT (s.provider = 'test' AND s.provider_code = '')
      ORDER BY s.logged_at DESC, s.id DESC LIMIT @most) n ` + d.pick(verificationOfSendSQL) + `
WHERE v.class = @class AND ` + CountedCodeSQL + `
GROUP BY n.app ORDER BY n.app`
}

const (
	// This condition uses the partial index, which also allows an app only one current period.
	currentLowConversionsSQL = ` WHERE l.ended_at IS NULL ORDER BY l.app`

	endLowConversionSQL = `UPDATE low_conversions SET ended_at = @now WHERE id = @id AND ended_at IS NULL`

	addConversionEventSQL = `
INSERT INTO app_events (id, app, type, verification_id, status, reason, test, at, due_at)
VALUES (@event, @app, @type, '', @told, @why, @test, @now, @now)`

	// maxJudgedSends bounds the rows of one run, about a second's work for the database.
	maxJudgedSends = 200_000
)

func conversionFields(c *store.Conversion) []any { return []any{&c.App, &c.Sends, &c.Approved} }

// JudgeConversions begins a period of low conversion for each app where few codes of strangers are
// entered, and ends the periods of apps that have recovered. event makes the event for the app, of
// type store.ConversionLow or store.ConversionRecovered. A period in ended has the figures of its
// end. If replicas call it at once, each period still begins and ends once.
func (db *DB) JudgeConversions(ctx context.Context, w store.ConversionWatch,
	event func(app, kind string) (store.NewEvent, error),
) (begun, ended []store.LowConversion, err error) {
	found, current := map[string]store.Conversion{}, []store.LowConversion(nil)
	now, err := db.readWithClock(ctx, "JudgeConversions", func(q Tx, now time.Time) error {
		to := now.Add(-w.Age)
		list, err := QueryAll(q, conversionFields, q.Dialect.conversionsSQL(),
			Args{"from": to.Add(-w.Span), "to": to, "most": maxJudgedSends, "class": store.StrangerClass})
		if err != nil {
			return err
		}
		for _, c := range list {
			found[c.App] = c
		}
		current, err = QueryAll(q, lowConversionTable.Destinations, lowConversionSQL+currentLowConversionsSQL, nil)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range current {
		if c := found[l.App]; w.HasRecovered(c) {
			l.Sends, l.Approved = c.Sends, c.Approved
			ended = append(ended, l)
		}
		delete(found, l.App) // an app whose period has just ended can begin another in the next run
	}
	for _, c := range found {
		if w.IsLow(c) {
			begun = append(begun, store.LowConversion{App: c.App, Since: now, Sends: c.Sends, Approved: c.Approved})
		}
	}
	if len(begun)+len(ended) == 0 {
		return nil, nil, nil
	}
	slices.SortFunc(begun, func(a, b store.LowConversion) int { return strings.Compare(a.App, b.App) })
	return db.writeConversions(ctx, begun, ended, event)
}

// writeConversions returns the periods of begin and end that no other replica has begun or ended.
func (db *DB) writeConversions(ctx context.Context, begin, end []store.LowConversion,
	event func(app, kind string) (store.NewEvent, error),
) (begun, ended []store.LowConversion, err error) {
	err = db.Write(ctx, "JudgeConversions", func(q Tx) error {
		begun, ended = nil, nil
		addEvent := func(l store.LowConversion, kind string) error {
			e, err := event(l.App, kind)
			if err != nil || e.Type == "" {
				return err
			}
			return q.exec(addConversionEventSQL, Args{
				"event": e.ID, "app": l.App, "type": e.Type, "told": e.Status, "test": e.Test,
				"why": store.Conversion{Sends: l.Sends, Approved: l.Approved}.EventReason(),
			})
		}
		for _, l := range begin {
			l.Since = q.Now
			l.ID = uuid.NewSHA1(pauseIDNamespace, []byte("conversion\x00"+l.App+"\x00"+q.Now.Format(time.RFC3339Nano)))
			insert, args := lowConversionTable.InsertSQL(store.InsertedColumn, &l)
			done, err := q.Change(insert+` ON CONFLICT DO NOTHING`, args)
			if err == nil && done {
				begun, err = append(begun, l), addEvent(l, store.ConversionLow)
			}
			if err != nil {
				return err
			}
		}
		for _, l := range end {
			done, err := q.Change(endLowConversionSQL, Args{"id": l.ID, "now": q.Now})
			if err == nil && done {
				l.EndedAt = q.Now
				ended, err = append(ended, l), addEvent(l, store.ConversionRecovered)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return begun, ended, nil
}

// LowConversions returns the periods of low conversion that have not ended, sorted by app.
func (db *DB) LowConversions(ctx context.Context) ([]store.LowConversion, error) {
	return ReadAll(ctx, db, "LowConversions", lowConversionTable.Destinations, lowConversionSQL+currentLowConversionsSQL, nil)
}
