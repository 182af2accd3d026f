package audit

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// An administrator may forgive a recipient what was counted: sends, rejections and failed checks count no more, from now
// on and for both gates. What happened stays to be read.

// Forgiver is the part of the log that forgets what counts.
type Forgiver interface {
	// Forgive has everything that counts in the buckets count no more: their sends, and of their recipients, apps and channels
	// the rejected sends and the failed checks. A send that is under way is forgiven with all that becomes of it. The act is written with it, or neither. Codes keep the tries that they
	// had: nobody can guess more often at one code.
	Forgive(ctx context.Context, buckets []Bucket, act Act) error
	// CancelBy is Cancel with the act that it is. Where the verification had ended before, the act is recorded as failed.
	CancelBy(ctx context.Context, id string, act Act) (bool, error)
}

func checkForgiven(buckets []Bucket, act Act) ([]Bucket, Act, error) {
	if len(buckets) == 0 {
		return nil, act, bad("nothing to forgive")
	}
	for _, b := range buckets {
		if err := b.check(); err != nil {
			return nil, act, err
		}
	}
	buckets = slices.Clone(buckets)
	slices.SortFunc(buckets, func(a, b Bucket) int { return cmp.Compare(lockKey(a.row()), lockKey(b.row())) })
	act, err := act.checked()
	return buckets, act, err
}

// row is what a bucket's lock is named after.
func (b Bucket) row() Send { return Send{App: b.App, Channel: b.Channel, Recipient: b.Recipient} }

// Forgive implements Log.
func (m *Memory) Forgive(ctx context.Context, buckets []Bucket, act Act) (err error) {
	buckets, act, err = checkForgiven(buckets, act)
	if err != nil {
		return err
	}
	now, lost, err := m.enter(ctx, "Forgive")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	for _, b := range buckets {
		for _, r := range m.buckets[memoryBucket{b.App, b.Channel, b.Recipient}] {
			if r.Counts && slices.Contains(b.Purposes, r.Purpose) {
				r.Counts, r.Forgiven = false, true
			}
			r.Forgiven = r.Forgiven || r.Status == Failed && Failure(r.Reason)
		}
		for _, v := range m.verifications {
			if v.App == b.App && v.Channel == b.Channel && v.Recipient == b.Recipient && now.Sub(v.ExpiresAt) < RowWindow {
				v.Forgiven = v.Attempts
			}
		}
	}
	m.addAct(act, now)
	return nil
}

// Both databases understand these; the purposes are the last of the parameters. The conditions are those of the indexes.
const (
	forgiveSendsSQL    = `UPDATE sends SET counts = {{false}}, forgiven = {{true}} WHERE recipient = $1 AND number > 0 AND counts{{= 1}} AND app = $2 AND channel = $3 AND purpose `
	forgiveRejectedSQL = `UPDATE sends SET forgiven = {{true}} WHERE recipient = $1 AND number > 0 AND status = 'failed' AND reason IN (` + failureReasons + `) AND NOT forgiven AND app = $2 AND channel = $3`
	forgiveFailuresSQL = `UPDATE failures SET counts = {{false}} WHERE recipient = $1 AND app = $2 AND channel = $3 AND counts{{= 1}}`
	forgiveTriesSQL    = `UPDATE verifications SET forgiven = attempts WHERE attempts > 0 AND attempts > forgiven AND recipient = $1 AND app = $2 AND channel = $3 AND expires_at > $4`
)

var (
	postgresFlags = strings.NewReplacer("{{true}}", "true", "{{false}}", "false", "{{= 1}}", "")
	sqliteFlags   = strings.NewReplacer("{{true}}", "1", "{{false}}", "0", "{{= 1}}", " = 1")
)

// Forgive implements Log.
func (s *SQLite) Forgive(ctx context.Context, buckets []Bucket, act Act) error {
	buckets, act, err := checkForgiven(buckets, act)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		for _, b := range buckets {
			args := []any{b.Recipient[:], b.App, b.Channel}
			list := args
			for _, p := range b.Purposes {
				list = append(list, p)
			}
			for _, x := range []struct {
				statement string
				args      []any
			}{
				{forgiveSendsSQL + "IN (?" + strings.Repeat(", ?", len(b.Purposes)-1) + ")", list},
				{forgiveRejectedSQL, args},
				{forgiveFailuresSQL, args},
				{forgiveTriesSQL, append(args[:3:3], µs(now.Add(-RowWindow)))},
			} {
				if _, err := tx.ExecContext(ctx, sqliteFlags.Replace(x.statement), x.args...); err != nil {
					return err
				}
			}
		}
		return sqliteAct(ctx, tx, act, now)
	})
}

// Forgive implements Log. It waits for the sends and the tries under way, which hold the same locks.
func (p *Postgres) Forgive(ctx context.Context, buckets []Bucket, act Act) error {
	buckets, act, err := checkForgiven(buckets, act)
	if err != nil {
		return err
	}
	return p.inTransaction(ctx, func(tx pgx.Tx) error {
		for _, b := range buckets {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey(b.row())); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, lockRecipientSQL, b.App, string(b.Channel), b.Recipient[:]); err != nil {
				return err
			}
		}
		for _, b := range buckets {
			args := []any{b.Recipient[:], b.App, string(b.Channel)}
			for _, x := range []struct {
				statement string
				args      []any
			}{
				{forgiveSendsSQL + "= ANY ($4)", append(args[:3:3], b.Purposes)},
				{forgiveRejectedSQL, args},
				{forgiveFailuresSQL, args},
				{strings.Replace(forgiveTriesSQL, "$4", p.now+" - $4 * interval '1 microsecond'", 1), append(args[:3:3], RowWindow.Microseconds())},
			} {
				if _, err := tx.Exec(ctx, postgresFlags.Replace(x.statement), x.args...); err != nil {
					return err
				}
			}
		}
		return p.addAct(ctx, tx, act)
	})
}
