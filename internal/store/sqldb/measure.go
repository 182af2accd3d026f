package sqldb

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

// CallKinds are the kinds of calls that an Observer distinguishes: one for each method of PerDatabase
// (one for both TakeOver methods), one for ReadHistory (look), one for Verification, else read or write.
var CallKinds = []string{"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew",
	"finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping"}

// Observer is called for each call of the database. Its methods must not block.
type Observer interface {
	// Began is called with the kind of a call, and returns the context in which the call goes on.
	Began(ctx context.Context, kind string) context.Context
	// Ended is called with that context and how long the call took, including its wait for a
	// connection. name returns the call's name; it may be used only until Ended returns.
	Ended(ctx context.Context, kind string, name func() string, took time.Duration)
}

// WithObserver returns the store with an observer of each call.
func WithObserver(db *DB, told Observer) *DB {
	o := observer{told}
	return &DB{db.Dialect, measuredEngine{db.Engine, o}, measuredPerDatabase{db.PerDatabase, o}, db.Actions}
}

type observer struct{ told Observer }

func (o observer) begin(ctx context.Context, kind string) (context.Context, time.Time) {
	return o.told.Began(ctx, kind), time.Now()
}

func (o observer) end(ctx context.Context, began time.Time, kind string) {
	o.told.Ended(ctx, kind, func() string {
		if kind == "read" || kind == "write" {
			return calledMethod()
		}
		return kind
	}, time.Since(began))
}

// calledMethod returns the name of the store's method that is being called, such as SendsByID: the
// outermost caller in this package.
func calledMethod() string {
	pcs := make([]uintptr, 32)
	frames, name := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)]), ""
	for {
		f, more := frames.Next()
		if _, method, ok := strings.Cut(f.Function, "internal/store/sqldb.(*DB)."); ok {
			name, _, _ = strings.Cut(method, ".")
		}
		if !more {
			return name
		}
	}
}

type measuredEngine struct {
	Engine
	observer
}

// Read implements Engine.
func (e measuredEngine) Read(ctx context.Context, f func(q Tx) error) error {
	ctx, began := e.begin(ctx, "read")
	defer e.end(ctx, began, "read")
	return e.Engine.Read(ctx, f)
}

// Write implements Engine.
func (e measuredEngine) Write(ctx context.Context, f func(q Tx) error) error {
	ctx, began := e.begin(ctx, "write")
	defer e.end(ctx, began, "write")
	return e.Engine.Write(ctx, f)
}

// Run implements Engine.
func (e measuredEngine) Run(ctx context.Context, steps ...*Statement) error {
	ctx, began := e.begin(ctx, "write")
	defer e.end(ctx, began, "write")
	return e.Engine.Run(ctx, steps...)
}

// ReadHistory implements Engine.
func (e measuredEngine) ReadHistory(ctx context.Context, l gate.HistoryQuery) (gate.History, error) {
	ctx, began := e.begin(ctx, "look")
	defer e.end(ctx, began, "look")
	return e.Engine.ReadHistory(ctx, l)
}

// Verification implements Engine.
func (e measuredEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send,
	time.Time, error) {
	ctx, began := e.begin(ctx, "verification")
	defer e.end(ctx, began, "verification")
	return e.Engine.Verification(ctx, id)
}

// ReadShared implements Engine.
func (e measuredEngine) ReadShared(ctx context.Context, s *Statement) error {
	ctx, began := e.begin(ctx, "read")
	defer e.end(ctx, began, "read")
	return e.Engine.ReadShared(ctx, s)
}

type measuredPerDatabase struct {
	PerDatabase
	observer
}

// Begin implements PerDatabase, as do the methods below.
func (n measuredPerDatabase) Begin(ctx context.Context, intent store.Intent) (store.BeginAnswer, error) {
	ctx, began := n.begin(ctx, "begin")
	defer n.end(ctx, began, "begin")
	return n.PerDatabase.Begin(ctx, intent)
}

// ClaimIdempotencyKey implements PerDatabase.
func (n measuredPerDatabase) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	ctx, began := n.begin(ctx, "claim")
	defer n.end(ctx, began, "claim")
	return n.PerDatabase.ClaimIdempotencyKey(ctx, c)
}

// ReleaseIdempotencyKey implements PerDatabase.
func (n measuredPerDatabase) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	ctx, began := n.begin(ctx, "release")
	defer n.end(ctx, began, "release")
	return n.PerDatabase.ReleaseIdempotencyKey(ctx, key, id, forget)
}

// RecordRefusals implements PerDatabase.
func (n measuredPerDatabase) RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error {
	ctx, began := n.begin(ctx, "refused")
	defer n.end(ctx, began, "refused")
	return n.PerDatabase.RecordRefusals(ctx, refusals)
}

// Check implements PerDatabase.
func (n measuredPerDatabase) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	ctx, began := n.begin(ctx, "check")
	defer n.end(ctx, began, "check")
	return n.PerDatabase.Check(ctx, c)
}

// RenewLeases implements PerDatabase.
func (n measuredPerDatabase) RenewLeases(ctx context.Context, lease time.Duration, held []store.AttemptID) error {
	ctx, began := n.begin(ctx, "renew")
	defer n.end(ctx, began, "renew")
	return n.PerDatabase.RenewLeases(ctx, lease, held)
}

// Finish implements PerDatabase.
func (n measuredPerDatabase) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	ctx, began := n.begin(ctx, "finish")
	defer n.end(ctx, began, "finish")
	return n.PerDatabase.Finish(ctx, outcome)
}

// Postpone implements PerDatabase.
func (n measuredPerDatabase) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	ctx, began := n.begin(ctx, "postpone")
	defer n.end(ctx, began, "postpone")
	return n.PerDatabase.Postpone(ctx, p)
}

// TakeOver implements PerDatabase.
func (n measuredPerDatabase) TakeOver(ctx context.Context, q store.Queue, lease time.Duration,
	limit int) ([]store.Work, error) {
	ctx, began := n.begin(ctx, "take_over")
	defer n.end(ctx, began, "take_over")
	return n.PerDatabase.TakeOver(ctx, q, lease, limit)
}

// TakeOverWithExpiredCode implements PerDatabase.
func (n measuredPerDatabase) TakeOverWithExpiredCode(ctx context.Context, q store.Queue, lease time.Duration,
	limit int) ([]store.Work, error) {
	ctx, began := n.begin(ctx, "take_over")
	defer n.end(ctx, began, "take_over")
	return n.PerDatabase.TakeOverWithExpiredCode(ctx, q, lease, limit)
}

// LeaseDueRefunds implements PerDatabase.
func (n measuredPerDatabase) LeaseDueRefunds(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	ctx, began := n.begin(ctx, "refunds_due")
	defer n.end(ctx, began, "refunds_due")
	return n.PerDatabase.LeaseDueRefunds(ctx, lease, limit)
}

// EndAppEventAttempt implements PerDatabase.
func (n measuredPerDatabase) EndAppEventAttempt(ctx context.Context, end store.AppEventAttemptEnd) (bool, error) {
	ctx, began := n.begin(ctx, "app_event_ended")
	defer n.end(ctx, began, "app_event_ended")
	return n.PerDatabase.EndAppEventAttempt(ctx, end)
}

// CountHours implements PerDatabase.
func (n measuredPerDatabase) CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error) {
	ctx, began := n.begin(ctx, "count_hours")
	defer n.end(ctx, began, "count_hours")
	return n.PerDatabase.CountHours(ctx, life, keep, limit)
}

// EnsurePartitions implements PerDatabase.
func (n measuredPerDatabase) EnsurePartitions(ctx context.Context) (time.Time, error) {
	ctx, began := n.begin(ctx, "ensure_partitions")
	defer n.end(ctx, began, "ensure_partitions")
	return n.PerDatabase.EnsurePartitions(ctx)
}

// Ping implements PerDatabase.
func (n measuredPerDatabase) Ping(ctx context.Context) error {
	ctx, began := n.begin(ctx, "ping")
	defer n.end(ctx, began, "ping")
	return n.PerDatabase.Ping(ctx)
}
