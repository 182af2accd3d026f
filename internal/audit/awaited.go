package audit

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Awaited is a message that a carrier took, and of which nothing final is known.
type Awaited struct {
	Carrier string    // its name in the configuration
	ID      string    // the carrier's for it
	Send    uuid.UUID // that it was
	At      time.Time // when it was taken, on the log's clock
}

// Awaiting is the part of the log that knows which receipts are missing.
type Awaiting interface {
	// Await notes a message that a carrier has just taken; it may be asked after a while, or is only looked up where ask is 0.
	// Noted twice, it is one.
	Await(ctx context.Context, a Awaited, ask time.Duration) error
	// AwaitedSend is the send that a carrier's ID means, or ErrNotFound.
	AwaitedSend(ctx context.Context, carrier, id string) (uuid.UUID, error)
	// Inquiries are up to limit messages whose time to be asked has come, the longest overdue first. Each is put off to its next
	// time with it, twice as far as the one before, up to six hours: so no other replica asks as well, and one whose asker
	// died is asked again. What has been awaited for three days is given up.
	Inquiries(ctx context.Context, limit int) ([]Awaited, error)
	// Answered forgets what is awaited of a send: there is a receipt, or there will be none.
	Answered(ctx context.Context, send uuid.UUID) error
}

// The times of inquiries.
const (
	firstPause = 30 * time.Second // after the first one
	lastPause  = 6 * time.Hour
	awaitFor   = 72 * time.Hour
	doublings  = 12
)

// pauseAfter is the pause after an inquiry that was the nth, from 0 on.
func pauseAfter(n int) time.Duration { return min(firstPause<<min(n, doublings), lastPause) }

func (a Awaited) check(ask time.Duration) error {
	if a.Carrier == "" || a.ID == "" || a.Send == uuid.Nil || ask < 0 || !storable(a.Carrier, a.ID) {
		return bad("what is awaited names its carrier, its message and its send")
	}
	return nil
}

func checkInquiries(limit int) error {
	if limit < 1 || limit > maxPage {
		return bad("from 1 to %d messages are asked for", maxPage)
	}
	return nil
}

func (a *Awaited) fields() []any { return []any{&a.Carrier, &a.ID, &a.Send, timeField{&a.At}} }

// Both databases understand these; instants are parameters.
const (
	awaitSQL    = `INSERT INTO awaited (carrier, message_id, send_id, at, ask_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (carrier, message_id) DO NOTHING`
	sentAsSQL   = `SELECT carrier, message_id, send_id, at FROM awaited WHERE carrier = $1 AND message_id = $2`
	answeredSQL = `DELETE FROM awaited WHERE send_id = $1`
	givenUpSQL  = `DELETE FROM awaited WHERE at <= $1`
	inquiriesOn = `
UPDATE awaited SET asked = asked + 1, ask_at = `
	inquiriesOf = ` WHERE (carrier, message_id) IN (
    SELECT carrier, message_id FROM awaited WHERE ask_at <= $1 ORDER BY ask_at, carrier, message_id LIMIT $2`
	inquiriesAre = `) RETURNING carrier, message_id, send_id, at`
)

// askAt is when a message is asked first, as a parameter; nil: never.
func askAt(now time.Time, ask time.Duration, at func(time.Time) any) any {
	if ask == 0 {
		return nil
	}
	return at(now.Add(ask.Truncate(time.Microsecond)))
}

// Await implements Log.
func (p *Postgres) Await(ctx context.Context, a Awaited, ask time.Duration) error {
	if err := a.check(ask); err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		now, err := p.txClock(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, awaitSQL, a.Carrier, a.ID, a.Send, now, askAt(now, ask, postgresWords.at))
		return err
	})
}

// Await implements Log.
func (s *SQLite) Await(ctx context.Context, a Awaited, ask time.Duration) error {
	if err := a.check(ask); err != nil {
		return err
	}
	_, err := s.one(ctx, awaitSQL, func(now time.Time) []any {
		return []any{a.Carrier, a.ID, a.Send, µs(now), askAt(now, ask, sqliteWords.at)}
	})
	return err
}

func sentAs(rows []Awaited, err error) (uuid.UUID, error) {
	a, found, err := only(rows, err)
	if err == nil && !found {
		err = ErrNotFound
	}
	return a.Send, err
}

// AwaitedSend implements Log.
func (p *Postgres) AwaitedSend(ctx context.Context, carrier, id string) (uuid.UUID, error) {
	return sentAs(readRows(ctx, p, (*Awaited).fields, sentAsSQL, carrier, id))
}

// AwaitedSend implements Log.
func (s *SQLite) AwaitedSend(ctx context.Context, carrier, id string) (uuid.UUID, error) {
	return sentAs(sqliteRows(ctx, s, (*Awaited).fields, sentAsSQL, carrier, id))
}

// Inquiries implements Log.
func (p *Postgres) Inquiries(ctx context.Context, limit int) (list []Awaited, err error) {
	if err := checkInquiries(limit); err != nil {
		return nil, err
	}
	const pause = `$1 + least($3 * power(2, least(asked, $4)), $5) * interval '1 microsecond'`
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		now, err := p.txClock(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, givenUpSQL, now.Add(-awaitFor)); err != nil {
			return err
		}
		list, err = txRows(ctx, tx, (*Awaited).fields, inquiriesOn+pause+inquiriesOf+" FOR UPDATE SKIP LOCKED"+inquiriesAre,
			now, limit, firstPause.Microseconds(), doublings, lastPause.Microseconds())
		return err
	})
	return oldestFirst(list), err
}

// Inquiries implements Log.
func (s *SQLite) Inquiries(ctx context.Context, limit int) (list []Awaited, err error) {
	if err := checkInquiries(limit); err != nil {
		return nil, err
	}
	const pause = `$1 + min($3 << min(asked, $4), $5)`
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		if _, err := tx.ExecContext(ctx, givenUpSQL, µs(now.Add(-awaitFor))); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, inquiriesOn+pause+inquiriesOf+inquiriesAre,
			µs(now), limit, firstPause.Microseconds(), doublings, lastPause.Microseconds())
		if err != nil {
			return err
		}
		list, err = collect(rows, (*Awaited).fields)
		return err
	})
	return oldestFirst(list), err
}

// oldestFirst orders them.
func oldestFirst(list []Awaited) []Awaited {
	slices.SortFunc(list, func(a, b Awaited) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Answered implements Log.
func (p *Postgres) Answered(ctx context.Context, send uuid.UUID) error {
	_, err := p.one(ctx, answeredSQL, send)
	return err
}

// Answered implements Log.
func (s *SQLite) Answered(ctx context.Context, send uuid.UUID) error {
	_, err := s.one(ctx, answeredSQL, func(time.Time) []any { return []any{send} })
	return err
}

type memoryAwaited struct {
	Awaited
	ask   time.Time // zero: never
	asked int
}

// Await implements Log.
func (m *Memory) Await(ctx context.Context, a Awaited, ask time.Duration) (err error) {
	if err := a.check(ask); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Await")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if slices.ContainsFunc(m.awaited, func(x *memoryAwaited) bool { return x.Carrier == a.Carrier && x.ID == a.ID }) {
		return nil
	}
	a.At = now
	x := &memoryAwaited{Awaited: a}
	if ask > 0 {
		x.ask = now.Add(ask.Truncate(time.Microsecond))
	}
	m.awaited = append(m.awaited, x)
	return nil
}

// AwaitedSend implements Log.
func (m *Memory) AwaitedSend(ctx context.Context, carrier, id string) (send uuid.UUID, err error) {
	_, lost, err := m.enter(ctx, "AwaitedSend")
	if err != nil {
		return send, err
	}
	defer m.leave(lost, &err)
	i := slices.IndexFunc(m.awaited, func(x *memoryAwaited) bool { return x.Carrier == carrier && x.ID == id })
	if i < 0 {
		return send, ErrNotFound
	}
	return m.awaited[i].Send, nil
}

// Inquiries implements Log.
func (m *Memory) Inquiries(ctx context.Context, limit int) (list []Awaited, err error) {
	if err := checkInquiries(limit); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "Inquiries")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	m.awaited = slices.DeleteFunc(m.awaited, func(x *memoryAwaited) bool { return now.Sub(x.At) >= awaitFor })
	slices.SortFunc(m.awaited, func(a, b *memoryAwaited) int {
		return cmp.Or(a.ask.Compare(b.ask), cmp.Compare(a.Carrier, b.Carrier), cmp.Compare(a.ID, b.ID))
	})
	for _, x := range m.awaited {
		if !x.ask.IsZero() && !x.ask.After(now) && len(list) < limit {
			list = append(list, x.Awaited)
			x.ask = now.Add(pauseAfter(x.asked))
			x.asked++
		}
	}
	return oldestFirst(list), nil
}

// Answered implements Log.
func (m *Memory) Answered(ctx context.Context, send uuid.UUID) (err error) {
	_, lost, err := m.enter(ctx, "Answered")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	m.awaited = slices.DeleteFunc(m.awaited, func(x *memoryAwaited) bool { return x.Send == send })
	return nil
}
