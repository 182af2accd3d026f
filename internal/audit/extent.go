package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/recipient"
)

// Extent is how far the log reaches, and what is still to be done in the background.
type Extent struct {
	Now        time.Time     // on the log's clock
	Oldest     time.Time     // when the oldest send or refusal was logged; zero: there is none
	Age        time.Duration // for which rows are kept; 0: for ever
	Due        int           // rows that are older than they are kept, up to MaxDue; 0 where they are kept for ever
	Forgetting int           // persons who were erased and whose hash is still needed
	Late       int           // of those: whose time has come
	Partitions []Partition   // of sends, the oldest first; none where there are no partitions
}

// MaxDue is as far as what is due is counted.
const MaxDue = 10_000

// Until is when the room for new rows ends; zero: never.
func (e Extent) Until() time.Time {
	if len(e.Partitions) == 0 {
		return time.Time{}
	}
	return e.Partitions[len(e.Partitions)-1].Ends
}

func (e *Extent) fields() []any {
	return []any{timeField{&e.Oldest}, &e.Due, &e.Forgetting, &e.Late}
}

// extentSQL has the instant before which rows are due, or before which there is none, and that of now; both databases understand it.
const extentSQL = `
SELECT (SELECT s.logged_at FROM sends s ORDER BY s.logged_at LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM sends s WHERE s.logged_at < $1` + doneWithSQL + ` ORDER BY s.logged_at LIMIT 10000) old),
       (SELECT count(*) FROM erasures), (SELECT count(*) FROM erasures e WHERE e.forget_at <= $2)`

// dueBefore is the instant before which rows of an age are let go; for no age the beginning of time.
func dueBefore(now time.Time, age time.Duration) time.Time {
	if age <= 0 {
		return time.Unix(0, 0).UTC()
	}
	return now.Add(-(age + maxLife).Truncate(time.Microsecond))
}

// Extent implements Log.
func (p *Postgres) Extent(ctx context.Context, age time.Duration) (e Extent, err error) {
	if e.Now, err = p.clock(ctx); err != nil {
		return e, err
	}
	e.Age = age
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, extentSQL, dueBefore(e.Now, age), e.Now).Scan(e.fields()...)
	})
	if err != nil {
		return Extent{}, err
	}
	e.Partitions, err = p.partitions(ctx)
	return e, err
}

// Extent implements Log.
func (s *SQLite) Extent(ctx context.Context, age time.Duration) (Extent, error) {
	e := Extent{Now: micro(s.now()), Age: age}
	err := s.readers.QueryRowContext(ctx, extentSQL, µs(dueBefore(e.Now, age)), µs(e.Now)).Scan(e.fields()...)
	return e, unavailable(err)
}

// Extent implements Log.
func (m *Memory) Extent(ctx context.Context, age time.Duration) (e Extent, err error) {
	now, lost, err := m.enter(ctx, "Extent")
	if err != nil {
		return e, err
	}
	defer m.leave(lost, &err)
	e.Now, e.Age = now, age
	for _, r := range m.rows {
		if e.Oldest.IsZero() || r.LoggedAt.Before(e.Oldest) {
			e.Oldest = r.LoggedAt
		}
		if r.LoggedAt.Before(dueBefore(now, age)) && r.DueAt.IsZero() && !r.RefundDue && e.Due < MaxDue {
			e.Due++
		}
	}
	e.count(m.erasures, now)
	return e, nil
}

func (e *Extent) count(erasures map[recipient.Hash]time.Time, now time.Time) {
	e.Forgetting = len(erasures)
	for _, at := range erasures {
		if !at.After(now) {
			e.Late++
		}
	}
}
