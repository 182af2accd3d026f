package sqldb

import (
	"context"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

const (
	addFactorSQL = `INSERT INTO second_factors (account, sealed, step, created_at)
VALUES (@account, @sealed, @step, @now) ON CONFLICT DO NOTHING`

	factorSQL = `
SELECT account, sealed, step, created_at FROM second_factors WHERE account = @account`
)

func factorFields(f *store.SecondFactor) []any {
	return []any{&f.Account, &f.Sealed, &f.Step, sqlgen.ScannerFor(&f.MadeAt)}
}

// AddSecondFactor adds a second factor. It returns false if the account already has one.
func (db *DB) AddSecondFactor(ctx context.Context, f store.SecondFactor, act store.AuditEntry) (bool, error) {
	return db.changeAndAudit(ctx, "AddSecondFactor", act, addFactorSQL, Args{"account": f.Account, "sealed": f.Sealed, "step": f.Step})
}

// DropSecondFactor removes an account's second factor. It returns false if the account has none.
func (db *DB) DropSecondFactor(ctx context.Context, account string, act store.AuditEntry) (bool, error) {
	return db.changeAndAudit(ctx, "DropSecondFactor", act, `DELETE FROM second_factors WHERE account = @account`, Args{"account": account})
}

// changeAndAudit runs the statement and, if it changed a row, writes the entry in the same
// transaction.
func (db *DB) changeAndAudit(ctx context.Context, name string, act store.AuditEntry, statement string, args Args) (bool, error) {
	act, err := act.Validated()
	if err != nil {
		return false, err
	}
	return WriteWithResult(ctx, db, name, func(q Tx) (bool, error) {
		changed, err := q.Change(statement, args)
		if err != nil || !changed {
			return false, err
		}
		return true, q.addAuditEntry(act)
	})
}

// SecondFactor returns fault.NotFound if the account has none.
func (db *DB) SecondFactor(ctx context.Context, account string) (store.SecondFactor, error) {
	if !store.AreValidTexts(account) {
		return store.SecondFactor{}, fault.NotFound
	}
	return readFirst(ctx, db, "SecondFactor", factorFields, factorSQL, Args{"account": account})
}

// TakeTOTPStep marks a time step's code as used, and replaces the sealed secret. It changes nothing
// and returns false if the secret isn't oldSealed, or if the code of this or a later step was used.
// Of parallel calls for a step, at most one returns true.
func (db *DB) TakeTOTPStep(ctx context.Context, account string, step int64, oldSealed, newSealed []byte) (bool, error) {
	return db.runOne(ctx,
		"TakeTOTPStep", `UPDATE second_factors SET step = @step, sealed = @to WHERE account = @account AND step < @step AND sealed = @from`,
		Args{"account": account, "step": step, "from": oldSealed, "to": newSealed})
}
