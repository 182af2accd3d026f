package verificationtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// CutStore is a log whose connection can be cut.
type CutStore struct {
	*sqlite.DB
	Uncertain atomic.Bool // what is cut may have been written
	cut       atomic.Bool
}

// Cut cuts the connection, or mends it.
func (a *CutStore) Cut(cut bool) { a.cut.Store(cut) }

func (a *CutStore) err() error {
	switch {
	case !a.cut.Load():
		return nil
	case a.Uncertain.Load():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrUncertain)
	}
	return store.ErrUnavailable
}

func (a *CutStore) Begin(ctx context.Context, i store.Intent) (store.Begun, error) {
	if err := a.err(); err != nil {
		return store.Begun{}, err
	}
	return a.DB.Begin(ctx, i)
}

func (a *CutStore) Redeem(ctx context.Context, id string, by []byte) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Redeem(ctx, id, by)
}

func (a *CutStore) Refused(ctx context.Context, rows []store.Send) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Refused(ctx, rows)
}

func (a *CutStore) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.DB.Renew(ctx, lease, held)
}

func (a *CutStore) Finish(ctx context.Context, o store.Outcome) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Finish(ctx, o)
}

func (a *CutStore) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.DB.Postpone(ctx, p)
}

func (a *CutStore) TakeOver(ctx context.Context, ch recipient.Channel, lease time.Duration, n int) ([]store.Work, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.TakeOver(ctx, ch, lease, n)
}

func (a *CutStore) RefundsDue(ctx context.Context, lease time.Duration, n int) ([]store.Refund, error) {
	if err := a.err(); err != nil {
		return nil, err
	}
	return a.DB.RefundsDue(ctx, lease, n)
}

// FailStore makes a method of the log fail until it is called with another one.
func (r *Rig) FailStore(method string, how sqlite.Fault) {
	r.Store.SetFault(func(m string) sqlite.Fault {
		if m == method {
			return how
		}
		return sqlite.None
	})
}

// NotedStore notes what it is asked of recipients' events.
type NotedStore struct {
	*CutStore
	Calls *[]string
}

func (c NotedStore) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	*c.Calls = append(*c.Calls, "begin")
	return c.CutStore.Begin(ctx, in)
}

func (c NotedStore) History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.CutStore.History(ctx, b, within)
}

func (c NotedStore) HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string,
	at time.Time) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.CutStore.HistoryAt(ctx, b, within, clock, at)
}

func (c NotedStore) Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "rejected")
	return c.CutStore.Rejected(ctx, b, within)
}
