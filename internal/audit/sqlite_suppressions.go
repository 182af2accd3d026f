package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Suppress implements Log.
func (s *SQLite) Suppress(ctx context.Context, x Suppression, lasts time.Duration, act *Act) (out Suppression, added bool, err error) {
	x, act, err = x.checked(lasts, act)
	if err != nil {
		return x, false, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		if act != nil {
			if err := sqliteAct(ctx, tx, *act, now); err != nil {
				return err
			}
		}
		x.Since, x.Until = now, now.Add(lasts.Truncate(time.Microsecond))
		if added, err = sqliteSuppress(ctx, tx, x); err != nil || added {
			out = x
			return err
		}
		out, err = first(ctx, tx, (*Suppression).fields, `SELECT `+suppressionColumns+` FROM suppressions x WHERE x.id = $1`, x.ID)
		return err
	})
	if err != nil {
		return Suppression{}, false, err
	}
	return out, added, nil
}

func sqliteSuppress(ctx context.Context, tx *sql.Tx, x Suppression) (added bool, err error) {
	result, err := tx.ExecContext(ctx, `
INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, made_by, since, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING`,
		x.ID, x.App, x.Channel, x.Address[:], x.Recipient[:], x.To, x.Cause, x.Detail, knownID(x.Send), x.By, µs(x.Since), µs(x.Until))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// sqliteBar is what Finish does of an outcome's Bar, in its transaction.
func sqliteBar(ctx context.Context, tx *sql.Tx, o Outcome, now time.Time) error {
	row, err := sqliteSend(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	_, err = sqliteSuppress(ctx, tx, Suppression{
		ID: SuppressionID(row.ID, o.Bar.Cause), App: row.App, Channel: row.Channel, Address: o.Bar.Address, Recipient: row.Recipient,
		To: row.To, Cause: o.Bar.Cause, Detail: o.ProviderCode, Send: row.ID, Since: now, Until: now.Add(o.Bar.For),
	})
	return err
}

// sqliteSuppressing is the suppression that an intent meets, the one that lasts longest; Nil: none.
func sqliteSuppressing(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) (uuid.UUID, error) {
	id, err := first(ctx, tx, func(id *uuid.UUID) []any { return []any{id} }, `
SELECT id FROM suppressions
WHERE lifted_at IS NULL AND address = $1 AND channel = $2 AND until > $3 AND app IN ('', $4) ORDER BY until DESC, id DESC LIMIT 1`,
		in.Address[:], in.Send.Channel, µs(now), in.Send.App)
	if errors.Is(err, ErrNotFound) {
		return uuid.Nil, nil
	}
	return id, err
}

// Suppressions implements Log.
func (s *SQLite) Suppressions(ctx context.Context, f SuppressionFilter) ([]Suppression, time.Time, error) {
	f, err := f.checked()
	if err != nil {
		return nil, time.Time{}, err
	}
	now := micro(s.now())
	query, args := f.query(now, func(t time.Time) any { return µs(t) })
	list, err := sqliteRows(ctx, s, (*Suppression).fields, query, args...)
	return list, now, err
}

// Lift implements Log.
func (s *SQLite) Lift(ctx context.Context, l Lifting, act *Act) (lifted []Suppression, err error) {
	l, act, err = l.checked(act)
	if err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		rows, err := tx.QueryContext(ctx, `
UPDATE suppressions AS x SET lifted_at = $1, lifted_by = $2, lifted_why = $3
WHERE x.lifted_at IS NULL AND x.until > $1 AND x.channel = $4 AND x.address = $5 AND ($6 = '' OR x.app = $6) RETURNING `+returnedColumns,
			µs(now), l.By, l.Why, l.Channel, l.Address[:], l.App)
		if err != nil {
			return err
		}
		if lifted, err = collect(rows, (*Suppression).fields); err != nil || act == nil {
			return err
		}
		return sqliteAct(ctx, tx, liftedAs(*act, lifted), now)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lifted, func(a, b Suppression) int { return byTime(a.mark(), b.mark()) })
	return lifted, nil
}

// returnedColumns are suppressionColumns where SQLite knows no names of tables.
var returnedColumns = strings.ReplaceAll(suppressionColumns, "x.", "")

func sqliteSuppressionsOf(ctx context.Context, q queryer, row Send) ([]Suppression, error) {
	var args []any
	var places []string
	for i, id := range suppressionsOf(row) {
		args, places = append(args, id), append(places, place(i+1))
	}
	rows, err := q.QueryContext(ctx, `SELECT `+suppressionColumns+` FROM suppressions x WHERE x.id IN (`+strings.Join(places, ", ")+`) ORDER BY x.since, x.id`, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, (*Suppression).fields)
}

// place is the nth parameter of a statement.
func place(n int) string { return fmt.Sprintf("$%d", n) }

// knownID is nil for no ID, which is NULL.
func knownID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
