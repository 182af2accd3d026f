package audit

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Both databases understand these; {{now}} is the log's instant.
const (
	accountSQL = `SELECT a.name, a.role, a.password, a.identity, a.made_at, a.disabled_at FROM accounts a`
	sessionSQL = `SELECT s.id, s.account, s.bound, s.via, s.granted, s.passed, s.started_at, s.seen_at, f.made_at
FROM sessions s LEFT JOIN second_factors f ON f.account = s.account WHERE s.id = $1`

	beginSessionSQL = `INSERT INTO sessions (id, account, bound, via, granted, passed, started_at, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, {{now}}, {{now}})`
	forgetSessionSQL = `DELETE FROM sessions WHERE started_at < {{since}}`
	seeSessionSQL    = `UPDATE sessions SET seen_at = {{now}} WHERE id = $1`
	endSessionSQL    = `DELETE FROM sessions WHERE id = $1`
)

func (a *Account) fields() []any {
	return []any{&a.Name, &a.Role, &a.Password, &a.Identity, timeField{&a.MadeAt}, timeField{&a.DisabledAt}}
}

func (s *Session) fields() []any {
	return []any{
		keyField{&s.ID}, &s.Account, keyField{&s.Bound}, &s.Via, &s.Granted, &s.Passed, timeField{&s.StartedAt}, timeField{&s.SeenAt}, timeField{&s.FactorAt},
	}
}

// written are the parameters of beginSessionSQL.
func (s *Session) written() []any {
	return []any{s.ID[:], s.Account, s.Bound[:], s.Via, s.Granted, s.Passed}
}

// Account implements Accounts.
func (s *SQLite) Account(ctx context.Context, name string) (Account, error) {
	a, err := first(ctx, s.readers, (*Account).fields, accountSQL+` WHERE a.name = $1`, name)
	return a, unavailable(err)
}

// AccountOf implements Accounts.
func (s *SQLite) AccountOf(ctx context.Context, identity string) (Account, error) {
	a, err := first(ctx, s.readers, (*Account).fields, accountSQL+` WHERE a.identity = $1 AND a.identity <> ''`, identity)
	return a, unavailable(err)
}

// Accounts implements Accounts.
func (s *SQLite) Accounts(ctx context.Context) ([]Account, error) {
	return sqliteRows(ctx, s, (*Account).fields, accountSQL+` ORDER BY a.name`)
}

// BeginSession implements Accounts.
func (s *SQLite) BeginSession(ctx context.Context, session Session, life time.Duration, act Act) (Session, error) {
	act, err := session.checked(act)
	if err != nil {
		return session, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		if _, err := tx.ExecContext(ctx, strings.ReplaceAll(forgetSessionSQL, "{{since}}", "$1"), µs(now)-life.Microseconds()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, strings.ReplaceAll(beginSessionSQL, "{{now}}", "$7"), append(session.written(), µs(now))...)
		if err != nil {
			return err
		}
		session.StartedAt, session.SeenAt, session.FactorAt = now, now, time.Time{}
		return sqliteAct(ctx, tx, act, now)
	})
	return session, err
}

// Session implements Accounts.
func (s *SQLite) Session(ctx context.Context, id [32]byte) (Session, time.Time, error) {
	session, err := first(ctx, s.readers, (*Session).fields, sessionSQL, id[:])
	return session, micro(s.now()), unavailable(err)
}

// SeeSession implements Accounts.
func (s *SQLite) SeeSession(ctx context.Context, id [32]byte) error {
	_, err := s.one(ctx, strings.ReplaceAll(seeSessionSQL, "{{now}}", "$2"), func(now time.Time) []any { return []any{id[:], µs(now)} })
	return err
}

// EndSession implements Accounts.
func (s *SQLite) EndSession(ctx context.Context, id [32]byte) error {
	_, err := s.one(ctx, endSessionSQL, func(time.Time) []any { return []any{id[:]} })
	return err
}

// Account implements Accounts.
func (p *Postgres) Account(ctx context.Context, name string) (Account, error) {
	return p.account(ctx, ` WHERE a.name = $1`, name)
}

// AccountOf implements Accounts.
func (p *Postgres) AccountOf(ctx context.Context, identity string) (Account, error) {
	return p.account(ctx, ` WHERE a.identity = $1 AND a.identity <> ''`, identity)
}

func (p *Postgres) account(ctx context.Context, where, value string) (Account, error) {
	if !storable(value) {
		return Account{}, ErrNotFound
	}
	list, err := readRows(ctx, p, (*Account).fields, accountSQL+where, value)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Account{}, err
	}
	return list[0], nil
}

// Accounts implements Accounts.
func (p *Postgres) Accounts(ctx context.Context) ([]Account, error) {
	return readRows(ctx, p, (*Account).fields, accountSQL+` ORDER BY a.name COLLATE "C"`)
}

// BeginSession implements Accounts.
func (p *Postgres) BeginSession(ctx context.Context, session Session, life time.Duration, act Act) (Session, error) {
	act, err := session.checked(act)
	if err != nil {
		return session, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(forgetSessionSQL, "{{since}}", p.now+" - $1 * interval '1 microsecond'"), life.Microseconds()); err != nil {
			return err
		}
		session.FactorAt = time.Time{}
		err := tx.QueryRow(ctx, p.sql(beginSessionSQL)+` RETURNING started_at, seen_at`, session.written()...).
			Scan(timeField{&session.StartedAt}, timeField{&session.SeenAt})
		if err != nil {
			return err
		}
		return p.addAct(ctx, tx, act)
	})
	return session, err
}

// Session implements Accounts.
func (p *Postgres) Session(ctx context.Context, id [32]byte) (session Session, now time.Time, err error) {
	err = p.read(ctx, func(conn *pgxpool.Conn) error {
		row := conn.QueryRow(ctx, p.sql(strings.Replace(sessionSQL, "SELECT ", "SELECT {{now}}, ", 1)), id[:])
		return found(row.Scan(append([]any{timeField{&now}}, session.fields()...)...))
	})
	return session, now, err
}

// SeeSession implements Accounts.
func (p *Postgres) SeeSession(ctx context.Context, id [32]byte) error {
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, p.sql(seeSessionSQL), id[:])
		return err
	})
}

// EndSession implements Accounts.
func (p *Postgres) EndSession(ctx context.Context, id [32]byte) error {
	return p.change(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, endSessionSQL, id[:])
		return err
	})
}
