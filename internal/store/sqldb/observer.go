package sqldb

import (
	"context"
	"time"

	"github.com/google/uuid"

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
	o := observer{observe}
	return &DB{db.Dialect, measuredEngine{db.Engine, o}, measuredPerDatabase{db.PerDatabase, o}, db.Actions, db.LongReads}
}

type observer struct{ observe Observer }

// measure notifies the observer that a call begins, and sets ctx to the context in which the call
// continues. The caller must call end.
func (o observer) measure(ctx *context.Context, kind, name string) (end func()) {
	observed, began := o.observe.Began(*ctx, kind), time.Now()
	*ctx = observed
	return func() { o.observe.Ended(observed, kind, name, time.Since(began)) }
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
func (e measuredEngine) Write(ctx context.Context, name string, precedence Precedence, f func(q Tx) error) error {
	defer e.measure(&ctx, "write", name)()
	return e.Engine.Write(ctx, name, precedence, f)
}

// Run implements Engine.
func (e measuredEngine) Run(ctx context.Context, name string, precedence Precedence, steps ...*Statement) error {
	defer e.measure(&ctx, "write", name)()
	return e.Engine.Run(ctx, name, precedence, steps...)
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
func (m measuredPerDatabase) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	defer m.measure(&ctx, "begin", "begin")()
	return m.PerDatabase.Begin(ctx, intent)
}

// ClaimIdempotencyKey implements PerDatabase.
func (m measuredPerDatabase) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	defer m.measure(&ctx, "claim", "claim")()
	return m.PerDatabase.ClaimIdempotencyKey(ctx, c)
}

// ReleaseIdempotencyKey implements PerDatabase.
func (m measuredPerDatabase) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	defer m.measure(&ctx, "release", "release")()
	return m.PerDatabase.ReleaseIdempotencyKey(ctx, key, id, forget)
}

// RecordRefusals implements PerDatabase.
func (m measuredPerDatabase) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	defer m.measure(&ctx, "refused", "refused")()
	return m.PerDatabase.RecordRefusals(ctx, refusals)
}

// Check implements PerDatabase.
func (m measuredPerDatabase) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	defer m.measure(&ctx, "check", "check")()
	return m.PerDatabase.Check(ctx, c)
}

// RenewLeases implements PerDatabase.
func (m measuredPerDatabase) RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error {
	defer m.measure(&ctx, "renew", "renew")()
	return m.PerDatabase.RenewLeases(ctx, lease, held)
}

// Finish implements PerDatabase.
func (m measuredPerDatabase) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	defer m.measure(&ctx, "finish", "finish")()
	return m.PerDatabase.Finish(ctx, outcome)
}

// Postpone implements PerDatabase.
func (m measuredPerDatabase) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	defer m.measure(&ctx, "postpone", "postpone")()
	return m.PerDatabase.Postpone(ctx, p)
}

// TakeOver implements PerDatabase.
func (m measuredPerDatabase) TakeOver(ctx context.Context, q store.Queue, lease time.Duration,
	limit int,
) ([]store.Work, error) {
	defer m.measure(&ctx, "take_over", "take_over")()
	return m.PerDatabase.TakeOver(ctx, q, lease, limit)
}

// TakeOverWithExpiredCode implements PerDatabase.
func (m measuredPerDatabase) TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration,
	limit int,
) ([]store.Work, error) {
	defer m.measure(&ctx, "take_over", "take_over")()
	return m.PerDatabase.TakeOverWithExpiredCode(ctx, q, lease, limit)
}

// LeaseDueRefunds implements PerDatabase.
func (m measuredPerDatabase) LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	defer m.measure(&ctx, "refunds_due", "refunds_due")()
	return m.PerDatabase.LeaseDueRefunds(ctx, lease, limit)
}

// ConfirmRefund implements PerDatabase.
func (m measuredPerDatabase) ConfirmRefund(ctx context.Context, held store.AttemptID) error {
	defer m.measure(&ctx, "write", "ConfirmRefund")()
	return m.PerDatabase.ConfirmRefund(ctx, held)
}

// EndAppEventAttempt implements PerDatabase.
func (m measuredPerDatabase) EndAppEventAttempt(ctx context.Context, end store.AppEventOutcome) (bool, error) {
	defer m.measure(&ctx, "app_event_ended", "app_event_ended")()
	return m.PerDatabase.EndAppEventAttempt(ctx, end)
}

// CountHours implements PerDatabase.
func (m measuredPerDatabase) CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error) {
	defer m.measure(&ctx, "count_hours", "count_hours")()
	return m.PerDatabase.CountHours(ctx, life, keep, limit)
}

// EnsurePartitions implements PerDatabase.
func (m measuredPerDatabase) EnsurePartitions(ctx context.Context) (time.Time, error) {
	defer m.measure(&ctx, "ensure_partitions", "ensure_partitions")()
	return m.PerDatabase.EnsurePartitions(ctx)
}

// Ping implements PerDatabase.
func (m measuredPerDatabase) Ping(ctx context.Context) error {
	defer m.measure(&ctx, "ping", "ping")()
	return m.PerDatabase.Ping(ctx)
}
