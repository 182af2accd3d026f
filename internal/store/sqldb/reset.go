package sqldb

import (
	"cmp"
	"context"
	"slices"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

func (d dialect) resetCountersSQL() []string {
	return []string{
		`UPDATE sends SET counts = false, was_reset = true
WHERE recipient = @recipient AND counts = true AND app = @app AND channel = @channel AND purpose ` + d.inList("purposes"),
		`UPDATE sends SET was_reset = true
WHERE recipient = @recipient AND status = 'failed' AND reason NOT IN ('` + store.ReasonEnded + `', '` + store.ReasonErased + `')
  AND was_reset = false AND app = @app AND channel = @channel`,
		`UPDATE failures SET counts = false WHERE recipient = @recipient AND app = @app AND channel = @channel AND counts = true`,
		`UPDATE verifications SET attempts_reset = attempts
WHERE attempts > 0 AND attempts > attempts_reset AND recipient = @recipient AND app = @app AND channel = @channel
  AND expires_at > (SELECT @now - CAST(@window AS interval))`,
	}
}

// ResetCounters makes the buckets' sends stop counting, as well as the failed sends and failed
// checks of their recipients. This includes sends in flight, whatever their outcome. The number of
// checks that a code still allows stays the same. The audit entry is written in the same
// transaction. The limiter isn't changed.
func (db *DB) ResetCounters(ctx context.Context, buckets []store.SendBucket, act store.AuditEntry) error {
	act, err := act.Validated()
	if err != nil {
		return err
	}
	// all callers take the locks in one order, to avoid deadlocks
	buckets = slices.SortedFunc(slices.Values(buckets), func(a, b store.SendBucket) int {
		return cmp.Compare(store.RecipientLockKey(a.AsSend()), store.RecipientLockKey(b.AsSend()))
	})
	return db.Write(ctx, "ResetCounters", func(q Tx) error {
		// take all locks before the first UPDATE
		locks := []string{q.Dialect.pick(advisoryLockSQL), q.Dialect.pick(checksLockSQL)}
		for _, statements := range [][]string{locks, q.Dialect.resetCountersSQL()} {
			for _, b := range buckets {
				args := Args{
					"recipient": b.Recipient, "app": b.App, "channel": b.Channel, "purposes": b.Purposes,
					"key": store.RecipientLockKey(b.AsSend()), "window": rowrules.ConsecutiveFailedCheckWindow,
				}
				if err := q.ExecAll(args, statements...); err != nil {
					return err
				}
			}
		}
		return q.addAuditEntry(act)
	})
}
