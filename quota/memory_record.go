package quota

import (
	"context"
	"time"
)

// Record adds events from elsewhere to the bucket; see [Limiter].
func (m *Memory) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	return m.Restore(ctx, History{Bucket: bucket, Keep: keep, Events: events})
}

// Restore adds all events that a log has of the bucket; see [Limiter]. If the history has an Epoch, it marks the bucket as complete for
// that epoch; if events were missing and DoubtFor is set, it marks it as in doubt instead.
func (m *Memory) Restore(_ context.Context, h History) error {
	if err := checkRecord(h.Bucket, h.Keep, h.Events); err != nil {
		return err
	}
	return m.updateEach([]string{h.Bucket}, func(name string, now int64) {
		b := m.findOrAdd(name, now)
		b.prune(now, h.Keep) // Take never prunes a bucket that it does not count in
		had, lacked := b.record(h, now)
		switch {
		case lacked && h.DoubtFor > 0:
			b.mark = completeness{doubtUntil: now + h.DoubtFor.Microseconds()}
		case h.Epoch != "" && (h.DoubtFor == 0 || had && b.mark.doubtUntil <= now):
			b.mark = completeness{epoch: h.Epoch, covers: h.Keep}
			b.expiresAt = max(b.expiresAt, now+h.Keep.Microseconds())
		}
		b.setExpiry(h.Keep)
	})
}

// record adds the events that still count and are not refunded. had: the bucket already had at least one of them; lacked: at least
// one was missing.
func (b *bucket) record(h History, now int64) (had, lacked bool) {
	for _, e := range h.Events {
		at := e.At.UnixMicro()
		if at <= now-h.Keep.Microseconds() || b.refunded(e.ID, now) {
			continue
		}
		counted, known := b.instantOf(e.ID)
		had, lacked = had || known, lacked || !known
		if !known || counted < at {
			b.add(e.ID, at)
		}
	}
	return had, lacked
}

// incomplete returns the scopes of Request.Logged whose buckets are not marked as complete, each with its epoch; nil if all are.
func (m *Memory) incomplete(p plan, now int64) (scopes map[Scope]string) {
	for i, a := range p.checks {
		if a.scope == "" || m.find(p.buckets[i], now).complete(a) {
			continue
		}
		if scopes == nil {
			scopes = map[Scope]string{}
		}
		scopes[a.scope] = a.epoch()
	}
	return scopes
}
