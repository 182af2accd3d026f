package audit

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Begin implements Log.
func (s *SQLite) Begin(ctx context.Context, intent Intent) (begun Begun, err error) {
	in, err := checked(intent)
	if err != nil {
		return Begun{}, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		begun, err = sqliteBegin(ctx, tx, in, now)
		return err
	})
	if err != nil {
		return Begun{}, err
	}
	return begun, nil
}

func sqliteBegin(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) (Begun, error) {
	earlier, err := sqliteSend(ctx, tx, in.Send.ID)
	if err == nil {
		v, err := sqliteVerification(ctx, tx, earlier.VerificationID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Begun{}, err
		}
		return repeated(in, earlier, v)
	}
	if !errors.Is(err, ErrNotFound) {
		return Begun{}, err
	}
	if err := drifted(in.Send.ID, now); err != nil {
		return Begun{}, err
	}
	rows, err := sqlitePast(ctx, tx, in)
	if err != nil {
		return Begun{}, err
	}
	events := history(in, now, rows)
	rejections, err := sqliteRejected(ctx, tx, in.Send.bucket(), now, in.Rejections.Window)
	if err != nil {
		return Begun{}, err
	}
	failed := rejected(in, now, rejections)
	if !admits(in, now, events) || !bears(in, failed) {
		return refused(in, now, events, failed), nil
	}
	joins, err := sqliteJoin(ctx, tx, in, now)
	if err != nil {
		return Begun{}, err
	}
	if out, err := sqliteLockedOut(ctx, tx, carrier(in, joins), now); err != nil || out.Wait > 0 {
		return lockedOut(in, now, out), err
	}
	v, err := sqliteOpen(ctx, tx, in, joins, now)
	if err != nil {
		return Begun{}, err
	}
	suppression, err := sqliteSuppressing(ctx, tx, in, now)
	if err != nil {
		return Begun{}, err
	}
	row := written(in, v, v.Sends, suppression, now)
	_, err = tx.ExecContext(ctx, `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip,
                   status, attempt, counts, taken_at, clock, logged_at, due_at, observed, suppression_id, country, prefix)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1, $14, $15, $16, $17, $18, $19, $20, $21)`,
		row.ID, row.VerificationID, row.Number, row.App, row.Channel, row.Purpose, row.Recipient[:], row.To, row.Locale, row.Reference, row.IP,
		row.Status, row.Attempt, µs(row.TakenAt), row.Clock, µs(row.LoggedAt), µs(row.DueAt), strings.Join(row.Observed, comma), knownID(row.Suppression), row.Country, row.Prefix)
	return admitted(in, v, row, now, events, failed), err
}

// sqlitePast reads the counting sends of the intent's bucket. That is a few rows: what a recipient was sent within the
// retention.
func sqlitePast(ctx context.Context, tx *sql.Tx, in Intent) ([]past, error) {
	s := in.Send
	args := []any{s.Recipient[:], s.App, s.Channel}
	for _, p := range in.Purposes {
		args = append(args, p)
	}
	rows, err := tx.QueryContext(ctx, `
SELECT id, clock, taken_at, logged_at FROM sends
WHERE counts = 1 AND recipient = ? AND app = ? AND channel = ? AND purpose IN (?`+strings.Repeat(", ?", len(in.Purposes)-1)+`)`, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(p *past) []any { return []any{&p.id, &p.clock, timeField{&p.takenAt}, timeField{&p.loggedAt}} })
}

// sqliteJoin is the verification that the intent resends; nil: it opens one.
func sqliteJoin(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) (*Verification, error) {
	candidates, err := sqliteCandidates(ctx, tx, in)
	if err != nil {
		return nil, err
	}
	for _, v := range candidates {
		if joinable(v, in, now) {
			return &v, nil
		}
	}
	return nil, nil
}

// sqliteOpen joins a verification or opens one, and counts the send on it.
func sqliteOpen(ctx context.Context, tx *sql.Tx, in Intent, joins *Verification, now time.Time) (Verification, error) {
	if joins != nil {
		v := *joins
		v.Sends++
		_, err := tx.ExecContext(ctx, `UPDATE verifications SET sends = $1 WHERE id = $2`, v.Sends, v.ID)
		return v, err
	}
	v := opened(in, now)
	v.Sends = 1
	_, err := tx.ExecContext(ctx, `
INSERT INTO verifications (id, app, channel, purpose, recipient, masked, sealed, holder, nonce, key_id, code_length,
                           alphabet, locale, reference, created_at, expires_at, attempts, max_attempts, sends, by_browser)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, $17, 1, $18)`,
		v.ID, v.App, v.Channel, v.Purpose, v.Recipient[:], v.To, v.Sealed, v.Holder, nonNil(v.Nonce), v.KeyID, v.CodeLength,
		v.Alphabet, v.Locale, v.Reference, µs(v.CreatedAt), µs(v.ExpiresAt), v.MaxAttempts, v.ByBrowser)
	return v, err
}

// sqliteCandidates are the verifications that the intent may join, the newest first; joinable decides.
func sqliteCandidates(ctx context.Context, tx *sql.Tx, in Intent) ([]Verification, error) {
	s := in.Send
	var c conditions
	switch {
	case in.Join != "":
		c.add("v.id = ?", in.Join)
	case in.Verification.Holder != "":
		c.add("v.holder <> '' AND v.approved_at IS NULL AND v.canceled_at IS NULL") // the partial index
		c.add("v.recipient = ? AND v.app = ? AND v.channel = ?", s.Recipient[:], s.App, s.Channel)
		c.add("v.purpose = ? AND v.holder = ?", s.Purpose, in.Verification.Holder)
	default:
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+verificationColumns+` FROM verifications v`+c.where()+` ORDER BY v.created_at DESC, v.id DESC`, c.args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, (*Verification).fields)
}

// nonNil is what a column that is not NULL takes.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// queryer is what both a transaction and the readers do.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func sqliteSend(ctx context.Context, q queryer, id uuid.UUID) (Send, error) {
	return first(ctx, q, (*Send).fields, `SELECT `+sendColumns+` FROM sends s WHERE s.id = $1`, id)
}

func sqliteVerification(ctx context.Context, q queryer, id string) (Verification, error) {
	return first(ctx, q, (*Verification).fields, `SELECT `+verificationColumns+` FROM verifications v WHERE v.id = $1`, id)
}

// first reads one row, or ErrNotFound.
func first[T any](ctx context.Context, q queryer, fields func(*T) []any, query string, args ...any) (T, error) {
	var none T
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return none, err
	}
	list, err := collect(rows, fields)
	if err != nil {
		return none, err
	}
	if len(list) == 0 {
		return none, ErrNotFound
	}
	return list[0], nil
}

// collect reads all rows and closes them.
func collect[T any](rows *sql.Rows, fields func(*T) []any) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		var x T
		if err := rows.Scan(fields(&x)...); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, rows.Err()
}
