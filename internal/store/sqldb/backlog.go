package sqldb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// backlogSQL reads only the MaxBacklogCounted oldest rows by ID. As texts, IDs sort in the same
// order, so min finds the oldest.
var backlogSQL = fmt.Sprintf(`
SELECT o.channel, count(*), min(CAST(o.id AS text))
FROM (SELECT channel, id FROM outbox ORDER BY id LIMIT %d) o GROUP BY o.channel`, store.MaxBacklogCounted)

// anySendWaitsSQL reads the same rows as backlogSQL. They suffice, because a waiting send is
// usually older than the sends under way.
var anySendWaitsSQL = fmt.Sprintf(`
SELECT EXISTS (SELECT 1 FROM (SELECT channel, queued FROM outbox ORDER BY id LIMIT %d) o WHERE o.channel = @channel AND o.queued = true)`,
	store.MaxBacklogCounted)

// outboxCountsSQL reads the same rows as backlogSQL. A due row has no lease, or one that has ended.
var outboxCountsSQL = fmt.Sprintf(`
SELECT o.channel, o.stranger, count(CASE WHEN o.due_at <= @now THEN 1 END), count(CASE WHEN o.due_at > @now AND o.queued = false THEN 1 END)
FROM (SELECT channel, stranger, due_at, queued FROM outbox ORDER BY id LIMIT %d) o GROUP BY o.channel, o.stranger`, store.MaxBacklogCounted)

// OutboxCounts counts rows that are due, and rows whose lease a replica holds.
func (db *DB) OutboxCounts(ctx context.Context) (map[store.Queue]store.OutboxCount, error) {
	type row struct {
		store.Queue
		store.OutboxCount
	}
	rows, err := ReadAll(ctx, db, "OutboxCounts", func(r *row) []any {
		return []any{&r.Channel, &r.Strangers, &r.Due, &r.Held}
	}, outboxCountsSQL, nil)
	all := map[store.Queue]store.OutboxCount{}
	for _, r := range rows {
		all[r.Queue] = r.OutboxCount
	}
	return all, err
}

// AnySendWaits reports whether a send of the channel waits for its next attempt, among the
// MaxBacklogCounted oldest of all channels.
func (db *DB) AnySendWaits(ctx context.Context, ch recipient.Channel) (bool, error) {
	found, err := ReadAll(ctx, db, "AnySendWaits", OneColumn[bool], anySendWaitsSQL, Args{"channel": ch})
	return err == nil && found[0], err
}

func (db *DB) Backlog(ctx context.Context) (map[recipient.Channel]store.Backlog, error) {
	return ReadWithResult(ctx, db, "Backlog", func(q Tx) (map[recipient.Channel]store.Backlog, error) {
		type row struct {
			channel, oldest string
			sends           int
		}
		rows, err := QueryAll(q, func(r *row) []any { return []any{&r.channel, &r.sends, &r.oldest} }, backlogSQL, nil)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		now, err := q.Clock()
		if err != nil {
			return nil, err
		}
		all := map[recipient.Channel]store.Backlog{}
		for _, r := range rows {
			id, err := uuid.Parse(r.oldest)
			if err != nil {
				return nil, err
			}
			at, err := QueryAll(q, func(t *time.Time) []any { return []any{sqlgen.ScannerFor(t)} },
				`SELECT logged_at FROM sends WHERE id = @id`, Args{"id": id})
			if err != nil {
				return nil, err
			}
			b := store.Backlog{Sends: r.sends}
			if len(at) > 0 { // otherwise the send ended meanwhile, and was deleted
				b.Age = max(0, now.Sub(at[0]))
			}
			all[recipient.Channel(r.channel)] = b
		}
		return all, nil
	})
}
