package verificationtest

import (
	"context"
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// FailStore makes these methods of the log fail; without any, those that write what the gates, the outbox and redemptions do.
func (r *Rig) FailStore(how sqlite.Fault, methods ...string) {
	if len(methods) == 0 {
		methods = []string{"Begin", "Redeem", "Refused", "Renew", "Finish", "Postpone", "TakeOver", "RefundsDue"}
	}
	r.Store.SetFault(func(m string) sqlite.Fault {
		if slices.Contains(methods, m) {
			return how
		}
		return sqlite.None
	})
}

// CutStore makes the log unavailable to the gates and the outbox.
func (r *Rig) CutStore() { r.FailStore(sqlite.Down) }

// MendStore ends all faults of the log.
func (r *Rig) MendStore() { r.Store.SetFault(nil) }

// NotedStore notes what it is asked of recipients' events.
type NotedStore struct {
	*sqlite.DB
	Calls *[]string
}

func (c NotedStore) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	*c.Calls = append(*c.Calls, "begin")
	return c.DB.Begin(ctx, in)
}

func (c NotedStore) History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.DB.History(ctx, b, within)
}

func (c NotedStore) HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string,
	at time.Time) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.DB.HistoryAt(ctx, b, within, clock, at)
}

func (c NotedStore) Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "rejected")
	return c.DB.Rejected(ctx, b, within)
}
