package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxRefusals is how many rows one statement writes.
const maxRefusals = 1000

// addRefusalSQL adds a refusal to the row that has its ID; a row that was a send is not touched.
const addRefusalSQL = `
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + excluded.requests, retry_after = excluded.retry_after,
              recipients = CASE WHEN excluded.recipients > sends.recipients THEN excluded.recipients ELSE sends.recipients END
WHERE sends.status = 'refused'`

// Refused implements Refusals.
func (p *Postgres) Refused(ctx context.Context, refusals []Send) error {
	rows, err := merged(refusals)
	if err != nil || len(rows) == 0 {
		return err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return err
	}
	list := make([]*Send, len(rows))
	for i := range rows {
		rows[i].refusedAt(now)
		list[i] = &rows[i]
	}
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch // one transaction
		for ; len(list) > 0; list = list[min(len(list), maxRefusals):] {
			b.Queue(sendTable.insertMany(asBlock)+addRefusalSQL, sendTable.arrays(asBlock, list[:min(len(list), maxRefusals)])...)
		}
		return conn.SendBatch(ctx, &b).Close()
	})
}

// refusedAt completes a refusal that is logged now, under a timely ID.
func (s *Send) refusedAt(now time.Time) {
	s.ID, s.LoggedAt, s.FinishedAt = timely(s.ID, now), now, now
	if s.Clock == LogClock {
		s.TakenAt = now
	}
}
