package audit

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AccountChange names what changes of an account; what is nil stays as it is, whoever changes it at the same time.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// What an account can't be added or changed for; both are ErrBadRequest too.
var (
	ErrNameTaken     = bad("there is an account of this name")
	ErrIdentityTaken = bad("another account has this identity")
)

var (
	accountName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	roles       = []string{"reader", "operator", "owner"}
)

// IsAccountName says whether an account may have the name: a small letter, and up to 31 more of a-z, 0-9, dot, dash and underscore.
func IsAccountName(name string) bool { return accountName.MatchString(name) }

func (a Account) checked(act Act) (Act, error) {
	if !IsAccountName(a.Name) || !slices.Contains(roles, a.Role) || !storable(a.Password, a.Identity) {
		return act, bad("an account has a name of small letters and digits, and a role")
	}
	return act.checked()
}

// changed is the account with the change.
func (a Account) changed(c AccountChange) Account {
	if c.Role != nil {
		a.Role = *c.Role
	}
	if c.Password != nil {
		a.Password = *c.Password
	}
	if c.Identity != nil {
		a.Identity = *c.Identity
	}
	if c.DisabledAt != nil {
		a.DisabledAt = micro(*c.DisabledAt)
	}
	return a
}

// checked also refuses what no account could become.
func (c AccountChange) checked(name string, act Act) (Act, error) {
	if !IsAccountName(name) {
		return act, ErrNotFound
	}
	return Account{Name: name, Role: roles[0]}.changed(c).checked(act)
}

// AddAccount implements Accounts.
func (m *Memory) AddAccount(ctx context.Context, a Account, act Act) (err error) {
	if act, err = a.checked(act); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "AddAccount")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if _, taken := m.accounts[a.Name]; taken {
		return ErrNameTaken
	}
	a.MadeAt, a.DisabledAt = now, micro(a.DisabledAt)
	return m.putAccount(a, act, now)
}

// ChangeAccount implements Accounts.
func (m *Memory) ChangeAccount(ctx context.Context, name string, c AccountChange, act Act) (err error) {
	if act, err = c.checked(name, act); err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "ChangeAccount")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	a, ok := m.accounts[name]
	if !ok {
		return ErrNotFound
	}
	a = a.changed(c)
	act.Detail = a.Role
	return m.putAccount(a, act, now)
}

func (m *Memory) putAccount(a Account, act Act, now time.Time) error {
	for _, b := range m.accounts {
		if a.Identity != "" && b.Identity == a.Identity && b.Name != a.Name {
			return ErrIdentityTaken
		}
	}
	m.accounts[a.Name] = a
	m.addAct(act, now)
	return nil
}

// Both databases understand these; {{now}} is the log's instant.
const (
	addAccountSQL = `
INSERT INTO accounts (name, role, password, identity, disabled_at, made_at)
VALUES ($1, $2, $3, $4, $5, {{now}}) ON CONFLICT (name) DO NOTHING`
	changeAccountSQL = `
UPDATE accounts SET role = COALESCE($2, role), password = COALESCE($3, password), identity = COALESCE($4, identity),
  disabled_at = CASE WHEN $5 THEN $6 ELSE disabled_at END
WHERE name = $1 RETURNING role`
)

// identityOr knows the violation of accounts_identity.
func identityOr(err error) error {
	var unique *pgconn.PgError
	if errors.As(err, &unique) && unique.ConstraintName == "accounts_identity" || err != nil && strings.Contains(err.Error(), "accounts.identity") {
		return ErrIdentityTaken
	}
	return err
}

// AddAccount implements Accounts.
func (s *SQLite) AddAccount(ctx context.Context, a Account, act Act) error {
	act, err := a.checked(act)
	if err != nil {
		return err
	}
	added, err := s.oneAnd(ctx, strings.ReplaceAll(addAccountSQL, "{{now}}", "$6"), func(now time.Time) []any {
		return []any{a.Name, a.Role, a.Password, a.Identity, knownµs(a.DisabledAt), µs(now)}
	}, func(ctx context.Context, tx *sql.Tx, now time.Time) error { return sqliteAct(ctx, tx, act, now) })
	if err == nil && !added {
		return ErrNameTaken
	}
	return identityOr(err)
}

// knownµs is an instant as a parameter of SQLite; the zero time is NULL.
func knownµs(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return µs(t)
}

// ChangeAccount implements Accounts.
func (s *SQLite) ChangeAccount(ctx context.Context, name string, c AccountChange, act Act) error {
	act, err := c.checked(name, act)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		disabled := Account{}.changed(c).DisabledAt
		row := tx.QueryRowContext(ctx, changeAccountSQL, name, c.Role, c.Password, c.Identity, c.DisabledAt != nil, knownµs(disabled))
		switch err := row.Scan(&act.Detail); {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return identityOr(err)
		}
		return sqliteAct(ctx, tx, act, now)
	})
}

// AddAccount implements Accounts.
func (p *Postgres) AddAccount(ctx context.Context, a Account, act Act) error {
	act, err := a.checked(act)
	if err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, p.sql(addAccountSQL), a.Name, a.Role, a.Password, a.Identity, known(a.DisabledAt))
		switch {
		case err != nil:
			return identityOr(err)
		case tag.RowsAffected() == 0:
			return ErrNameTaken
		}
		return p.addAct(ctx, tx, act)
	})
}

// ChangeAccount implements Accounts.
func (p *Postgres) ChangeAccount(ctx context.Context, name string, c AccountChange, act Act) error {
	act, err := c.checked(name, act)
	if err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		disabled := Account{}.changed(c).DisabledAt
		row := tx.QueryRow(ctx, changeAccountSQL, name, c.Role, c.Password, c.Identity, c.DisabledAt != nil, known(disabled))
		if err := found(row.Scan(&act.Detail)); err != nil {
			return identityOr(err)
		}
		return p.addAct(ctx, tx, act)
	})
}
