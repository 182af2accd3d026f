package sqlite

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// Begin implements sqldb.PerDatabase.
func (db *DB) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	defer db.Observe(&ctx, "begin", "begin")()
	in, err := store.ValidatedIntent(intent)
	if err != nil {
		return store.BeginAnswer{}, err
	}
	// A send that a rule refuses needs only this read, and waits for no write.
	d := rowrules.Decision{BeginAnswer: store.BeginAnswer{Admitted: true}}
	err = db.Read(ctx, "Begin", func(q sqldb.Tx) error {
		has, err := readCounted(q, in)
		if err == nil && !rowrules.Decide(in, q.Now, has).Admitted {
			d, err = decide(q, in, func() (rowrules.RecipientHistory, error) { return has, nil })
		}
		return err
	})
	if err == nil && (!d.Admitted || d.Repeated) { // after an error of the read, the write decides
		return d.BeginAnswer, nil
	}
	return sqldb.WriteWithResult(ctx, &db.DB, "Begin", func(q sqldb.Tx) (store.BeginAnswer, error) {
		d, err := decide(q, in, func() (rowrules.RecipientHistory, error) { return readFacts(q, in) })
		if err == nil && d.Admitted && !d.Repeated {
			err = writeAdmitted(q, d)
		}
		return d.BeginAnswer, err
	})
}

// decide calls read for the rows. If the send has a row already, it returns
// rowrules.RepeatedAnswer. Errors: store.ErrIDTimeDrift, and those of RepeatedAnswer, of read and
// of the database.
func decide(q sqldb.Tx, in store.Intent, read func() (rowrules.RecipientHistory, error)) (d rowrules.Decision, err error) {
	earlier, err := q.Send(in.Send.ID)
	if err == nil {
		v, err := q.Verification(earlier.VerificationID)
		if err == nil || errors.Is(err, fault.NotFound) {
			d.BeginAnswer, err = rowrules.RepeatedAnswer(in, earlier, v)
		}
		return d, err
	}
	if !errors.Is(err, fault.NotFound) {
		return d, err
	}
	if err := store.CheckIDTimeDrift(in.Send.ID, q.Now); err != nil {
		return d, err
	}
	has, err := read()
	if err != nil {
		return d, err
	}
	return rowrules.Decide(in, q.Now, has), nil
}

// readCounted reads what the rules of an intent count.
func readCounted(q sqldb.Tx, in store.Intent) (rowrules.RecipientHistory, error) {
	s := in.Send
	counted, err := readHistory(q, rowrules.HistoryQuery{
		SendBucket:    store.SendBucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: in.Purposes},
		CountedWithin: quota.LongestKeep(in.Rules), RejectedWithin: quota.LongestKeep(in.RejectionRules),
	})
	return rowrules.RecipientHistory{Past: counted.Past, Rejections: counted.Rejections}, err
}

func readFacts(q sqldb.Tx, in store.Intent) (has rowrules.RecipientHistory, err error) {
	s := in.Send
	if has, err = readCounted(q, in); err != nil {
		return has, err
	}
	if has.Candidates, err = joinCandidates(q, in); err != nil {
		return has, err
	}
	if has.Tried, err = q.VerificationsWithChecks(in.Verification, q.Now); err != nil {
		return has, err
	}
	suppressions, err := sqldb.QueryAll(q, sqldb.OneColumn[uuid.UUID], `
SELECT id FROM suppressions
WHERE lifted_at IS NULL AND address = @address AND channel = @channel AND until > @now AND app IN ('', @app)
ORDER BY until DESC, id DESC LIMIT 1`, sqldb.Args{"address": in.Address, "channel": s.Channel, "app": s.App})
	if len(suppressions) > 0 {
		has.Suppression = suppressions[0]
	}
	return has, err
}

// joinCandidates returns what a send may join, for rowrules.Decide to choose from: the verification
// Join or, with HolderToJoin, those of the recipient's recent sends, including those of other
// holders.
func joinCandidates(q sqldb.Tx, in store.Intent) ([]store.Verification, error) {
	switch s := in.Send; {
	case in.Join != "":
		v, err := q.Verification(in.Join)
		if errors.Is(err, fault.NotFound) {
			return nil, nil
		}
		return []store.Verification{v}, err
	case in.HolderToJoin() != "":
		return sqldb.QueryAll(q, sqldb.VerificationFields, candidatesSQL, sqldb.Args{
			"recipient": s.Recipient, "after": q.Now.Add(-rowrules.ResendWithin), "app": s.App, "channel": s.Channel,
			"purpose": s.Purpose,
		})
	}
	return nil, nil
}

var candidatesSQL = `SELECT ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id IN (
    SELECT s.verification_id FROM sends s WHERE s.recipient = @recipient AND s.logged_at > @after AND s.app = @app
      AND s.channel = @channel AND s.purpose = @purpose)`

// writeAdmitted inserts the send and its row of the outbox. It inserts the verification or, if the
// send joined one, updates that one's sends and labels.
func writeAdmitted(q sqldb.Tx, r rowrules.Decision) (err error) {
	if r.Joined {
		args := sqldb.Args{"sends": r.Verification.Sends, "id": r.Verification.ID}
		for name, text := range r.Verification.Labels.All() {
			args[name] = text
		}
		_, err = q.Change(`UPDATE verifications SET sends = @sends, `+sqldb.SetLabelsSQL("@")+` WHERE id = @id`, args)
	} else {
		_, err = q.Change(sqldb.VerificationTable.InsertSQL(store.InsertedByBegin, &r.Verification))
	}
	if err != nil {
		return err
	}
	if _, err := q.Change(sqldb.SendTable.InsertSQL(store.InsertedByBegin, &r.Send)); err != nil {
		return err
	}
	var sealed any // NULL
	if r.Code != nil {
		sealed = r.Code
	}
	_, err = q.Change(`INSERT INTO outbox (id, due_at, attempt, queued, channel, stranger, expires_at, sealed)
VALUES (@id, @due, 1, 0, @channel, @stranger, @expires, @sealed)`,
		sqldb.Args{
			"id": r.Send.ID, "due": r.Send.DueAt, "channel": r.Send.Channel,
			"stranger": r.Verification.Class.IsStranger(),
			"expires":  r.Verification.ExpiresAt, "sealed": sealed,
		})
	return err
}

// RecordRefusals implements sqldb.PerDatabase.
func (db *DB) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	defer db.Observe(&ctx, "refused", "refused")()
	list := store.MergeRefusals(refusals)
	return db.Engine.Write(ctx, "RecordRefusals", sqldb.InOrder, func(q sqldb.Tx) error {
		if err := q.MaskErased(list); err != nil {
			return err
		}
		for i := range list {
			list[i].SetRefusedAt(q.Now)
			insert, args := sqldb.RefusalTable.InsertSQL(store.InsertedByRefusal, &list[i])
			if _, err := q.Change(insert+sqldb.OnConflictAddRefusalSQL, args); err != nil {
				return err
			}
		}
		return nil
	})
}
