package quota

import (
	"context"
	"time"
)

// Record implements [Limiter].
func (m *Memory) Record(_ context.Context, bucket string, keep time.Duration, events []AgedEvent) error {
	if err := checkRecord(bucket, keep, events); err != nil || len(events) == 0 {
		return err
	}
	defer m.lock([]string{bucket})()
	now := m.now().UnixMicro()
	b := m.findOrAdd(bucket, now)
	b.clampToNow(now)
	b.prune(now, keep) // Take does not prune a bucket in which it does not count
	after := max(now-keep.Microseconds(), b.resetUntil(now))
	for _, e := range events {
		at := now - ceil(e.Age, time.Microsecond)
		if !e.AsOf.IsZero() {
			at -= max(0, now-e.AsOf.UnixMicro())
		}
		if known, counts := b.instantOf(e.ID); at > after && !b.refunded(e.ID, now) && (!counts || known < at) {
			b.add(e.ID, at)
			m.OnChange(Change{Bucket: bucket, ID: e.ID, At: microsToTime(at), Keep: keep})
		}
	}
	b.setExpiry(keep)
	return nil
}
