package sqldb

import (
	"context"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/columns"
)

const (
	addFactorSQL = `INSERT INTO second_factors (account, sealed, step, created_at)
VALUES (@account, @sealed, @step, @now) ON CONFLICT DO NOTHING`

	factorSQL = `
SELECT f.account, f.sealed, f.step, f.created_at, (SELECT count(*) FROM recovery_codes r WHERE r.account = f.account)
FROM second_factors f WHERE f.account = @account`

	// lockFactorSQL locks the account's second factor. It changes no row if there is none.
	lockFactorSQL = `UPDATE second_factors SET step = step WHERE account = @account`
)

func factorFields(f *store.SecondFactor) []any {
	return []any{&f.Account, &f.Sealed, &f.Step, columns.ScannerFor(&f.MadeAt), &f.Codes}
}

// AddSecondFactor gives an account a second factor and recovery codes; codes are their hashes.
// False: the account has a second factor already, and nothing was changed.
func (db *DB) AddSecondFactor(ctx context.Context, f store.SecondFactor, codes [][32]byte,
	act store.AuditEntry,
) (bool, error) {
	return db.changeFactor(ctx, "AddSecondFactor", act, addFactorSQL, Args{"account": f.Account, "sealed": f.Sealed, "step": f.Step},
		codes)
}

// PutRecoveryCodes replaces all recovery codes of the account; codes are the hashes. False: the
// account has no second factor.
func (db *DB) PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte,
	act store.AuditEntry,
) (bool, error) {
	return db.changeFactor(ctx, "PutRecoveryCodes", act, lockFactorSQL, Args{"account": account}, codes)
}

// DropSecondFactor deletes the account's second factor and recovery codes. False: the account has
// none.
func (db *DB) DropSecondFactor(ctx context.Context, account string, act store.AuditEntry) (bool, error) {
	return db.changeFactor(ctx, "DropSecondFactor", act, `DELETE FROM second_factors WHERE account = @account`,
		Args{"account": account}, nil)
}

// changeFactor runs a statement on an account's second factor and, if it changed a row, replaces
// all recovery codes by codes and writes act. It reports whether a row was changed. The row lock
// makes two such calls run one after the other.
func (db *DB) changeFactor(ctx context.Context, name string, act store.AuditEntry, statement string, args Args,
	codes [][32]byte,
) (bool, error) {
	return db.changeAndAudit(ctx, name, act, statement, args, func(q Tx) error {
		if err := q.exec(`DELETE FROM recovery_codes WHERE account = @account`, args); err != nil {
			return err
		}
		for _, c := range codes {
			err := q.exec(`INSERT INTO recovery_codes (account, hash) VALUES (@account, @hash) ON CONFLICT DO NOTHING`,
				Args{"account": args["account"], "hash": c})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// changeAndAudit runs a statement and, if it changed a row, the function and the audit entry, in
// one transaction. It reports whether a row was changed.
func (db *DB) changeAndAudit(ctx context.Context, name string, act store.AuditEntry, statement string, args Args,
	then func(q Tx) error,
) (bool, error) {
	act, err := act.Validated()
	if err != nil {
		return false, err
	}
	return WriteWithResult(ctx, db, name, func(q Tx) (bool, error) {
		changed, err := q.Change(statement, args)
		if err != nil || !changed {
			return false, err
		}
		if err := then(q); err != nil {
			return false, err
		}
		return true, q.addAuditEntry(act)
	})
}

// SecondFactor returns the account's second factor, or fault.NotFound.
func (db *DB) SecondFactor(ctx context.Context, account string) (store.SecondFactor, error) {
	if !store.AreValidTexts(account) {
		return store.SecondFactor{}, fault.NotFound
	}
	return readFirst(ctx, db, "SecondFactor", factorFields, factorSQL, Args{"account": account})
}

// TakeTOTPStep marks the code of a time step as used, and replaces Sealed, which must equal
// oldSealed, by newSealed. False: the code of this or of a later step was used before, or Sealed is not oldSealed; nothing
// was changed. Of parallel calls on all replicas one returns true.
func (db *DB) TakeTOTPStep(ctx context.Context, account string, step int64, oldSealed, newSealed []byte) (bool, error) {
	return db.runOne(ctx,
		"TakeTOTPStep", `UPDATE second_factors SET step = @step, sealed = @to WHERE account = @account AND step < @step AND sealed = @from`,
		Args{"account": account, "step": step, "from": oldSealed, "to": newSealed})
}

// TakeRecoveryCode deletes the recovery code with this hash. False: there is none. Of parallel
// calls on all replicas one returns true.
func (db *DB) TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act store.AuditEntry) (bool, error) {
	return db.changeAndAudit(ctx, "TakeRecoveryCode", act, `DELETE FROM recovery_codes WHERE account = @account AND hash = @hash`,
		Args{"account": account, "hash": hash}, func(Tx) error { return nil })
}
