package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
)

// Begin implements Outbox.
func (s *DB) Begin(ctx context.Context, intent store.Intent) (begun store.Begun, err error) {
	in, err := store.Checked(intent)
	if err != nil {
		return store.Begun{}, err
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		begun, err = sqliteBegin(ctx, tx, in, now)
		return err
	})
	if err != nil {
		return store.Begun{}, err
	}
	return begun, nil
}

func sqliteBegin(ctx context.Context, tx *sql.Tx, in store.Intent, now time.Time) (store.Begun, error) {
	earlier, err := sqliteSend(ctx, tx, in.Send.ID)
	if err == nil {
		v, err := sqliteVerification(ctx, tx, earlier.VerificationID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Begun{}, err
		}
		return gate.Repeated(in, earlier, v)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Begun{}, err
	}
	if err := store.Drifted(in.Send.ID, now); err != nil {
		return store.Begun{}, err
	}
	has, err := sqliteSeen(ctx, tx, in, now)
	if err != nil {
		return store.Begun{}, err
	}
	r := gate.Decide(in, now, has)
	if !r.Admitted {
		return r.Begun, nil
	}
	return r.Begun, sqliteWrite(ctx, tx, r)
}

// sqliteSeen reads what decides an intent.
func sqliteSeen(ctx context.Context, tx *sql.Tx, in store.Intent, now time.Time) (has gate.Facts, err error) {
	if has.Past, err = sqlitePast(ctx, tx, in, now); err != nil {
		return has, err
	}
	if has.Rejections, err = sqliteRejected(ctx, tx, in.Send, now, in.Rejections.Window); err != nil {
		return has, err
	}
	if has.Candidates, err = sqliteCandidates(ctx, tx, in, now); err != nil {
		return has, err
	}
	if has.Tried, err = sqliteTx(ctx, tx, now).AllTried(in.Verification, now); err != nil {
		return has, err
	}
	has.Suppression, err = sqliteSuppressing(ctx, tx, in, now)
	return has, err
}

// sqliteWrite writes what was admitted.
func sqliteWrite(ctx context.Context, tx *sql.Tx, r gate.Decision) (err error) {
	if r.Joined {
		_, err = tx.ExecContext(ctx, `UPDATE verifications SET sends = $1 WHERE id = $2`, r.Verification.Sends, r.Verification.ID)
	} else {
		_, err = tx.ExecContext(ctx, insertVerification, sqldb.VerificationTable.Values(sqldb.AsSend, &r.Verification)...)
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertSend, sqldb.SendTable.Values(sqldb.AsSend, &r.Send)...); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO flights (id, due_at, attempt, queued, channel, expires_at)
  VALUES ($1, $2, 1, 0, $3, $4)`, r.Send.ID, sqldb.Micros(r.Send.DueAt), r.Send.Channel, sqldb.Micros(r.Verification.ExpiresAt))
	return err
}

var (
	insertVerification = sqldb.VerificationTable.InsertOne(sqldb.AsSend)
	insertSend         = sqldb.SendTable.InsertOne(sqldb.AsSend)
)

// sqlitePast reads the sends of the intent's bucket that may count, the newest first.
func sqlitePast(ctx context.Context, tx *sql.Tx, in store.Intent, now time.Time) ([]gate.CountedSend, error) {
	if len(in.Rules) == 0 {
		return nil, nil
	}
	s := in.Send
	args := []any{s.Recipient[:], sqldb.Micros(now.Add(-gate.ReachOf(in))), s.App, s.Channel}
	for _, p := range in.Purposes {
		args = append(args, p)
	}
	rows, err := tx.QueryContext(ctx, sqlitePastSQL+`(?`+strings.Repeat(", ?", len(in.Purposes)-1)+`) ORDER BY s.logged_at DESC`, args...)
	if err != nil {
		return nil, err
	}
	return sqldb.Collect(rows, func(p *gate.CountedSend) []any {
		return []any{&p.ID, &p.Clock, sqldb.TimeField{To: &p.TakenAt}, sqldb.TimeField{To: &p.LoggedAt}}
	})
}

const sqlitePastSQL = `SELECT s.id, s.clock, s.taken_at, s.logged_at FROM sends s
WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.counts = 1 AND s.app = ? AND s.channel = ? AND s.purpose IN `

// sqliteCandidates are the verifications that the intent may join; joinable decides.
func sqliteCandidates(ctx context.Context, tx *sql.Tx, in store.Intent, now time.Time) ([]store.Verification, error) {
	s, query := in.Send, `SELECT `+sqldb.VerificationColumns+` FROM verifications v WHERE v.id = ?`
	args := []any{in.Join}
	switch {
	case in.Join != "":
	case in.Verification.Holder != "":
		query, args = sqliteHeldSQL, []any{s.Recipient[:], sqldb.Micros(now.Add(-gate.MaxStale)), s.App, s.Channel, s.Purpose}
	default:
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return sqldb.Collect(rows, sqldb.VerificationFields)
}

// sqliteHeldSQL finds the verifications of a recipient by its sends of the time that one may live.
var sqliteHeldSQL = `SELECT ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id IN (
    SELECT s.verification_id FROM sends s WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.app = ? AND s.channel = ?
      AND s.purpose = ?)`

// queryer is what both a transaction and the readers do.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func sqliteSend(ctx context.Context, q queryer, id uuid.UUID) (store.Send, error) {
	return first(ctx, q, sqldb.SendFields, `SELECT `+sqldb.SendColumns+` FROM sends s WHERE s.id = $1`, id)
}

func sqliteVerification(ctx context.Context, q queryer, id string) (store.Verification, error) {
	return first(ctx, q, sqldb.VerificationFields, `SELECT `+sqldb.VerificationColumns+` FROM verifications v WHERE v.id = $1`, id)
}

// first reads one row, or ErrNotFound.
func first[T any](ctx context.Context, q queryer, fields func(*T) []any, query string, args ...any) (T, error) {
	var none T
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return none, err
	}
	list, err := sqldb.Collect(rows, fields)
	if err != nil {
		return none, err
	}
	if len(list) == 0 {
		return none, store.ErrNotFound
	}
	return list[0], nil
}
