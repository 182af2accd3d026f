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

// Kinds lists what [Observed] tells apart: the methods of PerDatabase and the shared reads by themselves, and all others as read and write.
var Kinds = []string{"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew", "finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping"}

// Observed returns the store with f called after each call of the database, its wait for a connection included: with the kind of the call,
// and a function that names it, for log lines. f must not block.
func Observed(db *DB, f func(kind string, name func() string, took time.Duration)) *DB {
	o := observer{f}
	return &DB{db.Dialect, observedEngine{db.Engine, o}, observedPerDatabase{db.PerDatabase, o}, db.Actions}
}

type observer struct {
	f func(kind string, name func() string, took time.Duration)
}

func (o observer) since(began time.Time, kind string) {
	o.f(kind, func() string {
		if kind == "read" || kind == "write" {
			return callerName()
		}
		return kind
	}, time.Since(began))
}

// callerName returns the method of the store that is being called, such as SendsByID: the outermost caller that is in this package.
func callerName() string {
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

type observedEngine struct {
	Engine
	observer
}

// Read implements Engine.
func (e observedEngine) Read(ctx context.Context, f func(q Tx) error) error {
	defer e.since(time.Now(), "read")
	return e.Engine.Read(ctx, f)
}

// Write implements Engine.
func (e observedEngine) Write(ctx context.Context, f func(q Tx) error) error {
	defer e.since(time.Now(), "write")
	return e.Engine.Write(ctx, f)
}

// Run implements Engine.
func (e observedEngine) Run(ctx context.Context, steps ...*Step) error {
	defer e.since(time.Now(), "write")
	return e.Engine.Run(ctx, steps...)
}

// Look implements Engine.
func (e observedEngine) Look(ctx context.Context, l gate.Look) (gate.History, error) {
	defer e.since(time.Now(), "look")
	return e.Engine.Look(ctx, l)
}

// Verification implements Engine.
func (e observedEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error) {
	defer e.since(time.Now(), "verification")
	return e.Engine.Verification(ctx, id)
}

// ReadStep implements Engine.
func (e observedEngine) ReadStep(ctx context.Context, s *Step) error {
	defer e.since(time.Now(), "read")
	return e.Engine.ReadStep(ctx, s)
}

type observedPerDatabase struct {
	PerDatabase
	observer
}

// Begin implements PerDatabase, as do the methods below.
func (n observedPerDatabase) Begin(ctx context.Context, intent store.Intent) (store.Begun, error) {
	defer n.since(time.Now(), "begin")
	return n.PerDatabase.Begin(ctx, intent)
}

// Claim implements PerDatabase.
func (n observedPerDatabase) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	defer n.since(time.Now(), "claim")
	return n.PerDatabase.Claim(ctx, c)
}

// Release implements PerDatabase.
func (n observedPerDatabase) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	defer n.since(time.Now(), "release")
	return n.PerDatabase.Release(ctx, key, id, forget)
}

// Refused implements PerDatabase.
func (n observedPerDatabase) Refused(ctx context.Context, refusals []store.Row) error {
	defer n.since(time.Now(), "refused")
	return n.PerDatabase.Refused(ctx, refusals)
}

// Check implements PerDatabase.
func (n observedPerDatabase) Check(ctx context.Context, c store.CheckRequest) (store.Checked, error) {
	defer n.since(time.Now(), "check")
	return n.PerDatabase.Check(ctx, c)
}

// Renew implements PerDatabase.
func (n observedPerDatabase) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	defer n.since(time.Now(), "renew")
	return n.PerDatabase.Renew(ctx, lease, held)
}

// Finish implements PerDatabase.
func (n observedPerDatabase) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	defer n.since(time.Now(), "finish")
	return n.PerDatabase.Finish(ctx, outcome)
}

// Postpone implements PerDatabase.
func (n observedPerDatabase) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	defer n.since(time.Now(), "postpone")
	return n.PerDatabase.Postpone(ctx, p)
}

// TakeOver implements PerDatabase.
func (n observedPerDatabase) TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer n.since(time.Now(), "take_over")
	return n.PerDatabase.TakeOver(ctx, q, lease, limit)
}

// TakeOverExpired implements PerDatabase.
func (n observedPerDatabase) TakeOverExpired(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	defer n.since(time.Now(), "take_over")
	return n.PerDatabase.TakeOverExpired(ctx, q, lease, limit)
}

// RefundsDue implements PerDatabase.
func (n observedPerDatabase) RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	defer n.since(time.Now(), "refunds_due")
	return n.PerDatabase.RefundsDue(ctx, lease, limit)
}

// AppEventEnded implements PerDatabase.
func (n observedPerDatabase) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	defer n.since(time.Now(), "app_event_ended")
	return n.PerDatabase.AppEventEnded(ctx, end)
}

// CountHours implements PerDatabase.
func (n observedPerDatabase) CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error) {
	defer n.since(time.Now(), "count_hours")
	return n.PerDatabase.CountHours(ctx, life, keep, limit)
}

// EnsurePartitions implements PerDatabase.
func (n observedPerDatabase) EnsurePartitions(ctx context.Context) (time.Time, error) {
	defer n.since(time.Now(), "ensure_partitions")
	return n.PerDatabase.EnsurePartitions(ctx)
}

// Ping implements PerDatabase.
func (n observedPerDatabase) Ping(ctx context.Context) error {
	defer n.since(time.Now(), "ping")
	return n.PerDatabase.Ping(ctx)
}
