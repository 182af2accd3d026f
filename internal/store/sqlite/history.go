package sqlite

import (
	"cmp"
	"context"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

// countedSQL reads the counted sends of a bucket after @counted_after. IS TRUE keeps SQLite from
// using an index on app, channel and purpose, because that index would read the rows of all
// recipients. Only the index by recipient and time is left. historySQL also reads the recipient's
// rejected sends that ended after @rejected_after. In the rows of the rejected sends, the
// verification is empty.
const (
	countedSQL = `
SELECT s.id, s.logged_at, s.verification_id, s.status IN ('queued', 'sending') FROM sends s
WHERE s.recipient <= @recipient AND (s.recipient, s.logged_at) > (@recipient, @counted_after)
  AND (s.app = @app AND s.channel = @channel AND s.purpose IN (SELECT value FROM json_each(@purposes))) IS TRUE AND (s.counts = true) IS TRUE`
	historySQL = countedSQL + `
UNION ALL
SELECT f.id, f.finished_at, '', false FROM failures f
WHERE f.recipient = @recipient AND f.app = @app AND f.channel = @channel AND f.counts = true AND f.finished_at > @rejected_after`
)

// readHistory reads the rows that a query selects. Rejected sends are read for all purposes; see
// store.Outcome.BadAddress.
func readHistory(q sqldb.Tx, l rowrules.HistoryQuery) (rowrules.History, error) {
	history, statement := rowrules.History{Now: q.Now}, historySQL
	if l.RejectedWithin == 0 {
		statement = countedSQL
	}
	_, err := q.Run(statement, sqldb.Args{
		"recipient": l.Recipient, "app": l.App, "channel": l.Channel, "purposes": l.Purposes,
		"counted_after": q.Now.Add(-l.CountedWithin), "rejected_after": q.Now.Add(-l.RejectedWithin.Truncate(time.Microsecond)),
	},
		func(read sqldb.Scan) error {
			var p rowrules.PastSend
			err := read(&p.ID, sqlgen.ScannerFor(&p.At), &p.Verification, &p.InFlight)
			if p.Verification == "" {
				history.Rejections = append(history.Rejections, p)
			} else {
				history.Past = append(history.Past, p)
			}
			return err
		})
	return history, err
}

// ReadHistory implements sqldb.Engine.
func (db *DB) ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error) {
	return sqldb.ReadWithResult(ctx, &db.DB, "ReadHistory", func(q sqldb.Tx) (rowrules.History, error) { return readHistory(q, l) })
}

var verificationSQL = `
SELECT ` + sqldb.SendColumns + `, ` + sqldb.VerificationColumns + ` FROM verifications v CROSS JOIN sends s
WHERE v.id = @id AND s.verification_id = @id AND s.recipient <= (SELECT o.recipient FROM verifications o WHERE o.id = @id)
  AND (s.recipient, s.logged_at) > ((SELECT o.recipient FROM verifications o WHERE o.id = @id),
    (SELECT o.created_at FROM verifications o WHERE o.id = @id) - @drift)
ORDER BY s.number DESC LIMIT 1`

// Verification implements sqldb.Engine.
func (db *DB) Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error) {
	var now time.Time
	if !store.AreValidTexts(id) {
		return store.Verification{}, store.Send{}, now, fault.NotFound
	}
	w, err := sqldb.ReadWithResult(ctx, &db.DB, "Verification", func(q sqldb.Tx) (store.Work, error) {
		now = q.Now
		found, err := sqldb.QueryAll(q, sqldb.WorkDestinations, verificationSQL, sqldb.Args{"id": id, "drift": store.MaxIDTimeDrift})
		if err != nil || len(found) == 0 {
			return store.Work{}, cmp.Or(err, error(fault.NotFound))
		}
		return found[0], nil
	})
	return w.Verification, w.Send, now, err
}

// VerificationRow implements sqldb.Engine.
func (db *DB) VerificationRow(ctx context.Context, id string) (v store.Verification, now time.Time, err error) {
	found, now, err := db.VerificationsByID(ctx, []string{id})
	if err != nil || len(found) == 0 {
		return v, now, cmp.Or(err, error(fault.NotFound))
	}
	return found[0], now, nil
}
