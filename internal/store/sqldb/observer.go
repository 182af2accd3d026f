package sqldb

import (
	"context"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

// CallKinds are the kinds of calls for an Observer. Each method of PerDatabase has its own kind,
// except that both TakeOver methods have take_over, and ConfirmRefund has write. ReadHistory has
// look; Verification and VerificationRow have verification; all other calls have read or write.
var CallKinds = []string{
	"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew",
	"finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping",
}

// Observer is notified of each call of the database. Its methods must not block.
type Observer interface {
	// Began returns the context in which the call continues.
	Began(ctx context.Context, kind string) context.Context
	// Ended gets Began's context. took includes the wait for a connection. name is the store's
	// method if kind is read or write, verification_row for VerificationRow, and otherwise kind.
	Ended(ctx context.Context, kind, name string, took time.Duration)
}

func WithObserver(db *DB, observe Observer) *DB {
	db.observer = observe
	measured := *db
	measured.Engine = measuredEngine{db.Engine, db}
	return &measured
}

// Observe replaces ctx by the context in which the call continues. The caller must call end. The
// methods of PerDatabase call Observe themselves.
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

func (e measuredEngine) Read(ctx context.Context, name string, f func(q Tx) error) error {
	defer e.db.Observe(&ctx, "read", name)()
	return e.Engine.Read(ctx, name, f)
}

func (e measuredEngine) Write(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error {
	defer e.db.Observe(&ctx, "write", name)()
	return e.Engine.Write(ctx, name, precedence, f)
}

func (e measuredEngine) Run(ctx context.Context, name string, precedence Precedence, steps ...*Statement) error {
	defer e.db.Observe(&ctx, "write", name)()
	return e.Engine.Run(ctx, name, precedence, steps...)
}

func (e measuredEngine) ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error) {
	defer e.db.Observe(&ctx, "look", "look")()
	return e.Engine.ReadHistory(ctx, l)
}

func (e measuredEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send,
	time.Time, error,
) {
	defer e.db.Observe(&ctx, "verification", "verification")()
	return e.Engine.Verification(ctx, id)
}

func (e measuredEngine) VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error) {
	defer e.db.Observe(&ctx, "verification", "verification_row")()
	return e.Engine.VerificationRow(ctx, id)
}

func (e measuredEngine) ReadShared(ctx context.Context, name string, s *Statement) error {
	defer e.db.Observe(&ctx, "read", name)()
	return e.Engine.ReadShared(ctx, name, s)
}
