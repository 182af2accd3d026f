package quota

import (
	"context"
	"slices"
	"time"
)

// Events returns the newest events of the bucket; see [Limiter].
func (m *Memory) Events(_ context.Context, bucket string) ([]Event, time.Time, error) {
	if err := checkBuckets([]string{bucket}); err != nil {
		return nil, time.Time{}, err
	}
	defer m.lock([]string{bucket})()
	now := m.now().UnixMicro()
	b := m.find(bucket, now)
	events := make([]Event, 0, min(len(b.eventTimes()), MaxEvents))
	for i, at := range slices.Backward(b.eventTimes()) {
		if len(events) < MaxEvents {
			events = append(events, Event{b.ids[i], microsToTime(min(at, now))})
		}
	}
	return events, microsToTime(now), nil
}

// Record sets the instants of events in the bucket; see [Limiter].
func (m *Memory) Record(_ context.Context, bucket string, keep time.Duration, events []Event) error {
	if err := checkRecord(bucket, keep, events); err != nil || len(events) == 0 {
		return err
	}
	defer m.lock([]string{bucket})()
	now := m.now().UnixMicro()
	b := m.findOrAdd(bucket, now)
	b.clampToNow(now)
	b.prune(now, keep) // Take never prunes a bucket that it does not count in
	for _, e := range events {
		at := min(e.At.UnixMicro(), now)
		switch {
		case at <= now-keep.Microseconds():
			b.remove(e.ID)
		case !b.refunded(e.ID, now) || at > b.refunds.until[e.ID]-tombstoneLife.Microseconds():
			b.add(e.ID, at)
		}
	}
	b.setExpiry(keep)
	return nil
}
