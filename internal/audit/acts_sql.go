package audit

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/recipient"
)

// Both databases understand these; an act with an ID that is there already is left as it is.
const (
	addActSQL = `
INSERT INTO acts (id, at, who, role, network, what, app, channel, purpose, target, reason, outcome, detail, ends)
VALUES ($1, {{at}}, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING`

	addPersonSQL = `INSERT INTO act_people (act, recipient, masked) VALUES ($1, $2, $3) ON CONFLICT (act) DO NOTHING`

	actColumns = `a.id, a.at, a.who, a.role, a.network, a.what, a.app, a.channel, a.purpose, p.recipient, coalesce(p.masked, ''),
 a.target, a.reason, a.outcome, a.detail, a.ends`
)

// atClock completes addActSQL with the instant of the log.
func atClock(statement, now string) string { return strings.ReplaceAll(statement, "{{at}}", now) }

func (a *Act) fields() []any {
	return []any{
		&a.ID, timeField{&a.At}, &a.Who, &a.Role, &a.Network, &a.What, &a.App, &a.Channel, &a.Purpose, maybeHashField{&a.Recipient}, &a.To,
		&a.Target, &a.Reason, &a.Outcome, &a.Detail, maybeIDField{&a.Ends},
	}
}

// maybeHashField is hashField where there may be none.
type maybeHashField struct{ to *recipient.Hash }

// Scan implements sql.Scanner.
func (f maybeHashField) Scan(src any) error {
	if b, ok := src.([]byte); src == nil || ok && b == nil {
		*f.to = recipient.Hash{}
		return nil
	}
	return hashField(f).Scan(src)
}

// maybeIDField reads a UUID where there may be none.
type maybeIDField struct{ to *uuid.UUID }

// Scan implements sql.Scanner.
func (f maybeIDField) Scan(src any) error { return f.to.Scan(src) }

func (a Act) args() []any {
	var ends any
	if a.Ends != uuid.Nil {
		ends = a.Ends
	}
	return []any{
		a.ID, a.Who, a.Role, a.Network, a.What, a.App, string(a.Channel), a.Purpose, a.Target, a.Reason, string(a.Outcome), a.Detail, ends,
	}
}

func (a Act) personArgs() []any {
	var h any
	if a.Recipient != (recipient.Hash{}) {
		h = a.Recipient[:]
	}
	return []any{a.ID, h, a.To}
}

func (f ActFilter) query(at func(time.Time) any) (string, []any) {
	var c conditions
	if f.Who != "" {
		c.add("a.who = ?", f.Who)
	}
	if f.What != "" {
		c.add("a.what = ?", f.What)
	}
	if f.Recipient != nil {
		c.add("p.recipient = ?", f.Recipient[:])
	}
	if f.Before != nil {
		c.add("(a.at, a.id) < (?, ?)", at(f.Before.At), f.Before.ID)
	}
	return "SELECT " + actColumns + " FROM acts a LEFT JOIN act_people p ON p.act = a.id" + c.where() +
		fmt.Sprintf(" ORDER BY a.at DESC, a.id DESC LIMIT %d", f.Limit), c.args
}

// RecordAct implements Log.
func (s *SQLite) RecordAct(ctx context.Context, act Act) error {
	a, err := act.checked()
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error { return sqliteAct(ctx, tx, a, now) })
}

// sqliteAct writes a checked act in the transaction of its effect.
func sqliteAct(ctx context.Context, tx *sql.Tx, a Act, now time.Time) error {
	_, err := tx.ExecContext(ctx, atClock(addActSQL, "$14"), append(a.args(), µs(now))...)
	if err != nil || !a.onSomebody() {
		return err
	}
	_, err = tx.ExecContext(ctx, addPersonSQL, a.personArgs()...)
	return err
}

// Acts implements Log.
func (s *SQLite) Acts(ctx context.Context, filter ActFilter) ([]Act, error) {
	f, err := filter.checked()
	if err != nil {
		return nil, err
	}
	query, args := f.query(func(t time.Time) any { return µs(t) })
	return sqliteRows(ctx, s, (*Act).fields, query, args...)
}

// RecordAct implements Log.
func (p *Postgres) RecordAct(ctx context.Context, act Act) error {
	a, err := act.checked()
	if err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error { return p.addAct(ctx, tx, a) })
}

// addAct writes a checked act in the transaction of its effect.
func (p *Postgres) addAct(ctx context.Context, tx pgx.Tx, a Act) error {
	_, err := tx.Exec(ctx, atClock(addActSQL, p.now), a.args()...)
	if err != nil || !a.onSomebody() {
		return err
	}
	_, err = tx.Exec(ctx, addPersonSQL, a.personArgs()...)
	return err
}

// inTransaction runs what writes more than one row. Each statement sees what was committed before it, whatever the
// server's default says.
func (p *Postgres) inTransaction(ctx context.Context, f func(tx pgx.Tx) error) error {
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing to do after a commit
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

// Acts implements Log.
func (p *Postgres) Acts(ctx context.Context, filter ActFilter) ([]Act, error) {
	f, err := filter.checked()
	if err != nil || !storable(f.Who, f.What) {
		return nil, err
	}
	query, args := f.query(func(t time.Time) any { return t })
	return readRows(ctx, p, (*Act).fields, query, args...)
}
