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

// Kinds lists what [Observed] tells apart: the methods of Native and the shared reads by themselves, and all others as read and write.
var Kinds = []string{"read", "write", "look", "verification", "claim", "release", "begin", "refused", "check", "renew", "finish", "postpone", "take_over", "refunds_due",
	"app_event_ended", "count_hours", "ensure_partitions", "ping"}

// Observer is told of each call of the database. Its methods must not block.
type Observer interface {
	// Began is called with the kind of a call, and returns the context in which the call goes on.
	Began(ctx context.Context, kind string) context.Context
	// Ended is called with that context and how long the call took, its wait for a connection included. name returns what to call it, during
	// Ended alone.
	Ended(ctx context.Context, kind string, name func() string, took time.Duration)
}

// Observed returns the store, of whose calls the observer is told.
func Observed(db *DB, told Observer) *DB {
	o := observer{told}
	return &DB{db.Dialect, observedEngine{db.Engine, o}, observedNative{db.Native, o}}
}

type observer struct{ told Observer }

func (o observer) begin(ctx context.Context, kind string) (context.Context, time.Time) {
	return o.told.Began(ctx, kind), time.Now()
}

func (o observer) end(ctx context.Context, began time.Time, kind string) {
	o.told.Ended(ctx, kind, func() string {
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
	ctx, began := e.begin(ctx, "read")
	defer e.end(ctx, began, "read")
	return e.Engine.Read(ctx, f)
}

// Write implements Engine.
func (e observedEngine) Write(ctx context.Context, f func(q Tx) error) error {
	ctx, began := e.begin(ctx, "write")
	defer e.end(ctx, began, "write")
	return e.Engine.Write(ctx, f)
}

// Run implements Engine.
func (e observedEngine) Run(ctx context.Context, steps ...*Step) error {
	ctx, began := e.begin(ctx, "write")
	defer e.end(ctx, began, "write")
	return e.Engine.Run(ctx, steps...)
}

// Look implements Engine.
func (e observedEngine) Look(ctx context.Context, l gate.Look) (gate.History, error) {
	ctx, began := e.begin(ctx, "look")
	defer e.end(ctx, began, "look")
	return e.Engine.Look(ctx, l)
}

// Verification implements Engine.
func (e observedEngine) Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error) {
	ctx, began := e.begin(ctx, "verification")
	defer e.end(ctx, began, "verification")
	return e.Engine.Verification(ctx, id)
}

// ReadStep implements Engine.
func (e observedEngine) ReadStep(ctx context.Context, s *Step) error {
	ctx, began := e.begin(ctx, "read")
	defer e.end(ctx, began, "read")
	return e.Engine.ReadStep(ctx, s)
}

type observedNative struct {
	Native
	observer
}

// Begin implements Native, as do the methods below.
func (n observedNative) Begin(ctx context.Context, intent store.Intent) (store.Begun, error) {
	ctx, began := n.begin(ctx, "begin")
	defer n.end(ctx, began, "begin")
	return n.Native.Begin(ctx, intent)
}

// Claim implements Native.
func (n observedNative) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	ctx, began := n.begin(ctx, "claim")
	defer n.end(ctx, began, "claim")
	return n.Native.Claim(ctx, c)
}

// Release implements Native.
func (n observedNative) Release(ctx context.Context, key [32]byte, id uuid.UUID, forget bool) error {
	ctx, began := n.begin(ctx, "release")
	defer n.end(ctx, began, "release")
	return n.Native.Release(ctx, key, id, forget)
}

// Refused implements Native.
func (n observedNative) Refused(ctx context.Context, refusals []store.Row) error {
	ctx, began := n.begin(ctx, "refused")
	defer n.end(ctx, began, "refused")
	return n.Native.Refused(ctx, refusals)
}

// Check implements Native.
func (n observedNative) Check(ctx context.Context, c store.CheckRequest) (store.Checked, error) {
	ctx, began := n.begin(ctx, "check")
	defer n.end(ctx, began, "check")
	return n.Native.Check(ctx, c)
}

// Renew implements Native.
func (n observedNative) Renew(ctx context.Context, lease time.Duration, held []store.Held) error {
	ctx, began := n.begin(ctx, "renew")
	defer n.end(ctx, began, "renew")
	return n.Native.Renew(ctx, lease, held)
}

// Finish implements Native.
func (n observedNative) Finish(ctx context.Context, outcome store.Outcome) (bool, error) {
	ctx, began := n.begin(ctx, "finish")
	defer n.end(ctx, began, "finish")
	return n.Native.Finish(ctx, outcome)
}

// Postpone implements Native.
func (n observedNative) Postpone(ctx context.Context, p store.Postponement) (bool, error) {
	ctx, began := n.begin(ctx, "postpone")
	defer n.end(ctx, began, "postpone")
	return n.Native.Postpone(ctx, p)
}

// TakeOver implements Native.
func (n observedNative) TakeOver(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	ctx, began := n.begin(ctx, "take_over")
	defer n.end(ctx, began, "take_over")
	return n.Native.TakeOver(ctx, q, lease, limit)
}

// TakeOverExpired implements Native.
func (n observedNative) TakeOverExpired(ctx context.Context, q store.Queue, lease time.Duration, limit int) ([]store.Work, error) {
	ctx, began := n.begin(ctx, "take_over")
	defer n.end(ctx, began, "take_over")
	return n.Native.TakeOverExpired(ctx, q, lease, limit)
}

// RefundsDue implements Native.
func (n observedNative) RefundsDue(ctx context.Context, lease time.Duration, limit int) ([]store.Refund, error) {
	ctx, began := n.begin(ctx, "refunds_due")
	defer n.end(ctx, began, "refunds_due")
	return n.Native.RefundsDue(ctx, lease, limit)
}

// AppEventEnded implements Native.
func (n observedNative) AppEventEnded(ctx context.Context, end store.AppEventEnd) (bool, error) {
	ctx, began := n.begin(ctx, "app_event_ended")
	defer n.end(ctx, began, "app_event_ended")
	return n.Native.AppEventEnded(ctx, end)
}

// CountHours implements Native.
func (n observedNative) CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error) {
	ctx, began := n.begin(ctx, "count_hours")
	defer n.end(ctx, began, "count_hours")
	return n.Native.CountHours(ctx, life, keep, limit)
}

// EnsurePartitions implements Native.
func (n observedNative) EnsurePartitions(ctx context.Context) (time.Time, error) {
	ctx, began := n.begin(ctx, "ensure_partitions")
	defer n.end(ctx, began, "ensure_partitions")
	return n.Native.EnsurePartitions(ctx)
}

// Ping implements Native.
func (n observedNative) Ping(ctx context.Context) error {
	ctx, began := n.begin(ctx, "ping")
	defer n.end(ctx, began, "ping")
	return n.Native.Ping(ctx)
}
