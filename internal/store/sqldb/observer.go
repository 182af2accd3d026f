package sqldb

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

// CallKinds are the kinds of calls that an Observer distinguishes. Each method of PerDatabase has
// its own kind, with two exceptions: both TakeOver methods have the kind take_over, and
// ConfirmRefund has the kind write. Of the other calls, ReadHistory has the kind look, and
// Verification and VerificationRow have the kind verification. All remaining calls have the kind
// read or write.
var CallKinds = []string{
	"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew",
	"finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping",
}

// Observer is called for each call of the database. Its methods must not block.
type Observer interface {
	// Began is called with the kind of a call, and returns the context in which the call continues.
	Began(ctx context.Context, kind string) context.Context
	// Ended receives the context that Began returned, and the kind of the call. The parameter took
	// is how long the call took, including the wait for a connection. The parameter name is the
	// name of the store's method if the kind is read or write. Otherwise it is the same as the
	// kind, except that it is verification_row for VerificationRow.
	Ended(ctx context.Context, kind, name string, took time.Duration)
}

// WithObserver returns the store with an observer of each call.
func WithObserver(db *DB, observe Observer) *DB {
	db.observer = observe
	measured := *db
	measured.Engine = measuredEngine{db.Engine, db}
	return &measured
}

// Observe notifies the observer that a call begins, and sets ctx to the context in which the call
// continues. The caller must call end. The methods of PerDatabase call Observe themselves.
func (db *DB) Observe(ctx *context.Context, kind, name string) (end func()) {
	if db.observer == nil {
		return func() {}
	}
	observed, began := db.observer.Began(*ctx, kind), time.Now()
	*ctx = observed
	return func() { db.observer.Ended(observed, kind, name, time.Since(began)) }
}

type measuredEngine struct {
	Engine
	db *DB
}

// Read implements Engine.
func (e measuredEngine) Read(ctx context.Context, name string, f func(q Tx) error) error {
	defer e.db.Observe(&ctx, "read", name)()
	return e.Engine.Read(ctx, name, f)
}

// Write implements Engine.
func (e measuredEngine) Write(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error {
	defer e.db.Observe(&ctx, "write", name)()
	return e.Engine.Write(ctx, name, precedence, f)
}

// Run implements Engine.
func (e measuredEngine) Run(ctx context.Context, name string, precedence Precedence, steps ...*Statement) error {
	defer e.db.Observe(&ctx, "write", name)()
	return e.Engine.Run(ctx, name, precedence, steps...)
}

// ReadHistory implements Engine.
func (e measuredEngine) ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error) {
	defer e.db.Observe(&ctx, "look", "look")()
	return e.Engine.ReadHistory(ctx, l)
}

// Verification implements Engine.
func (e measuredEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send,
	time.Time, error,
) {
	defer e.db.Observe(&ctx, "verification", "verification")()
	return e.Engine.Verification(ctx, id)
}

// VerificationRow implements Engine.
func (e measuredEngine) VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error) {
	defer e.db.Observe(&ctx, "verification", "verification_row")()
	return e.Engine.VerificationRow(ctx, id)
}

// ReadShared implements Engine.
func (e measuredEngine) ReadShared(ctx context.Context, name string, s *Statement) error {
	defer e.db.Observe(&ctx, "read", name)()
	return e.Engine.ReadShared(ctx, name, s)
}
