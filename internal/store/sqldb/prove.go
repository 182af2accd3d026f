package sqldb

import (
	"context"

	"sendcode/internal/store"
)

// indexProvenSQL adds the minute of a proven address to the table minute_index, by which Postgres
// finds such rows.
var indexProvenSQL = dialectSQL{Postgres: `
INSERT INTO minute_index (field, value, minute) SELECT m.field, m.value, date_trunc('minute', s.logged_at) FROM sends s
  CROSS JOIN LATERAL (VALUES ('provider', s.provider), ('status', s.status)) AS m (field, value) WHERE s.id = @id ORDER BY 1
  ON CONFLICT DO NOTHING`}

// InsertProven writes an approved verification, whose address a browser proved, a row of sends with status
// Proven, and the event tell. Nothing is sent for the row, and no rule counts it. issuer is the
// host that vouches for the address. The intent has neither rules nor a lease. False: the nonce was
// used before, so the verification's ID, which is made of it, has a row already; nothing was
// written.
func (db *DB) InsertProven(ctx context.Context, intent store.Intent, issuer string, tell store.NewEvent) (store.BeginAnswer,
	bool, error) {
	in, err := store.ValidatedIntent(intent)
	if err == nil && !store.AreValidTexts(issuer) {
		err = store.BadRequestf("the issuer is not plain text")
	}
	if err != nil {
		return store.BeginAnswer{}, false, err
	}
	var fresh bool
	begun, err := WriteWithResult(ctx, db, "InsertProven", func(q Tx) (b store.BeginAnswer, err error) {
		b = provenAnswer(in, issuer, q)
		if err := store.CheckIDTimeDrift(b.Send.ID, q.Now); err != nil {
			return b, err
		}
		insert, args := VerificationTable.InsertSQL(store.InsertedByBegin|store.InsertedByProve, &b.Verification)
		if fresh, err = q.Change(insert+` ON CONFLICT (id) DO NOTHING`, args); err != nil || !fresh {
			return store.BeginAnswer{}, err
		}
		if _, err = q.Change(SendTable.InsertSQL(store.InsertedByBegin|store.InsertedByProve, &b.Send)); err != nil {
			return b, err
		}
		if index := q.Dialect.pick(indexProvenSQL); index != "" {
			if _, err = q.Change(index, Args{"id": b.Send.ID}); err != nil {
				return b, err
			}
		}
		return b, q.AddAppEvents(b.Verification.ID, "", tell)
	})
	return begun, fresh && err == nil, err
}

func provenAnswer(in store.Intent, issuer string, q Tx) store.BeginAnswer {
	v, s := in.Verification, in.Send
	v.CreatedAt, v.ApprovedAt, v.ExpiresAt, v.Method = q.Now, q.Now, q.Now.Add(in.TTL), store.MethodEVP
	s.VerificationID, s.Number, s.Status, s.Provider = v.ID, 0, store.Proven, issuer
	s.LoggedAt, s.FinishedAt = q.Now, q.Now
	return store.BeginAnswer{Admitted: true, Verification: v, Send: s, Now: q.Now}
}
