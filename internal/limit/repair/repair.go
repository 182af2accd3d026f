// Package repair makes the limiter agree with the database. It makes the refunds that the limiter
// has not made yet. It also looks up sends that may count only in the limiter or only in the
// database.
package repair

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Store is the database as Repair needs it. Implementation: sqldb.DB.
type Store interface {
	LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error)
	ConfirmRefund(ctx context.Context, held store.AttemptID) error
	SendsByID(ctx context.Context, ids []uuid.UUID) (list []store.SendOrRefusal, now time.Time, err error)
	Ping(ctx context.Context) error
}

// limiter has the changes that Repair makes. Implementation: *gates.Gates.
type limiter interface {
	Refund(ctx context.Context, id string, buckets ...string) error
	Record(ctx context.Context, scope quota.Scope, bucket string, keep time.Duration, read time.Time,
		events ...quota.AgedEvent) error
	RefundLater(id string, buckets ...string)
	KeepRefund(id string, buckets ...string)
	RefundsAdded() <-chan struct{}
	Away(err error) bool
	MakePendingRefunds(ctx context.Context)
}

// Repair corrects the limiter by the database. Safe for concurrent use.
type Repair struct {
	Store   Store
	Limiter limiter
	Policy  *policy.CurrentSet
	Vault   keys.Vault
	Lease   time.Duration // lease of a row whose refund is under way
	Tick    time.Duration
	Now     func() time.Time // an estimate of the database's clock
	Logger  *slog.Logger

	mu        sync.Mutex
	unsettled []unsettled // sends to look up in the database
	away      bool        // the limiter was away at the last refund of a row
}

// unsettled is a send that may count only in the limiter, or only in the database.
type unsettled struct {
	send         uuid.UUID
	scope        quota.Scope            // quota.Recipient; for a rejection quota.Failures
	buckets      map[quota.Scope]string // in which the limiter may count the send
	missingSince time.Time              // when the database first had no row
	due          time.Time              // when the send is recorded a second time; zero before its first record
}

const (
	// maxUnsettled bounds the unsettled sends. A further send is dropped. Then the limiter and the
	// database may continue to differ about this send.
	maxUnsettled = 10_000
	// repeatRecordAfter is the time between the first and the second record of an event. The first
	// record has no effect if the bucket has a tombstone of the send's ID. Such a tombstone can
	// come from an earlier request with the same Idempotency-Key, which has the same send ID: if
	// the limiter stalled, the refund of that request may have run late. A tombstone lasts 60 s, so
	// the second record comes after its end.
	repeatRecordAfter = 65 * time.Second
	// NeverWrittenAfter is how long a row must be missing from the database until the send is
	// treated as never written. The database server may still run a transaction after its client
	// has left. The server's own time limits for statements and locks bound how long such a
	// transaction runs.
	NeverWrittenAfter = 10 * time.Second
	// maxRowsPerLookup bounds the rows that one statement looks up.
	maxRowsPerLookup = 1000

	refundBatch = 64 // refunds that one tick reads from the database
)

// Run makes refunds and settles sends (see SettleLater) until ctx ends. Then it makes the limiter's
// pending refunds and settles sends once more. When the limiter has new pending refunds, Run makes
// them at once. At each tick, Run makes the pending refunds, and then the refunds that are due in
// the database.
func (r *Repair) Run(ctx context.Context) {
	for next := time.Now().Add(r.Tick); ; {
		select {
		case <-ctx.Done():
			r.settle(context.WithoutCancel(ctx))
			r.Limiter.MakePendingRefunds(context.WithoutCancel(ctx))
			return
		case <-r.Limiter.RefundsAdded():
		case <-time.After(time.Until(next)):
		}
		r.Limiter.MakePendingRefunds(ctx)
		if now := time.Now(); !now.Before(next) {
			next = now.Add(r.Tick)
			r.refundDueRows(ctx)
			r.settle(ctx)
		}
	}
}

// refundDueRows makes the refunds that are in the database but not yet in the limiter. If the
// limiter is unavailable, refundDueRows stops. The next call then tries only one refund.
func (r *Repair) refundDueRows(ctx context.Context) {
	defer panics.Recover(panics.Other)
	r.mu.Lock()
	most := refundBatch
	if r.away {
		most = 1
	}
	r.mu.Unlock()
	due, err := r.Store.LeaseDueRefunds(ctx, r.Lease, most)
	if err != nil {
		return // the outbox tells of the database
	}
	for _, row := range due {
		if r.Limiter.Away(r.refundRow(ctx, row)) {
			return
		}
	}
}

// Refund refunds a failed send in the limiter. If that fails, Refund gives the refund to the
// limiter's pending refunds, which Run makes later.
func (r *Repair) Refund(ctx context.Context, row store.Refund) {
	if r.refundRow(ctx, row) != nil { // refundDueRows repeats the refund after the row's lease
		r.Limiter.KeepRefund(string(row.ID[:]), r.bucketsOf(row.Verification)...)
	}
}

// refundRow refunds a send in the limiter and confirms the refund to the database. It refunds the
// send in the recipient's buckets under each policy that the purpose has had, since policies may
// have changed after the send was counted. If the limiter fails several times in a row, only the
// first failure is logged.
func (r *Repair) refundRow(ctx context.Context, row store.Refund) error {
	defer panics.Recover(panics.Other) // so that the next refunds are still made
	err := r.Limiter.Refund(ctx, string(row.ID[:]), r.bucketsOf(row.Verification)...)
	r.mu.Lock()
	known := r.away
	r.away = r.Limiter.Away(err)
	r.mu.Unlock()
	if err != nil {
		if !known {
			r.Logger.Warn("refund postponed: Redis away", "send", row.ID, "error", err, logs.SeeRedis)
		}
		return err
	}
	return r.Store.ConfirmRefund(ctx, row.AttemptID)
}

// bucketsOf returns the buckets in which the limiter may count a send of the verification.
func (r *Repair) bucketsOf(v store.Verification) []string {
	return r.recipientBuckets(v.App, v.Channel, v.Purpose, v.Recipient)
}

// recipientBuckets returns a recipient's buckets under each policy.Purpose.SharedBucketName that
// the purpose has had.
func (r *Repair) recipientBuckets(app string, ch recipient.Channel, purpose string, h recipient.Hash) (all []string) {
	for _, name := range r.Policy.Get().CurrentAndFormerBucketNames(purpose) {
		all = append(all, buckets.Recipient(app, ch, name, h))
	}
	return all
}

// SettleLater queues a send about which the limiter and the database may differ. The database may
// have no row of the send, and the limiter may or may not count the send in the given buckets. When
// both answer, the database decides. If the row counts, the send is recorded in the recipient's
// bucket of the limiter. If the row does not count, the send is refunded in that bucket. If there
// is no row for NeverWrittenAfter, the send is refunded in all buckets. If maxUnsettled sends are
// queued, SettleLater drops the send.
func (r *Repair) SettleLater(send uuid.UUID, in map[quota.Scope]string) {
	r.enqueueUnsettled(unsettled{send: send, scope: quota.Recipient, buckets: in})
}

func (r *Repair) enqueueUnsettled(x unsettled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unsettled) < maxUnsettled {
		r.unsettled = append(r.unsettled, x)
	}
}

// settle settles the queued sends. After a failure of the database or the limiter, the remaining
// sends wait for the next tick. The first send is tried alone, so that an unavailable limiter costs
// only one query of the database. If a lookup panics, its sends are dropped.
func (r *Repair) settle(ctx context.Context) {
	defer panics.Recover(panics.Other)
	now := time.Now()
	r.mu.Lock()
	var list, wait []unsettled
	for _, x := range r.unsettled {
		if now.Before(x.due) {
			wait = append(wait, x)
		} else {
			list = append(list, x)
		}
	}
	r.unsettled = nil
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unsettled = append(append(r.unsettled, wait...), list...)
	}()
	for n := 1; len(list) > 0; n = maxRowsPerLookup {
		some := list[:min(n, len(list))]
		list = list[len(some):]
		left, err := r.settleSome(ctx, some)
		wait = append(wait, left...)
		if err != nil {
			return
		}
	}
}

// settleSome settles some sends and returns the sends that are still unsettled. It first calls
// Store.Ping, which writes to the database. After this write, an earlier transaction of SQLite
// whose commit failed can no longer take effect, so a missing row stays missing.
//
// A reset changes the database first and the limiter second. So settleSome may have read a row
// before the reset, and may record its send in the limiter after the reset. Therefore it reads the
// rows again after the records, and refunds each recorded send that no longer counts in the
// database.
func (r *Repair) settleSome(ctx context.Context, list []unsettled) (left []unsettled, err error) {
	read := r.Now()
	if err := r.Store.Ping(ctx); err != nil {
		return list, err
	}
	rows, now, err := r.rowsOf(ctx, list)
	if err != nil {
		return list, err
	}
	var recorded []unsettled
	for i, x := range list {
		row, written := rows[x.send]
		at, keep, counts := r.countedBy(row, x)
		bucket := x.buckets[x.scope]
		switch {
		case !written || row.Status == store.Refused:
			x.missingSince = cmp.Or(x.missingSince, time.Now())
			if time.Since(x.missingSince) < NeverWrittenAfter {
				left = append(left, x)
			} else {
				r.Limiter.RefundLater(string(x.send[:]), buckets.OfCountedScopes(x.buckets)...)
			}
			continue
		case bucket == "" || keep == 0 || now.Sub(at) > keep: // no rule counts the send, or it has left its window
			continue
		case !counts:
			r.Limiter.RefundLater(string(x.send[:]), bucket)
			continue
		}
		if err = r.Limiter.Record(ctx, x.scope, bucket, keep, read,
			quota.AgedEvent{ID: string(x.send[:]), Age: now.Sub(at)}); err != nil {
			left = append(left, list[i:]...)
			break
		}
		recorded = append(recorded, x)
	}
	rows, _, unread := r.rowsOf(ctx, recorded)
	for _, x := range recorded {
		_, _, counts := r.countedBy(rows[x.send], x)
		switch {
		case unread != nil:
			left = append(left, x)
		case !counts:
			r.Limiter.RefundLater(string(x.send[:]), x.buckets[x.scope])
		case x.due.IsZero():
			x.due = time.Now().Add(repeatRecordAfter)
			left = append(left, x)
		}
	}
	return left, cmp.Or(err, unread)
}

// countedBy returns the time since which a row counts and the longest time for which it counts. It
// also reports whether the row counts in the bucket of x. A repeated request may have written the
// row on a replica that folds spellings of an address differently. Then the row counts in another
// bucket.
func (r *Repair) countedBy(row store.Send, x unsettled) (at time.Time, keep time.Duration, counts bool) {
	set := r.Policy.Get()
	if x.scope == quota.Failures {
		return row.FinishedAt, set.LongestFailureWindow(), row.Status == store.Failed && !row.WasReset
	}
	own := r.recipientBuckets(row.App, row.Channel, row.Purpose, row.Recipient)
	return row.LoggedAt, set.Purposes[row.Purpose].LongestRecipientWindow(),
		row.Counts && slices.Contains(own, x.buckets[quota.Recipient])
}

// rowsOf reads the rows of sends by their IDs. If a send has no row, the send is not in the map.
// rowsOf also returns the time on the database's clock. If no row was found, this time is zero.
func (r *Repair) rowsOf(ctx context.Context, list []unsettled) (found map[uuid.UUID]store.Send, now time.Time, err error) {
	found = map[uuid.UUID]store.Send{}
	if len(list) == 0 {
		return found, now, nil
	}
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.send
	}
	rows, now, err := r.Store.SendsByID(ctx, ids)
	for _, row := range rows {
		found[row.ID] = row.Send
	}
	return found, now, err
}

// CountBadAddress counts a send to an address that accepts no messages. It counts the send in the
// limiter's bucket of failures. If the limiter is unavailable, the send is counted later.
func (r *Repair) CountBadAddress(ctx context.Context, s store.Send) {
	bucket, keep := buckets.Failures(s.App, s.Channel, s.Recipient), r.Policy.Get().LongestFailureWindow()
	if keep == 0 { // no rule counts it
		return
	}
	if r.Limiter.Record(ctx, quota.Failures, bucket, keep, r.Now(), quota.AgedEvent{ID: string(s.ID[:])}) != nil {
		r.enqueueUnsettled(unsettled{
			send: s.ID, scope: quota.Failures,
			buckets: map[quota.Scope]string{quota.Failures: bucket},
		})
	}
}
