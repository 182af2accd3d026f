package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/quota"
)

// A request that ended in ErrUnavailable spent nothing. Where it is certain that the log wrote nothing, its reservations in
// the limiter and its idempotency key are given back at once. Where the log could not say, for its connection broke at the
// commit, the send is looked up once the log answers again, and what has no row is given back then.

// unsettled is a request that the log has to be asked about, or whose key it has to release, once it answers again.
type unsettled struct {
	send      uuid.UUID
	buckets   map[quota.Scope]string
	key       [32]byte
	uncertain bool          // its row may be there; else there is only the key to release
	within    time.Duration // for which the key's lease lasts
	since     time.Time     // when the request ended
	missed    time.Time     // when the log said first that there is no row
}

const (
	// maxUnsettled bounds the list; beyond it a place is free when its window ends, and a key when its lease does.
	maxUnsettled = 10_000
	// SettledAfter is how long a row must be missing from the log before it counts as never written: a server may still be at
	// work on a transaction whose client is gone, within its own time limits for statements and locks.
	SettledAfter = 10 * time.Second
)

// SettleLater queues a send that the log may or may not have written, with its places in the limiter.
func (o *Outbox) SettleLater(send uuid.UUID, buckets map[quota.Scope]string) {
	o.remember(unsettled{send: send, buckets: buckets, uncertain: true})
}

// ReleaseLater queues an idempotency key whose request came to nothing.
func (o *Outbox) ReleaseLater(key [32]byte, send uuid.UUID, within time.Duration) {
	o.remember(unsettled{send: send, key: key, within: within})
}

func (o *Outbox) remember(x unsettled) {
	x.since = o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.unsettled) < maxUnsettled {
		o.unsettled = append(o.unsettled, x)
	}
}

// settleUncertain looks the queued requests up. A write comes first: what SQLite did not commit is then certainly overwritten.
func (o *Outbox) settleUncertain(ctx context.Context) {
	list := o.takeUnsettled()
	if len(list) == 0 {
		return
	}
	rows, err := o.lookedUp(ctx, list)
	if err != nil {
		o.keepUnsettled(list)
		return
	}
	var left []unsettled
	for _, x := range list {
		if !rows[x.send] && !o.settled(ctx, &x) { // where there is a row, the takeover finds it
			left = append(left, x)
		}
	}
	o.keepUnsettled(left)
}

// settled gives back what a request without a row took, or says that it is too early for that.
func (o *Outbox) settled(ctx context.Context, x *unsettled) bool {
	if !x.uncertain {
		return o.releaseKey(ctx, *x)
	}
	if x.missed.IsZero() {
		x.missed = o.Now()
	}
	if o.Now().Sub(x.missed) < SettledAfter {
		return false
	}
	o.GiveBack(string(x.send[:]), x.buckets)
	return true
}

func (o *Outbox) takeUnsettled() []unsettled {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.unsettled
	o.unsettled = nil
	return list
}

func (o *Outbox) keepUnsettled(list []unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsettled = append(list, o.unsettled...)
}

// maxLookup is how many rows are looked up by one statement.
const maxLookup = 1000

// lookedUp says which of the sends are in the log.
func (o *Outbox) lookedUp(ctx context.Context, list []unsettled) (map[uuid.UUID]bool, error) {
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

// rowsOf reads the rows of sends.
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

// releaseKey gives up the idempotency key of a request that came to nothing. Once the key's lease has ended another request may
// hold it, and it is not touched.
func (o *Outbox) releaseKey(ctx context.Context, x unsettled) bool {
	if o.Now().Sub(x.since) > x.within-2*store.CallTimeout {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	return o.Store.Release(ctx, x.key, x.send, true) == nil
}
