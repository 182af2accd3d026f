package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

// CallKinds are the kinds of calls that an Observer distinguishes: one for each method of PerDatabase
// (one for both TakeOver methods; ConfirmRefund is a write), one for ReadHistory (look), one for Verification and VerificationRow, else read or write.
var CallKinds = []string{
	"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew",
	"finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping",
}

// Observer is called for each call of the database. Its methods must not block.
type Observer interface {
	// Began is called with the kind of a call, and returns the context in which the call goes on.
	Began(ctx context.Context, kind string) context.Context
	// Ended is called with that context and how long the call took, including its wait for a
	// connection. name is the name of the store's method, or the kind.
	Ended(ctx context.Context, kind, name string, took time.Duration)
}

// WithObserver returns the store with an observer of each call.
func WithObserver(db *DB, told Observer) *DB {
	o := observer{told}
	return &DB{db.Dialect, measuredEngine{db.Engine, o}, measuredPerDatabase{db.PerDatabase, o}, db.Actions, db.LongReads}
}

type observer struct{ told Observer }

// measure tells the observer of a call that begins, and puts into ctx the context in which the call goes on.
// The caller must call end.
func (o observer) measure(ctx *context.Context, kind, name string) (end func()) {
	observed, began := o.told.Began(*ctx, kind), time.Now()
	*ctx = observed
	return func() { o.told.Ended(observed, kind, name, time.Since(began)) }
}

type measuredEngine struct {
	Engine
	observer
}

// Read implements Engine.
func (e measuredEngine) Read(ctx context.Context, name string, f func(q Tx) error) error {
	defer e.measure(&ctx, "read", name)()
	return e.Engine.Read(ctx, name, f)
}

// Write implements Engine.
func (e measuredEngine) Write(ctx context.Context, name string, turn Turn, f func(q Tx) error) error {
	defer e.measure(&ctx, "write", name)()
	return e.Engine.Write(ctx, name, turn, f)
}

// Run implements Engine.
func (e measuredEngine) Run(ctx context.Context, name string, turn Turn, steps ...*Statement) error {
	defer e.measure(&ctx, "write", name)()
	return e.Engine.Run(ctx, name, turn, steps...)
}

// ReadHistory implements Engine.
func (e measuredEngine) ReadHistory(ctx context.Context, l rowrules.HistoryQuery) (rowrules.History, error) {
	defer e.measure(&ctx, "look", "look")()
	return e.Engine.ReadHistory(ctx, l)
}

// Verification implements Engine.
func (e measuredEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send,
	time.Time, error,
) {
	defer e.measure(&ctx, "verification", "verification")()
	return e.Engine.Verification(ctx, id)
}

// VerificationRow implements Engine.
func (e measuredEngine) VerificationRow(ctx context.Context, id string) (store.Verification, time.Time, error) {
	defer e.measure(&ctx, "verification", "verification_row")()
	return e.Engine.VerificationRow(ctx, id)
}

// ReadShared implements Engine.
func (e measuredEngine) ReadShared(ctx context.Context, name string, s *Statement) error {
	defer e.measure(&ctx, "read", name)()
	return e.Engine.ReadShared(ctx, name, s)
}

type measuredPerDatabase struct {
	PerDatabase
	observer
}

// Begin implements PerDatabase, as do the methods below.
func (n measuredPerDatabase) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	defer n.measure(&ctx, "begin", "begin")()
	return n.PerDatabase.Begin(ctx, intent)
}

// ClaimIdempotencyKey implements PerDatabase.
func (n measuredPerDatabase) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	defer n.measure(&ctx, "claim", "claim")()
	return n.PerDatabase.ClaimIdempotencyKey(ctx, c)
}

// ReleaseIdempotencyKey implements PerDatabase.
func (n measuredPerDatabase) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	defer n.measure(&ctx, "release", "release")()
	return n.PerDatabase.ReleaseIdempotencyKey(ctx, key, id, forget)
}

// RecordRefusals implements PerDatabase.
func (n measuredPerDatabase) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	defer n.measure(&ctx, "refused", "refused")()
	return n.PerDatabase.RecordRefusals(ctx, refusals)
}

// Check implements PerDatabase.
func (n measuredPerDatabase) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	defer n.measure(&ctx, "check", "check")()
	return n.PerDatabase.Check(ctx, c)
}

// RenewLeases implements PerDatabase.
func (n measuredPerDatabase) RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error {
	defer n.measure(&ctx, "renew", "renew")()
	return n.PerDatabase.RenewLeases(ctx, lease, held)
}

// Finish implements PerDatabase.
func (n measuredPerDatabase) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	defer n.measure(&ctx, "finish", "finish")()
	return n.PerDatabase.Finish(ctx, outcome)
}

// Postpone implements PerDatabase.
func (n measuredPerDatabase) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	defer n.measure(&ctx, "postpone", "postpone")()
	return n.PerDatabase.Postpone(ctx, p)
}

// TakeOver implements PerDatabase.
func (n measuredPerDatabase) TakeOver(ctx context.Context, q store.Queue, lease time.Duration,
	limit int,
) ([]store.Work, error) {
	defer n.measure(&ctx, "take_over", "take_over")()
	return n.PerDatabase.TakeOver(ctx, q, lease, limit)
}

// TakeOverWithExpiredCode implements PerDatabase.
func (n measuredPerDatabase) TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration,
	limit int,
) ([]store.Work, error) {
	defer n.measure(&ctx, "take_over", "take_over")()
	return n.PerDatabase.TakeOverWithExpiredCode(ctx, q, lease, limit)
}

// LeaseDueRefunds implements PerDatabase.
func (n measuredPerDatabase) LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	defer n.measure(&ctx, "refunds_due", "refunds_due")()
	return n.PerDatabase.LeaseDueRefunds(ctx, lease, limit)
}

// ConfirmRefund implements PerDatabase.
func (n measuredPerDatabase) ConfirmRefund(ctx context.Context, held store.AttemptID) error {
	defer n.measure(&ctx, "write", "ConfirmRefund")()
	return n.PerDatabase.ConfirmRefund(ctx, held)
}

// EndAppEventAttempt implements PerDatabase.
func (n measuredPerDatabase) EndAppEventAttempt(ctx context.Context, end store.AppEventAttemptEnd) (bool, error) {
	defer n.measure(&ctx, "app_event_ended", "app_event_ended")()
	return n.PerDatabase.EndAppEventAttempt(ctx, end)
}

// CountHours implements PerDatabase.
func (n measuredPerDatabase) CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error) {
	defer n.measure(&ctx, "count_hours", "count_hours")()
	return n.PerDatabase.CountHours(ctx, life, keep, limit)
}

// EnsurePartitions implements PerDatabase.
func (n measuredPerDatabase) EnsurePartitions(ctx context.Context) (time.Time, error) {
	defer n.measure(&ctx, "ensure_partitions", "ensure_partitions")()
	return n.PerDatabase.EnsurePartitions(ctx)
}

// Ping implements PerDatabase.
func (n measuredPerDatabase) Ping(ctx context.Context) error {
	defer n.measure(&ctx, "ping", "ping")()
	return n.PerDatabase.Ping(ctx)
}
