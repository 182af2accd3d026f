package sqldb

import (
	"cmp"
	"context"
	"slices"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

var forgiveSQL = []string{
	`UPDATE sends SET counts = {{false}}, forgiven = {{true}}
WHERE recipient = @recipient AND number > 0 AND counts = {{true}} AND app = @app AND channel = @channel AND purpose IN (@purposes)`,
	`UPDATE sends SET forgiven = {{true}}
WHERE recipient = @recipient AND number > 0 AND status = 'failed'
  AND reason IN (` + FailureReasons + `) AND NOT forgiven AND app = @app AND channel = @channel`,
	`UPDATE failures SET counts = {{false}} WHERE recipient = @recipient AND app = @app AND channel = @channel AND counts = {{true}}`,
	`UPDATE verifications SET forgiven = attempts
WHERE attempts > 0 AND attempts > forgiven AND recipient = @recipient AND app = @app AND channel = @channel
  AND expires_at > (SELECT @now - @window)`,
}

// ResetCounters implements CounterReset. It waits for the sends and the tries under way, which hold the same locks.
func (db *DB) ResetCounters(ctx context.Context, buckets []store.Bucket, act store.AuditEntry) error {
	act, err := act.Checked()
	if err != nil {
		return err
	}
	buckets = slices.SortedFunc(slices.Values(buckets), func(a, b store.Bucket) int { // all lock in one order
		return cmp.Compare(store.LockKey(a.Row()), store.LockKey(b.Row()))
	})
	return db.Write(ctx, func(q Tx) error {
		for _, b := range buckets {
			if err := q.lock(store.LockKey(b.Row())); err != nil {
				return err
			}
			if err := q.lockTries(b); err != nil {
				return err
			}
		}
		for _, b := range buckets {
			for _, statement := range forgiveSQL {
				if err := q.exec(statement, Args{
					"recipient": b.Recipient, "app": b.App, "channel": b.Channel, "purposes": b.Purposes, "window": gate.RowWindow,
				}); err != nil {
					return err
				}
			}
		}
		return q.addAct(act)
	})
}

// lockTries waits until no check of the recipient is being counted, and blocks new ones until the transaction ends.
func (q Tx) lockTries(b store.Bucket) error {
	if q.Dialect.LockTries == "" {
		return nil
	}
	return q.exec(q.Dialect.LockTries, Args{"app": b.App, "channel": b.Channel, "recipient": b.Recipient})
}
