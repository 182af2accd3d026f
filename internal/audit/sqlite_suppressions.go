package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
)

// sqliteBar is what Finish does of an outcome's Bar, in its transaction.
func sqliteBar(ctx context.Context, tx *sql.Tx, o Outcome, now time.Time) error {
	row, err := sqliteSend(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	_, err = sqliteTx(ctx, tx, now).suppress(Suppression{
		ID: SuppressionID(row.ID, o.Bar.Cause), App: row.App, Channel: row.Channel, Address: o.Bar.Address, Recipient: row.Recipient,
		To: row.To, Cause: o.Bar.Cause, Detail: o.ProviderCode, Send: row.ID, Since: now, Until: now.Add(o.Bar.For),
	})
	return err
}

// sqliteSuppressing is the suppression that an intent meets, the one that lasts longest; Nil: none.
func sqliteSuppressing(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) (uuid.UUID, error) {
	id, err := first(ctx, tx, func(id *uuid.UUID) []any { return []any{id} }, `
SELECT id FROM suppressions
WHERE lifted_at IS NULL AND address = $1 AND channel = $2 AND until > $3 AND app IN ('', $4) ORDER BY until DESC, id DESC LIMIT 1`,
		in.Address[:], in.Send.Channel, µs(now), in.Send.App)
	if errors.Is(err, ErrNotFound) {
		return uuid.Nil, nil
	}
	return id, err
}

// knownID is nil for no ID, which is NULL.
func knownID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
