package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// A request that ended in ErrUnavailable must not count. If the log certainly wrote nothing, its events in the limiter are refunded and
// its idempotency key is released at once. If the connection broke at the commit, the send may be in the log: it is looked up when
// the log answers again, and refunded if it has no row.

// pendingReconciliation is a request whose row must be looked up, or whose idempotency key must be released, when the log answers again.
type pendingReconciliation struct {
	send         uuid.UUID
	buckets      map[quota.Scope]string
	key          [32]byte
	lookUpRow    bool          // look up its row; else only release the key
	within       time.Duration // lease of the key
	since        time.Time     // when the request ended
	missingSince time.Time     // when the log first had no row
}

const (
	// maxReconciliations bounds the list. Beyond it, events count until their window ends, and keys are held until their lease ends.
	maxReconciliations = 10_000
	// MissingFor is how long a row must be missing from the log before it counts as never written: the server may still run a
	// transaction whose client is gone, within its own time limits for statements and locks.
	MissingFor = 10 * time.Second
)

// ReconcileLater queues a send that the log may or may not have written. When the log answers again, the send is refunded in these
// buckets if it has no row.
func (o *Outbox) ReconcileLater(send uuid.UUID, buckets map[quota.Scope]string) {
	o.enqueueReconciliation(pendingReconciliation{send: send, buckets: buckets, lookUpRow: true})
}

// ReleaseLater queues the release of an idempotency key whose request failed before its row was written. within is the key's lease.
func (o *Outbox) ReleaseLater(key [32]byte, send uuid.UUID, within time.Duration) {
	o.enqueueReconciliation(pendingReconciliation{send: send, key: key, within: within})
}

func (o *Outbox) enqueueReconciliation(x pendingReconciliation) {
	x.since = o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.reconciliations) < maxReconciliations {
		o.reconciliations = append(o.reconciliations, x)
	}
}

// reconcile looks up the queued requests in the log. It refunds those without a row and releases keys; the rest, and all after an error,
// stay queued.
func (o *Outbox) reconcile(ctx context.Context) {
	list := o.takePending()
	if len(list) == 0 {
		return
	}
	rows, err := o.sendsInLog(ctx, list)
	if err != nil {
		o.putBackPending(list)
		return
	}
	var left []pendingReconciliation
	for _, x := range list {
		if !rows[x.send] && !o.reconcileMissing(ctx, &x) { // a row is delivered by a takeover
			left = append(left, x)
		}
	}
	o.putBackPending(left)
}

// reconcileMissing refunds a request without a row, or releases its key, and returns true; false if it is too early or failed.
func (o *Outbox) reconcileMissing(ctx context.Context, x *pendingReconciliation) bool {
	if !x.lookUpRow {
		return o.releaseKey(ctx, *x)
	}
	if x.missingSince.IsZero() {
		x.missingSince = o.Now()
	}
	if o.Now().Sub(x.missingSince) < MissingFor {
		return false
	}
	o.RefundLater(string(x.send[:]), x.buckets)
	return true
}

func (o *Outbox) takePending() []pendingReconciliation {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.reconciliations
	o.reconciliations = nil
	return list
}

func (o *Outbox) putBackPending(list []pendingReconciliation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reconciliations = append(list, o.reconciliations...)
}

// maxLookup is how many rows are looked up by one statement.
const maxLookup = 1000

// sendsInLog returns which of the sends have a row that was not refused. It pings the log first: that write makes sure that a
// transaction which SQLite did not commit cannot appear later.
func (o *Outbox) sendsInLog(ctx context.Context, list []pendingReconciliation) (map[uuid.UUID]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if err := o.Store.Ping(ctx); err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.send
	}
	rows, err := o.rowsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	there := map[uuid.UUID]bool{}
	for id, row := range rows {
		there[id] = row.Status != store.Refused
	}
	return there, nil
}

// rowsOf reads the rows of sends, by their IDs. Sends without a row are not in the map.
func (o *Outbox) rowsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]store.Send, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	found := map[uuid.UUID]store.Send{}
	for some := range slices.Chunk(ids, maxLookup) {
		rows, err := o.Store.SendsByID(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			found[row.ID] = row
		}
	}
	return found, nil
}

// releaseKey releases a request's idempotency key and returns true, or false if the log failed. After the key's lease it does nothing and
// returns true, since another request may hold the key.
func (o *Outbox) releaseKey(ctx context.Context, x pendingReconciliation) bool {
	if o.Now().Sub(x.since) > x.within-2*store.CallTimeout {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	return o.Store.Release(ctx, x.key, x.send, true) == nil
}
