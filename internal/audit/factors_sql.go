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
	addFactorSQL = `INSERT INTO second_factors (account, sealed, step, made_at) VALUES ($1, $2, $3, {{now}}) ON CONFLICT DO NOTHING`
	factorSQL    = `SELECT f.account, f.sealed, f.step, f.made_at, (SELECT count(*) FROM recovery_codes r WHERE r.account = f.account)
FROM second_factors f WHERE f.account = $1`
	takeStepSQL    = `UPDATE second_factors SET step = $2, sealed = $4 WHERE account = $1 AND step < $2 AND sealed = $3`
	takeCodeSQL    = `DELETE FROM recovery_codes WHERE account = $1 AND hash = $2`
	lockFactorSQL  = `UPDATE second_factors SET step = step WHERE account = $1`
	dropFactorSQL  = `DELETE FROM second_factors WHERE account = $1`
	forgetCodesSQL = `DELETE FROM recovery_codes WHERE account = $1`
	putCodeSQL     = `INSERT INTO recovery_codes (account, hash) VALUES ($1, $2) ON CONFLICT DO NOTHING`
)

func (f *SecondFactor) fields() []any {
	return []any{&f.Account, &f.Sealed, &f.Step, timeField{&f.MadeAt}, &f.Codes}
}

// codeStatements replace the recovery codes of an account.
func codeStatements(account string, codes [][32]byte) []statement {
	all := []statement{{forgetCodesSQL, []any{account}}}
	for _, c := range codes {
		all = append(all, statement{putCodeSQL, []any{account, c[:]}})
	}
	return all
}

// statement is one with its parameters.
type statement struct {
	sql  string
	args []any
}

// firstThen runs the first statement and, where that changed a row, the others and the act, in one transaction.
func (s *SQLite) firstThen(ctx context.Context, act Act, first string, args func(now time.Time) []any, then []statement) (bool, error) {
	act, err := act.checked()
	if err != nil {
		return false, err
	}
	return s.oneAnd(ctx, first, args, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, more := range then {
			if _, err := tx.ExecContext(ctx, more.sql, more.args...); err != nil {
				return err
			}
		}
		return sqliteAct(ctx, tx, act, now)
	})
}

func always(args ...any) func(time.Time) []any { return func(time.Time) []any { return args } }

// AddSecondFactor implements SecondFactors.
func (s *SQLite) AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act Act) (bool, error) {
	if _, err := f.checked(act); err != nil {
		return false, err
	}
	return s.firstThen(ctx, act, strings.ReplaceAll(addFactorSQL, "{{now}}", "$4"), func(now time.Time) []any {
		return []any{f.Account, f.Sealed, f.Step, µs(now)}
	}, codeStatements(f.Account, codes))
}

// SecondFactor implements SecondFactors.
func (s *SQLite) SecondFactor(ctx context.Context, account string) (SecondFactor, error) {
	f, err := first(ctx, s.readers, (*SecondFactor).fields, factorSQL, account)
	return f, unavailable(err)
}

// TakeStep implements SecondFactors.
func (s *SQLite) TakeStep(ctx context.Context, account string, step int64, from, to []byte) (bool, error) {
	return s.one(ctx, takeStepSQL, func(time.Time) []any { return []any{account, step, from, to} })
}

// TakeRecoveryCode implements SecondFactors.
func (s *SQLite) TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act Act) (bool, error) {
	return s.firstThen(ctx, act, takeCodeSQL, always(account, hash[:]), nil)
}

// PutRecoveryCodes implements SecondFactors.
func (s *SQLite) PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act Act) (bool, error) {
	return s.firstThen(ctx, act, lockFactorSQL, always(account), codeStatements(account, codes))
}

// DropSecondFactor implements SecondFactors.
func (s *SQLite) DropSecondFactor(ctx context.Context, account string, act Act) (bool, error) {
	return s.firstThen(ctx, act, dropFactorSQL, always(account), codeStatements(account, nil))
}

// firstThen is SQLite's. The first statement locks the account's second factor, so that two who replace codes take turns.
func (p *Postgres) firstThen(ctx context.Context, act Act, first statement, then []statement) (changed bool, err error) {
	if act, err = act.checked(); err != nil {
		return false, err
	}
	err = p.inTransaction(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, p.sql(first.sql), first.args...)
		if changed = tag.RowsAffected() > 0; err != nil || !changed {
			return err
		}
		for _, more := range then {
			if _, err := tx.Exec(ctx, more.sql, more.args...); err != nil {
				return err
			}
		}
		return p.addAct(ctx, tx, act)
	})
	return changed && err == nil, err
}

// AddSecondFactor implements SecondFactors.
func (p *Postgres) AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act Act) (bool, error) {
	if _, err := f.checked(act); err != nil {
		return false, err
	}
	return p.firstThen(ctx, act, statement{addFactorSQL, []any{f.Account, f.Sealed, f.Step}}, codeStatements(f.Account, codes))
}

// SecondFactor implements SecondFactors.
func (p *Postgres) SecondFactor(ctx context.Context, account string) (SecondFactor, error) {
	if !storable(account) {
		return SecondFactor{}, ErrNotFound
	}
	list, err := readRows(ctx, p, (*SecondFactor).fields, factorSQL, account)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return SecondFactor{}, err
	}
	return list[0], nil
}

// TakeStep implements SecondFactors.
func (p *Postgres) TakeStep(ctx context.Context, account string, step int64, from, to []byte) (taken bool, err error) {
	err = p.change(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, takeStepSQL, account, step, from, to)
		taken = tag.RowsAffected() > 0
		return err
	})
	return taken && err == nil, err
}

// TakeRecoveryCode implements SecondFactors.
func (p *Postgres) TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act Act) (bool, error) {
	return p.firstThen(ctx, act, statement{takeCodeSQL, []any{account, hash[:]}}, nil)
}

// PutRecoveryCodes implements SecondFactors.
func (p *Postgres) PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act Act) (bool, error) {
	return p.firstThen(ctx, act, statement{lockFactorSQL, []any{account}}, codeStatements(account, codes))
}

// DropSecondFactor implements SecondFactors.
func (p *Postgres) DropSecondFactor(ctx context.Context, account string, act Act) (bool, error) {
	return p.firstThen(ctx, act, statement{dropFactorSQL, []any{account}}, codeStatements(account, nil))
}
