package rig

import (
	"context"
	"fmt"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/store"
	"sendcode/quota"
)

// counted is a limiter that notes what it is asked.
type Counted struct {
	gates.Limiter
	Calls *[]string
}

func (c Counted) note(call string) { *c.Calls = append(*c.Calls, call) }

func (c Counted) Take(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("take")
	return c.Limiter.Take(ctx, r)
}

func (c Counted) Peek(ctx context.Context, r quota.Request) (quota.Decision, error) {
	c.note("peek")
	return c.Limiter.Peek(ctx, r)
}

func (c Counted) Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error {
	c.note("record")
	return c.Limiter.Record(ctx, bucket, keep, events)
}

func (c Counted) Restore(ctx context.Context, h quota.History) error {
	c.note(fmt.Sprintf("restore %d", len(h.Events)))
	return c.Limiter.Restore(ctx, h)
}

// countedLog is a log that notes what it is asked of recipients' events.
type CountedLog struct {
	*Away
	Calls *[]string
}

func (c CountedLog) Begin(ctx context.Context, in store.Intent) (store.Begun, error) {
	*c.Calls = append(*c.Calls, "begin")
	return c.Away.Begin(ctx, in)
}

func (c CountedLog) History(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.Away.History(ctx, b, within)
}

func (c CountedLog) HistoryAt(ctx context.Context, b store.Bucket, within time.Duration, clock string,
	at time.Time) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "history")
	return c.Away.HistoryAt(ctx, b, within, clock, at)
}

func (c CountedLog) Rejected(ctx context.Context, b store.Bucket, within time.Duration) ([]quota.Event, time.Time, error) {
	*c.Calls = append(*c.Calls, "rejected")
	return c.Away.Rejected(ctx, b, within)
}
