package sqldb

import (
	"context"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

const (
	setReceiptSQL = `
UPDATE sends SET receipt = @status WHERE id = @id AND channel = 'sms'
   AND (status IN ('sending', 'sent', 'unknown') OR status = 'queued' AND in_doubt)
   AND (receipt = '' OR receipt = 'undelivered' AND @status = 'delivered')`

	// addUndeliveredSQL adds to failures a message that its carrier reports as undelivered, even
	// before the send has an outcome.
	addUndeliveredSQL = `
INSERT INTO failures (status, logged_at, id, finished_at, counts, app, channel, recipient)
SELECT 'undelivered', s.logged_at, s.id, coalesce(s.finished_at, s.logged_at), false, s.app, s.channel, s.recipient
FROM sends s WHERE s.id = @id AND s.receipt = 'undelivered' ON CONFLICT DO NOTHING`
)

// addDeliveredMinuteSQL adds the minute of a delivered message to minute_index, through which
// Postgres finds such messages.
var addDeliveredMinuteSQL = dialectSQL{Postgres: `
INSERT INTO minute_index (field, value, minute) SELECT 'receipt', 'delivered', date_trunc('minute', s.logged_at) FROM sends s
  WHERE s.id = @id
  ON CONFLICT DO NOTHING`}

var (
	setWorstEventSQL = `UPDATE sends SET worst_event = @kind WHERE id = @id AND ` + eventRankSQL("worst_event") + ` < ` +
		eventRankSQL("@kind")
	markBouncedSQL = `UPDATE sends SET bounced = true WHERE id = @id`
)

func eventRankSQL(event string) string {
	return `CASE ` + event +
		` WHEN 'delivered' THEN 1 WHEN 'bounced' THEN 2 WHEN 'opted_out' THEN 3 WHEN 'complained' THEN 4 ELSE 0 END`
}

var providerEventsSQL = `SELECT ` + providerEventTable.SelectList() +
	` FROM provider_events e WHERE e.send_id = @id ORDER BY e.at, e.kind`

// IngestProviderEvent records a provider's event on a send that it accepted. In the same
// transaction it adds the suppression, if suppress.For > 0, and the events for the app. A
// bounce for good marks the send as bounced without a change of its status.
//
// A second event of a kind isn't recorded, and IngestProviderEvent returns false. All bounces are
// of one kind. But a bounce for good that follows a temporary one still marks the send, and a hard
// bounce still adds the suppression. Errors: fault.NotFound, fault.Unavailable.
func (db *DB) IngestProviderEvent(ctx context.Context, e store.ProviderEvent, suppress store.NewSuppression,
	events ...store.NewEvent,
) (bool, error) {
	e, suppress = e.Sanitized(suppress)
	recorded, err := WriteWithResult(ctx, db, "IngestProviderEvent", func(q Tx) (bool, error) {
		row, err := queryFirst(q, sendFields, `SELECT `+SendColumns+` FROM sends s WHERE s.id = @id`+
			q.Dialect.pick(dialectSQL{Postgres: ` FOR NO KEY UPDATE`}), Args{"id": e.Send})
		if err != nil {
			return false, err
		}
		e = e.WithTimes(q.Now)
		if e.ForGood {
			if err := q.exec(markBouncedSQL, Args{"id": e.Send}); err != nil {
				return false, err
			}
		}
		insert, args := providerEventTable.InsertSQL(store.InsertedColumn, &e)
		recorded, err := q.Change(insert+` ON CONFLICT (send_id, kind) DO NOTHING`, args)
		if err == nil && suppress.For > 0 {
			_, err = q.Suppress(e.Suppression(suppress, row))
		}
		if err != nil || !recorded {
			return false, err
		}
		if err := q.AddAppEvents(e.Send, e.Detail, events...); err != nil {
			return false, err
		}
		return true, q.exec(setWorstEventSQL, Args{"id": e.Send, "kind": e.Kind})
	})
	if err == nil {
		db.SettleNew(ctx, e.Send, suppress)
	}
	return recorded, err
}

// RecordReceipt records a text message's receipt, Delivered or Undelivered. It returns false if the
// send can't have gone out or has a receipt, except that Undelivered may become Delivered.
func (db *DB) RecordReceipt(ctx context.Context, id uuid.UUID, status store.Status,
	events ...store.NewEvent,
) (bool, error) {
	statement := db.Dialect.pick(addDeliveredMinuteSQL)
	if status == store.Undelivered {
		statement = addUndeliveredSQL
	}
	return WriteWithResult(ctx, db, "RecordReceipt", func(q Tx) (bool, error) {
		args := Args{"id": id, "status": status}
		changed, err := q.Change(setReceiptSQL, args)
		if err != nil || !changed {
			return false, err
		}
		if err := q.AddAppEvents(id, "", events...); err != nil {
			return false, err
		}
		return true, q.ExecAll(args, statement)
	})
}
