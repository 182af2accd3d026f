package sqlite

import (
	"context"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlgen"
)

const (
	countCheckSQL = `
UPDATE verifications SET attempts = attempts + 1, checks = checks || CASE WHEN checks = '' THEN '' ELSE ',' END || @entry,
       approved_at = CASE WHEN @approves THEN @now END, check_key = @key
WHERE id = @id`
)

// Check implements sqldb.PerDatabase.
func (db *DB) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	defer db.Observe(&ctx, "check", "check")()
	if !store.AreValidTexts(c.ID, c.Network) {
		return store.CheckAnswer{}, fault.NotFound
	}
	var refusal error // an error of the caller's Judge, not of the database
	checked, err := sqldb.WriteWithResult(ctx, &db.DB, "Check", func(q sqldb.Tx) (d store.CheckAnswer, err error) {
		v, err := q.Verification(c.ID)
		if err != nil {
			return d, err
		}
		tried, err := q.VerificationsWithChecks(v, q.Now)
		if err != nil {
			return d, err
		}
		d, refusal = rowrules.DecideCheck(c, v, tried, q.Now)
		if refusal != nil {
			return d, nil
		}
		args := sqldb.Args{
			"id": c.ID, "approves": d.Approved, "key": d.Verification.CheckKey,
			"entry": string(sqlgen.AppendCheck(nil, store.Check{At: q.Now, Network: c.Network})),
		}
		switch {
		case d.KeyReused:
			err = q.ExecAll(args, sqldb.SetCheckKeySQL)
		case d.Counted:
			err = q.ExecAll(args, countCheckSQL)
		}
		if err == nil && d.Approved {
			err = q.ExecAll(sqldb.Args{"recipient": v.Recipient}, sqldb.LiftDisprovedOfRecipientSQL)
		}
		if err != nil || !d.Counted {
			return d, err
		}
		return d, q.AddAppEvents(c.ID, "", d.Event)
	})
	if err == nil && refusal != nil {
		return store.CheckAnswer{}, refusal
	}
	return checked, err
}
