package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/quota"
)

// refundDueRows makes the refunds that are in the database and not yet in the limiter. It stops at
// the first failure. After a failure of the limiter, the next call tries only one refund. Error: of
// LeaseDueRefunds.
func (o *Outbox) refundDueRows(ctx context.Context) error {
	o.mu.Lock()
	most := refundBatch
	if o.refundsWait {
		most = 1
	}
	o.mu.Unlock()
	due, err := o.Store.LeaseDueRefunds(ctx, o.Lease, most)
	if err != nil {
		return err
	}
	for _, r := range due {
		if o.refundRow(ctx, r) != nil {
			return nil
		}
	}
	return nil
}

// refundRow refunds a send in the limiter and confirms that to the database. It refunds the
// recipient's buckets, under each name that the purpose has had, since policies may have changed
// after the send was counted. For a stranger's mail it also refunds the bucket of the rule on
// spellings, unless the address was erased. Of successive failures of the limiter it logs the first.
func (o *Outbox) refundRow(ctx context.Context, r store.Refund) error {
	defer panics.Recover(panics.Other) // so that the refunds after this one are made
	err := o.Limiter.Refund(ctx, string(r.ID[:]), o.refundBuckets(r.Verification)...)
	o.mu.Lock()
	known := o.refundsWait
	o.refundsWait = err != nil
	o.mu.Unlock()
	if err != nil {
		if !known {
			o.Logger.Warn("refund postponed: Redis away", "send", r.ID, "error", err, logs.SeeRedis)
		}
		return err
	}
	return o.Store.ConfirmRefund(ctx, r.AttemptID)
}

// refundBuckets returns the buckets in which the limiter may count a send of a verification that is refunded.
func (o *Outbox) refundBuckets(v store.Verification) []string {
	counted := o.recipientBuckets(v.App, v.Channel, v.Purpose, v.Recipient)
	if to, err := o.Vault.OpenRecipient(v); err == nil && v.Class.IsStranger() && v.Channel == recipient.Email {
		counted = append(counted, bucketnames.Spellings(v.App, o.Vault.Hashes(to).Mailbox))
	}
	return counted
}

// recipientBuckets returns a recipient's buckets under each policy.Purpose.CountedAs that the purpose
// has had.
func (o *Outbox) recipientBuckets(app string, ch recipient.Channel, purpose string, h recipient.Hash) (all []string) {
	for _, name := range o.Policy.Get().CurrentAndFormerCountedAs(purpose) {
		all = append(all, bucketnames.Recipient(app, ch, name, h))
	}
	return all
}

// RefundLater and SettleLater correct the limiter if an event that it counted has no row, or may have none.

// pendingRefund is an event that the limiter must still refund.
type pendingRefund struct {
	id      string
	buckets []string
	since   time.Time // when it was queued
}

// unsettled is a send that may count in only one of limiter and database.
type unsettled struct {
	send         uuid.UUID
	scope        quota.Scope            // quota.Recipient; for a rejection quota.Failures
	buckets      map[quota.Scope]string // in which the limiter may count the send
	missingSince time.Time              // when the database first had no row
	due          time.Time              // when the send is recorded once more; zero before its first record
}

const (
	// maxPending bounds each of two lists: the pending refunds and the unsettled sends. The event of a
	// dropped refund counts until its window ends; for a dropped send the limiter may go on differing
	// from the database.
	maxPending = 10_000
	// retryRefundFor is how long a pending refund is repeated: the longest usual window.
	retryRefundFor = 24 * time.Hour
	// repeatRecordAfter is the time after which an event is recorded once more. An earlier request
	// with the same Idempotency-Key has the same ID. Its refund may have run late, in a stalled
	// limiter, and its tombstone, which lasts 60 s, kept the first record out.
	repeatRecordAfter = 65 * time.Second
	// NeverWrittenAfter is how long a row must be missing from the database before it counts as never
	// written: the server may still run a transaction whose client is gone, within its own time
	// limits for statements and locks.
	NeverWrittenAfter = 10 * time.Second
	// maxRowsPerLookup bounds the rows that one statement looks up.
	maxRowsPerLookup = 1000
)

// RefundLater refunds an event that certainly has no row, such as a send that was not written or a
// right check: in this process at once, in the limiter in the background. It retries for
// retryRefundFor. If maxPending refunds wait already, the refund is dropped.
func (o *Outbox) RefundLater(id string, in map[quota.Scope]string) {
	o.enqueueRefund(id, bucketnames.OfCountedScopes(in)...)
}

func (o *Outbox) enqueueRefund(id string, counted ...string) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	// only in this process: ctx has ended, so the limiter is not called. Without Redis that was all
	if o.Limiter.Refund(ended, id, counted...) == nil {
		return
	}
	o.keepRefund(id, counted)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// keepRefund queues a refund for MakePendingRefunds. If maxPending refunds wait already, it is dropped.
func (o *Outbox) keepRefund(id string, counted []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.refunds) < maxPending {
		o.refunds = append(o.refunds, pendingRefund{id, counted, time.Now()})
	}
}

// MakePendingRefunds makes the pending refunds. It may be called at any time. After a failure the rest
// waits for the next tick. A refund that panics is dropped.
func (o *Outbox) MakePendingRefunds(ctx context.Context) {
	defer panics.Recover(panics.Other)
	o.mu.Lock()
	list := o.refunds
	o.refunds = nil
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.refunds = append(list, o.refunds...)
	}()
	for len(list) > 0 {
		r, all := list[0], list
		list = list[1:]
		if time.Since(r.since) <= retryRefundFor && o.Limiter.Refund(ctx, r.id, r.buckets...) != nil {
			list = all
			return
		}
	}
}

// SettleLater queues a send that the database may have written, and that the limiter may or may not
// count in these buckets. Once both answer, the row decides. If it counts, it is recorded in the
// recipient's bucket; if it does not, it is refunded there; if there is none for NeverWrittenAfter,
// the send is refunded in all buckets. If maxPending sends wait already, it is dropped.
func (o *Outbox) SettleLater(send uuid.UUID, in map[quota.Scope]string) {
	o.enqueueUnsettled(unsettled{send: send, scope: quota.Recipient, buckets: in})
}

func (o *Outbox) enqueueUnsettled(x unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.unsettled) < maxPending {
		o.unsettled = append(o.unsettled, x)
	}
}

// settle settles the queued sends. After a failure of the database or the limiter the rest waits for
// the next tick. The first send is tried alone, so that an unavailable limiter costs only one query
// of the database. Sends whose lookup panics are dropped.
func (o *Outbox) settle(ctx context.Context) {
	defer panics.Recover(panics.Other)
	now := time.Now()
	o.mu.Lock()
	var list, wait []unsettled
	for _, x := range o.unsettled {
		if now.Before(x.due) {
			wait = append(wait, x)
		} else {
			list = append(list, x)
		}
	}
	o.unsettled = nil
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.unsettled = append(append(o.unsettled, wait...), list...)
	}()
	for n := 1; len(list) > 0; n = maxRowsPerLookup {
		some := list[:min(n, len(list))]
		list = list[len(some):]
		left, err := o.settleSome(ctx, some)
		wait = append(wait, left...)
		if err != nil {
			return
		}
	}
}

// settleSome settles some sends and returns those that are left. It first calls Store.Ping, which
// writes: after that write, a transaction that SQLite did not commit cannot appear any more. A reset
// changes the database before the limiter. So a send that no longer counts in the database after it
// was recorded may have been recorded after the reset, and is refunded.
func (o *Outbox) settleSome(ctx context.Context, list []unsettled) (left []unsettled, err error) {
	read := o.Now()
	if err := o.Store.Ping(ctx); err != nil {
		return list, err
	}
	rows, now, err := o.rowsOf(ctx, list)
	if err != nil {
		return list, err
	}
	var recorded []unsettled
	for i, x := range list {
		row, written := rows[x.send]
		at, keep, counts := o.countedBy(row, x)
		bucket := x.buckets[x.scope]
		switch {
		case !written || row.Status == store.Refused:
			x.missingSince = cmp.Or(x.missingSince, time.Now())
			if time.Since(x.missingSince) < NeverWrittenAfter {
				left = append(left, x)
			} else {
				o.RefundLater(string(x.send[:]), x.buckets)
			}
			continue
		case bucket == "" || keep == 0 || now.Sub(at) > keep: // no rule counts it, or it has left its window
			continue
		case !counts:
			o.enqueueRefund(string(x.send[:]), bucket)
			continue
		}
		if err = o.Limiter.Record(ctx, x.scope, bucket, keep, read,
			quota.AgedEvent{ID: string(x.send[:]), Age: now.Sub(at)}); err != nil {
			left = append(left, list[i:]...)
			break
		}
		recorded = append(recorded, x)
	}
	rows, _, unread := o.rowsOf(ctx, recorded)
	for _, x := range recorded {
		_, _, counts := o.countedBy(rows[x.send], x)
		switch {
		case unread != nil:
			left = append(left, x)
		case !counts:
			o.enqueueRefund(string(x.send[:]), x.buckets[x.scope])
		case x.due.IsZero():
			x.due = time.Now().Add(repeatRecordAfter)
			left = append(left, x)
		}
	}
	return left, cmp.Or(err, unread)
}

// countedBy returns since when a row counts, for how long at most, and whether it counts in the bucket
// of x. A repetition of the request may have written the row on a replica that folds spellings of an
// address differently. Then the row counts in another bucket.
func (o *Outbox) countedBy(row store.Send, x unsettled) (at time.Time, keep time.Duration, counts bool) {
	set := o.Policy.Get()
	if x.scope == quota.Failures {
		return row.FinishedAt, set.LongestFailureWindow(), row.Status == store.Failed && !row.WasReset
	}
	own := o.recipientBuckets(row.App, row.Channel, row.Purpose, row.Recipient)
	return row.LoggedAt, set.Purposes[row.Purpose].LongestRecipientWindow(),
		row.Counts && slices.Contains(own, x.buckets[quota.Recipient])
}

// rowsOf reads the rows of sends, by their IDs. Sends without a row are not in the map. The time is on
// the database's clock; zero if no row was found.
func (o *Outbox) rowsOf(ctx context.Context, list []unsettled) (found map[uuid.UUID]store.Send, now time.Time, err error) {
	found = map[uuid.UUID]store.Send{}
	if len(list) == 0 {
		return found, now, nil
	}
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.send
	}
	rows, now, err := o.Store.SendsByID(ctx, ids)
	for _, row := range rows {
		found[row.ID] = row.Send
	}
	return found, now, err
}
