package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// recordFailure writes into the limiter that a send was rejected for good, or not even tried, now or once the limiter is back.
func (o *Outbox) recordFailure(s store.Send) {
	p := pendingSync{
		id: string(s.ID[:]), buckets: []string{policy.FailuresBucket(s.App, s.Channel, s.Recipient)},
		at: o.Now(), failed: true, keep: o.Policy.Get().FailureWindow(),
	}
	if err := o.sync(context.Background(), p); err != nil {
		o.Logger.Warn("a failure waits for the limiter", "send", s.ID, "error", err)
		o.enqueueSync(p)
	}
}

// repeatRefunds gives back, in the limiter, what the log has given back already.
func (o *Outbox) repeatRefunds(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	due, err := o.Store.RefundsDue(bounded, o.Lease, refundBatch)
	if err != nil {
		return err
	}
	for _, r := range due {
		if err := o.refundRow(ctx, r); err != nil {
			o.Logger.Warn("a refund waits for the limiter", "send", r.ID, "error", err)
			return nil
		}
	}
	return nil
}

// refundRow refunds in the limiter and confirms it to the log. Only the recipient's bucket is refunded, under each policy that the
// purpose has had: policies may have changed since the send was counted.
func (o *Outbox) refundRow(ctx context.Context, r store.Refund) error {
	var buckets []string
	for _, name := range o.Policy.Get().CountedUnder(r.Purpose) {
		buckets = append(buckets, policy.RecipientBuckets(r.App, r.Channel, name, r.Recipient)...)
	}
	if err := o.Gate.RefundLocal(ctx, string(r.ID[:]), buckets...); err != nil { // where a rule that observes may have counted it
		return err
	}
	if err := o.Gate.Refund(ctx, string(r.ID[:]), buckets...); err != nil {
		return err
	}
	return o.Store.Refunded(ctx, r.Held)
}

// pendingSync is what the limiter must get and did not: a place to give back that no row speaks of, a send that the log let
// in alone, or a failure.
type pendingSync struct {
	id      string
	buckets []string
	since   time.Time
	at      time.Time     // of a send, on the log's clock, or of a failure, on this process's; zero for a place to give back
	failed  bool          // it is a failure
	keep    time.Duration // how long the send or the failure counts
}

const (
	maxSyncs = 10_000
	// giveBackLife is for how long a place is offered to the limiter that no row speaks of: as long as the longest usual window.
	giveBackLife = 24 * time.Hour
)

func (p pendingSync) life() time.Duration {
	if p.at.IsZero() {
		return giveBackLife
	}
	return p.keep
}

// GiveBack returns places that no row speaks of: the request ended before its row was written. It is repeated in the
// background until the limiter answers.
func (o *Outbox) GiveBack(id string, buckets map[quota.Scope]string) {
	o.refundLocal(id, buckets)
	o.enqueueSync(pendingSync{id: id, buckets: policy.Counted(buckets)})
}

// GiveBackNow is GiveBack where the next request may need the place: the limiter is asked at once.
func (o *Outbox) GiveBackNow(ctx context.Context, id string, buckets map[quota.Scope]string) {
	if err := o.Gate.Refund(ctx, id, policy.Counted(buckets)...); err != nil {
		o.GiveBack(id, buckets)
		return
	}
	o.refundLocal(id, buckets)
}

func (o *Outbox) refundLocal(id string, buckets map[quota.Scope]string) {
	if err := o.Gate.RefundLocal(context.Background(), id, policy.Counted(buckets)...); err != nil {
		o.Logger.Warn("a place was not given back in process", "error", err)
	}
}

// RecordLater writes into the limiter, once it is back, a send that the log let in alone.
func (o *Outbox) RecordLater(s policy.Subject, id string, at time.Time) {
	bucket := policy.RecipientBucket(s.App, s.Channel, s.Purpose.Policy.Name, s.Recipient)
	o.enqueueSync(pendingSync{id: id, at: at, buckets: []string{bucket}, keep: s.Purpose.Window()})
}

// recordTakenOver is RecordLater for a row that the log let in alone and that its process may not have recorded: it died, or did not
// hear that the row was written.
func (o *Outbox) recordTakenOver(s store.Send) {
	if p, ok := o.Policy.Get().Purposes[s.Purpose]; ok {
		o.RecordLater(policy.Subject{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purpose: p}, string(s.ID[:]), s.LoggedAt)
	}
}

func (o *Outbox) enqueueSync(p pendingSync) {
	p.since = o.Now()
	o.mu.Lock()
	if len(o.syncs) < maxSyncs {
		o.syncs = append(o.syncs, p)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outbox) keepSyncs(list []pendingSync) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncs = append(list, o.syncs...)
}

// orGiveBack makes a place to give back of each event that was reset or erased since: an administrator reaches any process, and the
// event may have been written already.
func (o *Outbox) orGiveBack(ctx context.Context, list []pendingSync) (places []pendingSync, err error) {
	var ids []uuid.UUID
	for _, p := range list {
		if !p.at.IsZero() {
			ids = append(ids, uuid.UUID([]byte(p.id)))
		}
	}
	rows, err := o.rowsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		if p.at.IsZero() {
			continue
		}
		row, there := rows[uuid.UUID([]byte(p.id))]
		if !there || !row.Counts && !(p.failed && row.Status == store.Failed && !row.Forgiven) {
			list[i] = pendingSync{id: p.id, buckets: p.buckets, since: o.Now()}
			places = append(places, list[i])
		}
	}
	return places, nil
}

// flush syncs what waits; what the limiter or the log does not take waits for the next tick. The first is tried alone, so that a limiter
// that is away costs one look into the log.
func (o *Outbox) flush(ctx context.Context) {
	o.mu.Lock()
	list := o.syncs
	o.syncs = nil
	o.mu.Unlock()
	for n := 1; len(list) > 0; n = maxLookup {
		some := list[:min(n, len(list))]
		left, err := o.flushSome(ctx, some)
		list = slices.Concat(left, list[len(some):])
		if err != nil {
			o.keepSyncs(list)
			return
		}
	}
}

// flushSome returns what is left of a list. A reset changes the log before the limiter. So an event that no longer counts in the log
// after it was written may have been written after the reset, and is given back.
func (o *Outbox) flushSome(ctx context.Context, list []pendingSync) (left []pendingSync, err error) {
	if _, err := o.orGiveBack(ctx, list); err != nil {
		return list, err
	}
	var written []pendingSync
	for i, p := range list {
		if o.Now().Sub(p.since) > p.life() {
			continue // a place ends with its window, and the log knows every send
		}
		if err = o.sync(ctx, p); err != nil {
			left = list[i:]
			break
		}
		if !p.at.IsZero() {
			written = append(written, p)
		}
	}
	places, unread := o.orGiveBack(ctx, written)
	if unread != nil {
		return append(written, left...), unread
	}
	return append(places, left...), err
}

func (o *Outbox) sync(ctx context.Context, p pendingSync) error {
	event := quota.Event{ID: p.id, At: p.at}
	switch {
	case p.at.IsZero():
		return o.Gate.Refund(ctx, p.id, p.buckets...)
	case p.failed:
		return o.Gate.RecordFailures(ctx, p.buckets[0], []quota.Event{event}, o.Now())
	}
	return o.Gate.Record(ctx, p.buckets[0], p.keep, event)
}
