package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
)

// ToldKind is what a provider told of a message that it had taken.
type ToldKind string

// The kinds of events, the worst last.
const (
	ToldDelivered  ToldKind = "delivered"
	ToldBounced    ToldKind = "bounced"
	ToldOptedOut   ToldKind = "opted_out"
	ToldComplained ToldKind = "complained"
)

var toldKinds = []ToldKind{"", ToldDelivered, ToldBounced, ToldOptedOut, ToldComplained}

// rank orders kinds: what is known of a send is the worst that was told.
func (k ToldKind) rank() int { return slices.Index(toldKinds, k) }

// rankSQL is rank of a column or parameter; both databases understand it.
func rankSQL(of string) string {
	return `CASE ` + of + ` WHEN 'delivered' THEN 1 WHEN 'bounced' THEN 2 WHEN 'opted_out' THEN 3 WHEN 'complained' THEN 4 ELSE 0 END`
}

// ProviderEvent is one of them. A send has one of each kind: what is told again changes nothing.
type ProviderEvent struct {
	Send     uuid.UUID
	Kind     ToldKind
	At       time.Time // as the provider tells; at most HeardAt, and HeardAt where it tells none
	HeardAt  time.Time // on the log's clock; the log sets it
	Provider string    // its name in the configuration
	Detail   string    // machine word or codes
}

const toldColumns = `e.send_id, e.kind, e.at, e.heard_at, e.provider, e.detail`

func (e *ProviderEvent) fields() []any {
	return []any{&e.Send, &e.Kind, timeField{&e.At}, timeField{&e.HeardAt}, &e.Provider, &e.Detail}
}

func (e ProviderEvent) checked(bar Bar) (ProviderEvent, Bar, error) {
	e.At, e.Provider, e.Detail, bar.For = micro(e.At), mended(e.Provider), mended(e.Detail), max(0, bar.For).Truncate(time.Microsecond)
	switch {
	case e.Send == uuid.Nil || e.Kind.rank() < 1:
		return e, bar, bad("an event names its send and its kind")
	case bar.For > 0 && (bar.Address == recipient.Hash{} || !bar.Cause.known()):
		return e, bar, bad("an event suppresses an address, for a cause")
	}
	return e, bar, nil
}

// heard is the event as it is written at now.
func (e ProviderEvent) heard(now time.Time) ProviderEvent {
	if e.HeardAt = now; e.At.IsZero() || e.At.After(now) {
		e.At = now
	}
	return e
}

// barred is the suppression that comes of an event of a send.
func (e ProviderEvent) barred(bar Bar, row Send) Suppression {
	return Suppression{
		ID: SuppressionID(row.ID, bar.Cause), App: row.App, Channel: row.Channel, Address: bar.Address, Recipient: row.Recipient, To: row.To,
		Cause: bar.Cause, Detail: e.Detail, Send: row.ID, Since: e.HeardAt, Until: e.HeardAt.Add(bar.For),
	}
}

// Heard implements Log.
func (m *Memory) Heard(ctx context.Context, e ProviderEvent, bar Bar) (recorded bool, err error) {
	e, bar, err = e.checked(bar)
	if err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "Heard")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	row, ok := m.rows[e.Send]
	if !ok || row.Status == Refused {
		return false, ErrNotFound
	}
	if slices.ContainsFunc(m.told[e.Send], func(x ProviderEvent) bool { return x.Kind == e.Kind }) {
		return false, nil
	}
	e = e.heard(now)
	m.told[e.Send] = append(m.told[e.Send], e)
	if e.Kind.rank() > row.Afterwards.rank() {
		row.Afterwards = e.Kind
	}
	if s := e.barred(bar, row.Send); bar.For > 0 && m.suppressions[s.ID] == nil {
		m.suppressions[s.ID] = &s
	}
	return true, nil
}

// eventsOf are those of a send, the oldest first.
func (m *Memory) eventsOf(id uuid.UUID) []ProviderEvent {
	list := slices.Clone(m.told[id])
	slices.SortFunc(list, func(a, b ProviderEvent) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind)) })
	return list
}

const (
	addToldSQL = `INSERT INTO provider_events (send_id, kind, at, heard_at, provider, detail) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (send_id, kind) DO NOTHING`
	toldSQL    = `SELECT ` + toldColumns + ` FROM provider_events e WHERE e.send_id = $1 ORDER BY e.at, e.kind`
)

var afterwardsSQL = `UPDATE sends SET afterwards = $2 WHERE id = $1 AND ` + rankSQL("afterwards") + ` < ` + rankSQL("$2")

// Heard implements Log.
func (s *SQLite) Heard(ctx context.Context, e ProviderEvent, bar Bar) (recorded bool, err error) {
	e, bar, err = e.checked(bar)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		row, err := sqliteSend(ctx, tx, e.Send)
		if err == nil && row.Status == Refused {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		e = e.heard(now)
		result, err := tx.ExecContext(ctx, addToldSQL, e.Send, e.Kind, µs(e.At), µs(e.HeardAt), e.Provider, e.Detail)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		recorded = true
		if _, err := tx.ExecContext(ctx, afterwardsSQL, e.Send, e.Kind); err != nil || bar.For <= 0 {
			return err
		}
		_, err = sqliteSuppress(ctx, tx, e.barred(bar, row))
		return err
	})
	return recorded && err == nil, err
}

// Heard implements Log.
func (p *Postgres) Heard(ctx context.Context, e ProviderEvent, bar Bar) (recorded bool, err error) {
	e, bar, err = e.checked(bar)
	if err != nil {
		return false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		var row Send
		var now time.Time
		err := tx.QueryRow(ctx, p.sql(`SELECT {{now}}, `+sendColumns+` FROM sends s WHERE s.id = $1 AND s.status <> 'refused' FOR NO KEY UPDATE OF s`), e.Send).
			Scan(append([]any{timeField{&now}}, row.fields()...)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		e = e.heard(now)
		tag, err := tx.Exec(ctx, addToldSQL, e.Send, string(e.Kind), e.At, e.HeardAt, e.Provider, e.Detail)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		recorded = true
		if _, err := tx.Exec(ctx, afterwardsSQL, e.Send, string(e.Kind)); err != nil || bar.For <= 0 {
			return err
		}
		s := e.barred(bar, row)
		_, err = tx.Exec(ctx, barredSQL, s.ID, s.App, string(s.Channel), s.Address[:], s.Recipient[:], s.To, string(s.Cause), s.Detail, s.Send, s.Since, s.Until)
		return err
	})
	return recorded && err == nil, err
}

const barredSQL = `
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', $10, $11) ON CONFLICT (id) DO NOTHING`
