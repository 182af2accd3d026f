package sqldb

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	changeAccountSQL = `
UPDATE accounts SET role = COALESCE(@role, role), password = COALESCE(@password, password), identity = COALESCE(@identity, identity),
  disabled_at = CASE WHEN @disables THEN @disabled_at ELSE disabled_at END
WHERE name = @name RETURNING role`

	sessionFromSQL = ` FROM sessions s LEFT JOIN second_factors f ON f.account = s.account WHERE `
)

var accountSQL = `SELECT ` + accountTable.SelectList() + ` FROM accounts a`

// AddAccount sets MadeAt. Errors: ErrNameTaken, ErrIdentityTaken.
func (db *DB) AddAccount(ctx context.Context, a store.Account, act store.AuditEntry) error {
	act, err := a.Validated(act)
	if err != nil {
		return err
	}
	return db.Write(ctx, "AddAccount", func(q Tx) error {
		a.MadeAt, a.DisabledAt = q.Now, store.TruncateToMicroseconds(a.DisabledAt)
		insert, args := accountTable.InsertSQL(store.InsertedColumn, &a)
		added, err := q.Change(insert+` ON CONFLICT DO NOTHING`, args)
		if err != nil {
			return err
		}
		if !added {
			same, err := QueryAll(q, OneColumn[string], `SELECT name FROM accounts WHERE name = @name`, args)
			if err == nil && len(same) == 0 {
				return store.ErrIdentityTaken
			}
			return cmp.Or(err, store.ErrNameTaken)
		}
		return q.addAuditEntry(act)
	})
}

// ChangeAccount writes the role after the change to the entry's Detail. Errors: fault.NotFound,
// ErrIdentityTaken.
func (db *DB) ChangeAccount(ctx context.Context, name string, c store.AccountChange, act store.AuditEntry) error {
	act, err := c.Validated(name, act)
	if err != nil {
		return err
	}
	return db.Write(ctx, "ChangeAccount", func(q Tx) error {
		// In Postgres, another transaction may add the identity after this query; then the
		// statement below fails with the same error.
		taken, err := QueryAll(q, OneColumn[string],
			`SELECT name FROM accounts WHERE identity = @identity AND identity <> '' AND name <> @name`,
			Args{"identity": c.Identity, "name": name})
		if err == nil && len(taken) > 0 {
			err = store.ErrIdentityTaken
		}
		if err != nil {
			return err
		}
		act.Detail, err = queryFirst(q, OneColumn[string], changeAccountSQL, Args{
			"name": name, "role": c.Role, "password": c.Password, "identity": c.Identity,
			"disables": c.DisabledAt != nil, "disabled_at": sqlgen.NullIfZero(store.Account{}.WithChange(c).DisabledAt),
		})
		if err != nil {
			return err
		}
		return q.addAuditEntry(act)
	})
}

// Account returns fault.NotFound if no account has this name.
func (db *DB) Account(ctx context.Context, name string) (store.Account, error) {
	return db.account(ctx, "Account", ` WHERE a.name = @value`, name)
}

// AccountByIdentity returns fault.NotFound if no account has this identity.
func (db *DB) AccountByIdentity(ctx context.Context, identity string) (store.Account, error) {
	return db.account(ctx, "AccountByIdentity", ` WHERE a.identity = @value AND a.identity <> ''`, identity)
}

func (db *DB) account(ctx context.Context, name, where, value string) (store.Account, error) {
	if !store.AreValidTexts(value) {
		return store.Account{}, fault.NotFound
	}
	return readFirst(ctx, db, name, accountTable.Destinations, accountSQL+where, Args{"value": value})
}

// Accounts returns all accounts, sorted by name.
func (db *DB) Accounts(ctx context.Context) ([]store.Account, error) {
	rows, err := ReadAll(ctx, db, "Accounts", accountTable.Destinations, accountSQL, nil)
	slices.SortFunc(rows, func(a, b store.Account) int { return cmp.Compare(a.Name, b.Name) })
	return rows, err
}

// BeginSession adds a session that starts now, and returns it with StartedAt and SeenAt. It also
// deletes all sessions that started more than life ago.
func (db *DB) BeginSession(ctx context.Context, s store.Session, life time.Duration,
	act store.AuditEntry,
) (store.Session, error) {
	act, err := s.Validated(act)
	if err != nil {
		return s, err
	}
	err = db.Write(ctx, "BeginSession", func(q Tx) error {
		s.StartedAt, s.SeenAt, s.FactorAt = q.Now, q.Now, time.Time{}
		if err := q.exec(`DELETE FROM sessions WHERE started_at < @since`,
			Args{"since": q.Now.Add(-life.Truncate(time.Microsecond))}); err != nil {
			return err
		}
		if err := q.exec(sessionTable.InsertSQL(store.InsertedColumn, &s)); err != nil {
			return err
		}
		return q.addAuditEntry(act)
	})
	return s, err
}

// Session returns a session and the time on the database's clock, or fault.NotFound if no session
// has this ID.
func (db *DB) Session(ctx context.Context, id [32]byte) (s store.Session, now time.Time, err error) {
	s, err = readFirst(ctx, db, "Session", withClockColumn(&now, sessionTable.Destinations),
		`SELECT @now, `+sessionTable.SelectList()+sessionFromSQL+`s.id = @id`, Args{"id": id})
	return s, now, err
}

func (db *DB) TouchSession(ctx context.Context, id [32]byte) error {
	_, err := db.runOne(ctx, "TouchSession", `UPDATE sessions SET seen_at = @now WHERE id = @id`, Args{"id": id})
	return err
}

// EndSession deletes a session. It returns no error if there is no such session.
func (db *DB) EndSession(ctx context.Context, id [32]byte) error {
	_, err := db.runOne(ctx, "EndSession", `DELETE FROM sessions WHERE id = @id`, Args{"id": id})
	return err
}

// EndSessions writes the number of deleted sessions to the entry's Detail. If there are none, it
// changes nothing and returns false.
func (db *DB) EndSessions(ctx context.Context, account string, act store.AuditEntry) (ended bool, err error) {
	act, err = store.Session{Account: account}.Validated(act)
	if err != nil {
		return false, err
	}
	err = db.Write(ctx, "EndSessions", func(q Tx) error {
		n, err := q.Run(`DELETE FROM sessions WHERE account = @account`, Args{"account": account}, nil)
		ended = n > 0
		if err != nil || !ended {
			return err
		}
		act.Detail = strconv.FormatInt(n, 10)
		return q.addAuditEntry(act)
	})
	return ended && err == nil, err
}
