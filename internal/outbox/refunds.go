package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/buckets"
	"sendcode/internal/recipient"
	"sendcode/internal/runbook"
	"sendcode/internal/store"
	"sendcode/quota"
)

// recordFailure counts a send whose address takes no messages in the limiter's bucket of failures:
// now, or after the limiter is back.
func (o *Outbox) recordFailure(s store.Send) {
	p := limiterSync{
		id: string(s.ID[:]), buckets: []string{buckets.Failures(s.App, s.Channel, s.Recipient)},
		scope: quota.Failures, keep: o.Policy.Get().FailureWindow(),
	}
	if p.keep == 0 { // no rule counts it
		return
	}
	if err := o.applySync(context.Background(), p, o.Now()); err != nil {
		o.Logger.Warn("rejected send not counted yet: Redis away", "send", s.ID, "error", err,
			runbook.Redis.See())
		o.enqueueSync(p)
	}
}

// repeatRefunds makes the refunds that are in the database and not yet in the limiter. It stops at
// the first failure of the limiter, and tries one alone after that. Error: of the database.
func (o *Outbox) repeatRefunds(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	o.mu.Lock()
	most := refundBatch
	if o.refundsWait {
		most = 1
	}
	o.mu.Unlock()
	due, err := o.Store.RefundsDue(bounded, o.Lease, most)
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
// after the send was counted, and the bucket of the rule on spellings, unless the address was erased.
// It logs the first failure of the limiter until a refund succeeds.
func (o *Outbox) refundRow(ctx context.Context, r store.Refund) error {
	v := r.Verification
	counted := o.recipientBuckets(v.App, v.Channel, v.Purpose, v.Recipient)
	if to, err := o.Vault.OpenRecipient(v); err == nil && v.Class.IsStranger() && v.Channel == recipient.Email {
		counted = append(counted, buckets.Spellings(v.App, o.Vault.Hashes(to).Mailbox))
	}
	err := o.Limiter.Refund(ctx, string(r.ID[:]), counted...)
	o.mu.Lock()
	known := o.refundsWait
	o.refundsWait = err != nil
	o.mu.Unlock()
	if err != nil {
		if !known {
			o.Logger.Warn("refund postponed: Redis away", "send", r.ID, "error", err, runbook.Redis.See())
		}
		return err
	}
	return o.Store.ConfirmRefund(ctx, r.AttemptID)
}

// recipientBuckets returns a recipient's buckets under each policy.Purpose.CountedAs that the purpose
// has had.
func (o *Outbox) recipientBuckets(app string, ch recipient.Channel, purpose string, h recipient.Hash) (all []string) {
	for _, name := range o.Policy.Get().CurrentAndFormerNames(purpose) {
		all = append(all, buckets.Recipient(app, ch, name, h))
	}
	return all
}

// limiterSync is a change that the limiter must still get: a refund of a send without a row, a send
// that the database admitted alone, or a failure.
type limiterSync struct {
	id      string
	buckets []string
	scope   quota.Scope   // of the one bucket in which a send or failure is recorded; empty for a refund
	age     time.Duration // of a recorded event, when its row was read
	since   time.Time     // when it was queued
	keep    time.Duration // how long the change is retried; after that the event no longer counts
	due     time.Time     // when a recorded event is recorded once more; else zero
}

const (
	maxPendingSyncs = 10_000
	// retryRefundFor is how long a refund of a send without a row is repeated: the longest usual window.
	retryRefundFor = 24 * time.Hour
	// repeatRecordAfter is the time after which an event is recorded once more. An earlier request
	// with the same Idempotency-Key has the same ID. Its refund may have run late, in a stalled
	// limiter, and its tombstone, which lasts 60 s, kept the first record out.
	repeatRecordAfter = 65 * time.Second
)

// RefundLater refunds an event without a row, such as a send that was not written or a right check:
// in this process at once, in the limiter in the background. It retries for retryRefundFor. If
// maxPendingSyncs changes wait already, the refund is dropped.
func (o *Outbox) RefundLater(id string, in map[quota.Scope]string) {
	counted := buckets.OfCountedScopes(in)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.Limiter.Refund(ended, id, counted...) // in this process alone
	o.enqueueSync(limiterSync{id: id, buckets: counted, keep: retryRefundFor})
}

// RefundNow is RefundLater, but calls the limiter at once, and queues the refund only if that
// fails. The next request may depend on it.
func (o *Outbox) RefundNow(ctx context.Context, id string, in map[quota.Scope]string) {
	if err := o.Limiter.Refund(ctx, id, buckets.OfCountedScopes(in)...); err != nil {
		o.RefundLater(id, in)
	}
}

// RecordLater queues a send that the database admitted alone: it is recorded in the limiter when
// that is back.
func (o *Outbox) RecordLater(s buckets.Subject, send uuid.UUID) {
	if keep := s.Purpose.LongestRecipientWindow(); keep > 0 {
		bucket := buckets.Recipient(s.App, s.Channel, s.Purpose.CountedAs(), s.Recipient)
		o.enqueueSync(limiterSync{id: string(send[:]), scope: quota.Recipient, buckets: []string{bucket}, keep: keep})
	}
}

// recordTakenOver calls RecordLater for a send that this process took over: the process that had the
// send may have died before it recorded, in the limiter, a send that the database admitted alone. It
// does nothing if the purpose is no longer configured.
func (o *Outbox) recordTakenOver(s store.Send) {
	if p, ok := o.Policy.Get().Purposes[s.Purpose]; ok {
		o.RecordLater(buckets.Subject{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purpose: p}, s.ID)
	}
}

func (o *Outbox) enqueueSync(p limiterSync) {
	p.since = o.Now()
	o.mu.Lock()
	if len(o.syncs) < maxPendingSyncs {
		o.syncs = append(o.syncs, p)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// refundUncounted replaces, in list, each event that no longer counts in the database by a refund,
// and returns these refunds. An administrator may have reset or erased it through another process,
// after it was recorded in the limiter. The others get the age of their row. Error: of the database.
func (o *Outbox) refundUncounted(ctx context.Context, list []limiterSync) (places []limiterSync, err error) {
	var ids []uuid.UUID
	for _, p := range list {
		if p.scope != "" {
			ids = append(ids, uuid.UUID([]byte(p.id)))
		}
	}
	rows, now, err := o.sendsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		if p.scope == "" {
			continue
		}
		row, there := rows[uuid.UUID([]byte(p.id))]
		at, counts := row.LoggedAt, row.Counts
		if p.scope == quota.Failures {
			at, counts = row.FinishedAt, row.Status == store.Failed && !row.Forgiven
		}
		list[i].age = now.Sub(at)
		if !there || !counts {
			list[i] = limiterSync{id: p.id, buckets: p.buckets, since: o.Now(), keep: retryRefundFor}
			places = append(places, list[i])
		}
	}
	return places, nil
}

// syncLimiter makes the pending syncs; after a failure the rest waits for the next tick. The first
// sync is tried alone, so that an unavailable limiter costs only one query of the database.
func (o *Outbox) syncLimiter(ctx context.Context) {
	now := o.Now()
	o.mu.Lock()
	list := o.syncs
	o.syncs = nil
	for _, p := range list {
		if now.Before(p.due) {
			o.syncs = append(o.syncs, p)
		}
	}
	list = slices.DeleteFunc(list, func(p limiterSync) bool { return now.Before(p.due) })
	o.mu.Unlock()
	for n := 1; len(list) > 0; n = maxRowsPerLookup {
		some := list[:min(n, len(list))]
		left, err := o.syncBatch(ctx, some)
		list = slices.Concat(left, list[len(some):])
		if err != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.syncs = append(list, o.syncs...)
			return
		}
	}
}

// syncBatch makes some pending syncs and returns those that are left. A reset changes the database
// before the limiter. So if an event no longer counts in the database after it was recorded, it may
// have been recorded after the reset, and a refund is returned for it.
func (o *Outbox) syncBatch(ctx context.Context, list []limiterSync) (left []limiterSync, err error) {
	read := o.Now()
	if _, err := o.refundUncounted(ctx, list); err != nil {
		return list, err
	}
	var written []limiterSync
	for i, p := range list {
		if o.Now().Sub(p.since) > p.keep {
			continue // the event has left its window
		}
		if err = o.applySync(ctx, p, read); err != nil {
			left = list[i:]
			break
		}
		if p.scope == "" {
			continue
		}
		written = append(written, p)
		if p.due.IsZero() {
			p.due = o.Now().Add(repeatRecordAfter)
			o.mu.Lock()
			o.syncs = append(o.syncs, p)
			o.mu.Unlock()
		}
	}
	places, unread := o.refundUncounted(ctx, written)
	if unread != nil {
		return append(written, left...), unread
	}
	return append(places, left...), err
}

// applySync makes one pending change in the limiter: it refunds an event, or records a send or a
// failure whose age was read at read.
func (o *Outbox) applySync(ctx context.Context, p limiterSync, read time.Time) error {
	if p.scope == "" {
		return o.Limiter.Refund(ctx, p.id, p.buckets...)
	}
	return o.Limiter.Record(ctx, p.scope, p.buckets[0], p.keep, read, quota.AgedEvent{ID: p.id, Age: p.age})
}

// A request that ended in fault.Unavailable must not count. If the database certainly wrote
// nothing, its events in the limiter are refunded at once. If the connection broke at the commit,
// the send may be in the database: it is looked up when the database answers again, and refunded if
// it has no row.

// pendingReconciliation is a request whose row must be looked up when the database answers again.
type pendingReconciliation struct {
	send         uuid.UUID
	buckets      map[quota.Scope]string
	missingSince time.Time // when the database first had no row
}

const (
	// maxReconciliations bounds the list. Further requests are not looked up, so their events count
	// until the window ends.
	maxReconciliations = 10_000
	// NeverWrittenAfter is how long a row must be missing from the database before it counts as never
	// written: the server may still run a transaction whose client is gone, within its own time
	// limits for statements and locks.
	NeverWrittenAfter = 10 * time.Second
)

// ReconcileLater queues a send that the database may or may not have written. When the database
// answers again, the send is refunded in these buckets if it has no row.
func (o *Outbox) ReconcileLater(send uuid.UUID, buckets map[quota.Scope]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.reconciliations) < maxReconciliations {
		o.reconciliations = append(o.reconciliations, pendingReconciliation{send: send, buckets: buckets})
	}
}

// reconcile looks up the queued requests in the database, and refunds those that have been without
// a row for NeverWrittenAfter. Others without a row, and all after an error, stay queued.
func (o *Outbox) reconcile(ctx context.Context) {
	o.mu.Lock()
	list := o.reconciliations
	o.reconciliations = nil
	o.mu.Unlock()
	if len(list) == 0 {
		return
	}
	rows, err := o.writtenRows(ctx, list)
	var left []pendingReconciliation
	for _, x := range list {
		switch row, written := rows[x.send]; {
		case err != nil:
			left = append(left, x)
		case written && row.Status != store.Refused: // a takeover delivers it
			own := o.recipientBuckets(row.App, row.Channel, row.Purpose, row.Recipient)
			// The row may be a repetition's, from a replica that tells spellings of an address
			// apart in another way. Then the send counts in that row's bucket, and not in this one.
			if counted := x.buckets[quota.Recipient]; len(own) > 0 && counted != "" && !slices.Contains(own, counted) {
				o.RefundLater(string(x.send[:]), map[quota.Scope]string{quota.Recipient: counted})
			}
		case o.missingFor(&x) < NeverWrittenAfter:
			left = append(left, x)
		default:
			o.RefundLater(string(x.send[:]), x.buckets)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reconciliations = append(left, o.reconciliations...)
}

// missingFor returns for how long the database has been known to lack the row.
func (o *Outbox) missingFor(x *pendingReconciliation) time.Duration {
	x.missingSince = cmp.Or(x.missingSince, o.Now())
	return o.Now().Sub(x.missingSince)
}

// maxRowsPerLookup bounds the rows that one statement looks up.
const maxRowsPerLookup = 1000

// writtenRows reads the rows of requests. It first calls Store.Ping, which writes: after that write, a
// transaction that SQLite did not commit cannot appear any more.
func (o *Outbox) writtenRows(ctx context.Context, list []pendingReconciliation) (rows map[uuid.UUID]store.Send, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if err := o.Store.Ping(ctx); err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.send
	}
	rows, _, err = o.sendsByID(ctx, ids)
	return rows, err
}

// sendsByID reads the rows of sends, by their IDs. Sends without a row are not in the map. The time is
// on the database's clock; zero if no row was found.
func (o *Outbox) sendsByID(ctx context.Context, ids []uuid.UUID) (found map[uuid.UUID]store.Send, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	found = map[uuid.UUID]store.Send{}
	for some := range slices.Chunk(ids, maxRowsPerLookup) {
		var rows []store.SendOrRefusal
		if rows, now, err = o.Store.SendsByID(ctx, some); err != nil {
			return nil, now, err
		}
		for _, row := range rows {
			found[row.ID] = row.Send
		}
	}
	return found, now, nil
}
