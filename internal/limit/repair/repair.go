// Package repair makes the limiter agree with the database. It makes the refunds that the limiter
// has not made yet, and looks up sends that may count only in one of the two.
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

// Store is implemented by sqldb.DB.
type Store interface {
	LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error)
	ConfirmRefund(ctx context.Context, held store.AttemptID) error
	SendsByID(ctx context.Context, ids []uuid.UUID) (list []store.SendOrRefusal, now time.Time, err error)
	Ping(ctx context.Context) error
}

// limiter is implemented by *gates.Gates.
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
	Lease   time.Duration // the lease of a row whose refund is under way
	Tick    time.Duration
	Now     func() time.Time // estimates the database's clock
	Logger  *slog.Logger

	mu        sync.Mutex
	unsettled []unsettled // to look up in the database
	away      bool        // the limiter was away at the last refund of a row
}

// unsettled is a send that may count only in the limiter, or only in the database.
type unsettled struct {
	send         uuid.UUID
	scope        quota.Scope            // quota.Recipient, or policy.FailuresScope for a rejection
	buckets      map[quota.Scope]string // in which the limiter may count it
	missingSince time.Time              // when a lookup first found no row
	due          time.Time              // when it is recorded a second time; zero before the first record
}

const (
	// maxUnsettled bounds the unsettled sends. For a dropped one, limiter and database may continue
	// to differ.
	maxUnsettled = 10_000
	// repeatRecordAfter is the time between the first and the second record of an event. The first
	// record has no effect if the bucket has a tombstone of the ID. If the limiter stalled, a late
	// refund may have left one, of an earlier request with the same Idempotency-Key, and so the
	// same ID. A tombstone lasts 60 s.
	repeatRecordAfter = 65 * time.Second
	// NeverWrittenAfter is how long a row must be missing until its send counts as never written. A
	// database server may still run a transaction after its client has left, as long as the
	// server's limits for statements and locks allow.
	NeverWrittenAfter = 10 * time.Second
	// maxRowsPerLookup bounds one statement.
	maxRowsPerLookup = 1000

	refundBatch = 64 // the most refunds that one tick takes from the database
)

// Run makes the limiter's new pending refunds at once and, at each tick, all pending refunds and
// those due in the database, and settles sends (see SettleLater). When ctx ends, it settles once
// more, and makes the pending refunds.
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

// refundDueRows makes the refunds that are in the database but not yet in the limiter. It stops if
// the limiter is away, and the next call tries only one refund.
func (r *Repair) refundDueRows(ctx context.Context) {
	defer panics.Recover(panics.Other)
	r.mu.Lock()
	limit := refundBatch
	if r.away {
		limit = 1
	}
	r.mu.Unlock()
	due, err := r.Store.LeaseDueRefunds(ctx, r.Lease, limit)
	if err != nil {
		return // the outbox reports failures of the database
	}
	for _, row := range due {
		if r.Limiter.Away(r.refundRow(ctx, row)) {
			return
		}
	}
}

// Refund refunds a failed send in the limiter or, if that fails, leaves it to the limiter's pending
// refunds.
func (r *Repair) Refund(ctx context.Context, row store.Refund) {
	if r.refundRow(ctx, row) != nil { // refundDueRows repeats it after the row's lease
		r.Limiter.KeepRefund(string(row.ID[:]), r.bucketsOf(row.Verification)...)
	}
}

// refundRow refunds a send and confirms that to the database. Policies may have changed since the
// send was counted, so it uses the recipient's buckets under each policy that the purpose has had.
// While the limiter is away, only the first failure is logged.
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

// bucketsOf returns where the limiter may count a send of the verification.
func (r *Repair) bucketsOf(v store.Verification) []string {
	return r.recipientBuckets(v.App, v.Channel, v.Purpose, v.Recipient)
}

// recipientBuckets returns the buckets under each policy.Purpose.SharedBucketName that the purpose
// has had.
func (r *Repair) recipientBuckets(app string, ch recipient.Channel, purpose string, h recipient.Hash) (all []string) {
	for _, name := range r.Policy.Get().CurrentAndFormerBucketNames(purpose) {
		all = append(all, buckets.Recipient(app, ch, name, h))
	}
	return all
}

// SettleLater queues a send about which limiter and database may differ: it may have no row, and
// may count in the given buckets. When both answer, the database decides. If the row counts, the
// send is recorded in the recipient's bucket; if the row doesn't count, the send is refunded there.
// If there has been no row for NeverWrittenAfter, the send is refunded in all buckets. If
// maxUnsettled sends are queued, this one is dropped.
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

// settle settles the queued sends. After a failure, the rest waits for the next tick. The first
// send is tried alone, so that an unavailable limiter costs one query. If a lookup panics, its
// sends are dropped.
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

// settleSome returns what is still unsettled. It first writes to the database, by Ping: after that,
// no earlier transaction of SQLite whose commit failed can take effect, so a missing row stays
// missing.
//
// A reset changes the database first, then the limiter, so settleSome may read a row before the
// reset and record it after the reset. So it reads the rows again after the records, and refunds
// sends that no longer count.
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

// countedBy returns since when and for how long at most a row counts, and whether it counts in x's
// bucket. It counts in another bucket if a repeated request wrote it on a replica that folds
// spellings of an address differently.
func (r *Repair) countedBy(row store.Send, x unsettled) (at time.Time, keep time.Duration, counts bool) {
	set := r.Policy.Get()
	if x.scope == policy.FailuresScope {
		return row.FinishedAt, set.LongestFailureWindow(), row.Status == store.Failed && !row.WasReset
	}
	own := r.recipientBuckets(row.App, row.Channel, row.Purpose, row.Recipient)
	return row.LoggedAt, set.Purposes[row.Purpose].LongestRecipientWindow(),
		row.Counts && slices.Contains(own, x.buckets[quota.Recipient])
}

// rowsOf leaves out sends without a row. now is on the database's clock, and zero if list is empty.
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

// CountBadAddress counts a send for the rules on failures, because its address accepts no messages.
// If the limiter is away, the send is counted later.
func (r *Repair) CountBadAddress(ctx context.Context, s store.Send) {
	bucket, keep := buckets.Failures(s.App, s.Channel, s.Recipient), r.Policy.Get().LongestFailureWindow()
	if keep == 0 { // no rule counts it
		return
	}
	if r.Limiter.Record(ctx, policy.FailuresScope, bucket, keep, r.Now(), quota.AgedEvent{ID: string(s.ID[:])}) != nil {
		r.enqueueUnsettled(unsettled{
			send: s.ID, scope: policy.FailuresScope,
			buckets: map[quota.Scope]string{policy.FailuresScope: bucket},
		})
	}
}
