package audit

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Begin implements Outbox.
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
	has, err := sqliteSeen(ctx, tx, in, now)
	if err != nil {
		return Begun{}, err
	}
	r := decide(in, now, has)
	if !r.Admitted {
		return r.Begun, nil
	}
	return r.Begun, sqliteWrite(ctx, tx, r)
}

// sqliteSeen reads what decides an intent.
func sqliteSeen(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) (has seen, err error) {
	if has.past, err = sqlitePast(ctx, tx, in, now); err != nil {
		return has, err
	}
	if has.rejections, err = sqliteRejected(ctx, tx, in.Send, now, in.Rejections.Window); err != nil {
		return has, err
	}
	if has.candidates, err = sqliteCandidates(ctx, tx, in, now); err != nil {
		return has, err
	}
	if has.tried, err = sqliteTx(ctx, tx, now).allTried(in.Verification, now); err != nil {
		return has, err
	}
	has.suppression, err = sqliteSuppressing(ctx, tx, in, now)
	return has, err
}

// sqliteWrite writes what was admitted.
func sqliteWrite(ctx context.Context, tx *sql.Tx, r ruling) (err error) {
	if r.joined {
		_, err = tx.ExecContext(ctx, `UPDATE verifications SET sends = $1 WHERE id = $2`, r.Verification.Sends, r.Verification.ID)
	} else {
		_, err = tx.ExecContext(ctx, insertVerification, verificationTable.values(asSend, &r.Verification)...)
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertSend, sendTable.values(asSend, &r.Send)...); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO flights (id, due_at, attempt, queued, channel) VALUES ($1, $2, 1, 0, $3)`, r.Send.ID, µs(r.Send.DueAt), r.Send.Channel)
	return err
}

var (
	insertVerification = verificationTable.insertOne(asSend)
	insertSend         = sendTable.insertOne(asSend)
)

// sqlitePast reads the sends of the intent's bucket that may count, the newest first.
func sqlitePast(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) ([]past, error) {
	if len(in.Rules) == 0 {
		return nil, nil
	}
	s := in.Send
	args := []any{s.Recipient[:], µs(now.Add(-reachOf(in))), s.App, s.Channel}
	for _, p := range in.Purposes {
		args = append(args, p)
	}
	rows, err := tx.QueryContext(ctx, sqlitePastSQL+`(?`+strings.Repeat(", ?", len(in.Purposes)-1)+`) ORDER BY s.logged_at DESC`, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(p *past) []any { return []any{&p.id, &p.clock, timeField{&p.takenAt}, timeField{&p.loggedAt}} })
}

const sqlitePastSQL = `SELECT s.id, s.clock, s.taken_at, s.logged_at FROM sends s
WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.counts = 1 AND s.app = ? AND s.channel = ? AND s.purpose IN `

// sqliteCandidates are the verifications that the intent may join; joinable decides.
func sqliteCandidates(ctx context.Context, tx *sql.Tx, in Intent, now time.Time) ([]Verification, error) {
	s, query := in.Send, `SELECT `+verificationColumns+` FROM verifications v WHERE v.id = ?`
	args := []any{in.Join}
	switch {
	case in.Join != "":
	case in.Verification.Holder != "":
		query, args = sqliteHeldSQL, []any{s.Recipient[:], µs(now.Add(-stale)), s.App, s.Channel, s.Purpose}
	default:
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, verificationFields)
}

// sqliteHeldSQL finds the verifications of a recipient by its sends of the time that one may live.
var sqliteHeldSQL = `SELECT ` + verificationColumns + ` FROM verifications v WHERE v.id IN (
    SELECT s.verification_id FROM sends s WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.app = ? AND s.channel = ? AND s.purpose = ?)`

// queryer is what both a transaction and the readers do.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func sqliteSend(ctx context.Context, q queryer, id uuid.UUID) (Send, error) {
	return first(ctx, q, sendFields, `SELECT `+sendColumns+` FROM sends s WHERE s.id = $1`, id)
}

func sqliteVerification(ctx context.Context, q queryer, id string) (Verification, error) {
	return first(ctx, q, verificationFields, `SELECT `+verificationColumns+` FROM verifications v WHERE v.id = $1`, id)
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
