package audit

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/quota"
)

// ReasonRejected is the reason of a failed send that the mail server or the carrier refused for good, ReasonPaused that of
// one whose channel or purpose is paused. Such sends, and those to who is suppressed, give their places back, so they are
// bounded by themselves: Begin counts those of a recipient whatever their purpose (QUOTA-15).
const (
	ReasonRejected = "rejected"
	ReasonPaused   = "paused"
)

// Failure says that a send which failed for this reason counts as one that was rejected.
func Failure(reason string) bool {
	return reason == ReasonRejected || reason == ReasonSuppressed || reason == ReasonPaused
}

// rejection is a send that was rejected. Its age is by the log's clock, which is the one that saw it end.
type rejection struct {
	id uuid.UUID
	at time.Time
}

func (r *rejection) fields() []any { return []any{&r.id, timeField{&r.at}} }

// rejected are the rejections that the intent's rule counts at now, oldest first, each its age before the instant of the
// intent. One after now counts, as after every step back of the clock.
func rejected(in Intent, now time.Time, rows []rejection) []quota.Event {
	at := instant(in, now)
	var events []quota.Event
	for _, r := range rows {
		if age := now.Sub(r.at); age < in.Rejections.Window {
			events = append(events, quota.Event{ID: string(r.id[:]), At: at.Add(-age)})
		}
	}
	return ordered(events)
}

// bears says whether the rule on rejections has a place left.
func bears(in Intent, events []quota.Event) bool {
	return in.Rejections.Limit == 0 || len(events) < in.Rejections.Limit
}

func (r *memoryRow) rejected() bool { return r.Status == Failed && Failure(r.Reason) && !r.Forgiven }

func (m *Memory) rejections(b memoryBucket) (rows []rejection) {
	for _, r := range m.buckets[b] {
		if r.rejected() {
			rows = append(rows, rejection{r.ID, r.FinishedAt})
		}
	}
	return rows
}

// Rejected implements Log.
func (m *Memory) Rejected(ctx context.Context, b Bucket, within time.Duration) (events []quota.Event, now time.Time, err error) {
	if err := b.check(); err != nil {
		return nil, now, err
	}
	now, lost, err := m.enter(ctx, "Rejected")
	if err != nil {
		return nil, now, err
	}
	defer m.leave(lost, &err)
	return since(m.rejections(memoryBucket{b.App, b.Channel, b.Recipient}), now, within), now, nil
}

// since are the rejections less than within ago as events.
func since(rows []rejection, now time.Time, within time.Duration) (events []quota.Event) {
	for _, r := range rows {
		if now.Sub(r.at) < within.Truncate(time.Microsecond) {
			events = append(events, quota.Event{ID: string(r.id[:]), At: r.at})
		}
	}
	return ordered(events)
}

// AllRejected implements Log.
func (m *Memory) AllRejected(ctx context.Context, within time.Duration, yield func(Counting) error) error {
	rows, err := m.allRejected(ctx, within)
	if err != nil {
		return err
	}
	return tellAll(rows, yield)
}

func (m *Memory) allRejected(ctx context.Context, within time.Duration) (rows []Counting, err error) {
	now, lost, err := m.enter(ctx, "AllRejected")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, r := range m.rows {
		if r.rejected() && now.Sub(r.FinishedAt) < within.Truncate(time.Microsecond) {
			rows = append(rows, ended(r.Send))
		}
	}
	slices.SortFunc(rows, func(a, b Counting) int { return ordering(a.Event, b.Event) })
	return rows, nil
}

// ended is a rejected send as a limiter counts it: from its end, on the log's clock.
func ended(s Send) Counting {
	return Counting{
		App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient, Clock: LogClock,
		Event: quota.Event{ID: string(s.ID[:]), At: s.FinishedAt},
	}
}

func tellAll(rows []Counting, yield func(Counting) error) error {
	for _, c := range rows {
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}

// failureReasons are those of a failure that counts, in SQL.
const failureReasons = `'` + ReasonRejected + `', '` + ReasonSuppressed + `', '` + ReasonPaused + `'`

// Both databases ask alike.
const rejectedSQL = `SELECT f.id, f.finished_at FROM failures f WHERE f.recipient = $1 AND f.app = $2 AND f.channel = $3 AND f.counts AND f.finished_at > $4`

// allRejectedSQL reads from the failures of a database, as its dialect joins them.
func allRejectedSQL(d dialect) string {
	return `SELECT ` + sendColumns + ` FROM ` + d.failures + ` WHERE f.counts AND f.finished_at > $1 ORDER BY f.finished_at, f.id`
}

func sqliteRejected(ctx context.Context, q queryer, b memoryBucket, now time.Time, within time.Duration) ([]rejection, error) {
	rows, err := q.QueryContext(ctx, rejectedSQL, b.recipient[:], b.app, b.channel, µs(now)-within.Microseconds())
	if err != nil {
		return nil, err
	}
	return collect(rows, (*rejection).fields)
}

// Rejected implements Log.
func (s *SQLite) Rejected(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	now := micro(s.now())
	rows, err := sqliteRejected(ctx, s.readers, memoryBucket{b.App, b.Channel, b.Recipient}, now, within)
	if err != nil {
		return nil, time.Time{}, unavailable(err)
	}
	return since(rows, now, within), now, nil
}

// AllRejected implements Log.
func (s *SQLite) AllRejected(ctx context.Context, within time.Duration, yield func(Counting) error) error {
	sends, err := s.sends(ctx, allRejectedSQL(sqliteWords), µs(micro(s.now()))-within.Microseconds())
	if err != nil {
		return err
	}
	return tellAll(each(sends, ended), yield)
}

// clock reads the log's.
func (p *Postgres) clock(ctx context.Context) (now time.Time, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, p.sql(`SELECT {{now}}`)).Scan(timeField{&now})
	})
	return now, err
}

// Rejected implements Log.
func (p *Postgres) Rejected(ctx context.Context, b Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	if err := b.check(); err != nil {
		return nil, time.Time{}, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, now, err
	}
	rows, err := readRows(ctx, p, (*rejection).fields, rejectedSQL, b.Recipient[:], b.App, string(b.Channel), now.Add(-within.Truncate(time.Microsecond)))
	if err != nil {
		return nil, time.Time{}, err
	}
	return since(rows, now, within), now, nil
}

// AllRejected implements Log.
func (p *Postgres) AllRejected(ctx context.Context, within time.Duration, yield func(Counting) error) error {
	now, err := p.clock(ctx)
	if err != nil {
		return err
	}
	sends, err := readRows(ctx, p, (*Send).fields, allRejectedSQL(postgresWords), now.Add(-within.Truncate(time.Microsecond)))
	if err != nil {
		return err
	}
	return tellAll(each(sends, ended), yield)
}
