package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// A request that ended in ErrUnavailable must not count. If the log certainly wrote nothing, its events in the limiter are refunded at
// once. If the connection broke at the commit, the send may be in the log: it is looked up when the log answers again, and refunded if it
// has no row.

// pendingReconciliation is a request whose row must be looked up when the log answers again.
type pendingReconciliation struct {
	send         uuid.UUID
	buckets      map[quota.Scope]string
	missingSince time.Time // when the log first had no row
}

const (
	// maxReconciliations bounds the list. Beyond it, events count until their window ends.
	maxReconciliations = 10_000
	// MissingFor is how long a row must be missing from the log before it counts as never written: the server may still run a
	// transaction whose client is gone, within its own time limits for statements and locks.
	MissingFor = 10 * time.Second
)

// ReconcileLater queues a send that the log may or may not have written. When the log answers again, the send is refunded in these
// buckets if it has no row.
func (o *Outbox) ReconcileLater(send uuid.UUID, buckets map[quota.Scope]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.reconciliations) < maxReconciliations {
		o.reconciliations = append(o.reconciliations, pendingReconciliation{send: send, buckets: buckets})
	}
}

// reconcile looks up the queued requests in the log, and refunds those that have been without a row for MissingFor. Others without a row,
// and all after an error, stay queued.
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
		case o.missingFor(&x) < MissingFor:
			left = append(left, x)
		default:
			o.RefundLater(string(x.send[:]), x.buckets)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reconciliations = append(left, o.reconciliations...)
}

// missingFor returns for how long the log has been known to lack the row.
func (o *Outbox) missingFor(x *pendingReconciliation) time.Duration {
	x.missingSince = cmp.Or(x.missingSince, o.Now())
	return o.Now().Sub(x.missingSince)
}

// maxLookup is how many rows are looked up by one statement.
const maxLookup = 1000

// writtenRows reads the rows of requests. It pings the log first: that write makes sure that a transaction which SQLite did not commit
// cannot appear later.
func (o *Outbox) writtenRows(ctx context.Context, list []pendingReconciliation) (map[uuid.UUID]store.Send, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if err := o.Store.Ping(ctx); err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.send
	}
	return o.rowsOf(ctx, ids)
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
