package quota

import (
	"context"
	"time"
)

// Record writes history found elsewhere; see [Limiter].
func (m *Memory) Record(_ context.Context, bucket string, keep time.Duration, events []Event) error {
	return m.write(History{Bucket: bucket, Keep: keep, Events: events})
}

// Restore writes all that a log has and marks the bucket as complete; see [Limiter]. A process has one life.
func (m *Memory) Restore(_ context.Context, h History) error {
	return m.write(h)
}

// write marks the bucket if the history names the life that it was read for.
func (m *Memory) write(h History) error {
	if err := checkRecord(h.Bucket, h.Keep, h.Events); err != nil {
		return err
	}
	return m.each([]string{h.Bucket}, func(name string, now int64) {
		b := m.open(name, now)
		b.prune(now, h.Keep) // no Take does where a bucket is only looked at
		had, lacked := b.record(h, now)
		switch {
		case lacked && h.Settle > 0:
			b.mark = mark{doubt: now + h.Settle.Microseconds()}
		case h.Life != "" && (h.Settle == 0 || had && b.mark.doubt <= now):
			b.mark = mark{life: h.Life, keep: h.Keep}
			b.until = max(b.until, now+h.Keep.Microseconds())
		}
		b.settle(h.Keep)
	})
}

// record adds the events, and says whether the bucket had one of them, and whether it lacked one.
func (b *bucket) record(h History, now int64) (had, lacked bool) {
	for _, e := range h.Events {
		at := e.At.UnixMicro()
		if at <= now-h.Keep.Microseconds() || b.refunded(e.ID, now) {
			continue
		}
		counted, known := b.at(e.ID)
		had, lacked = had || known, lacked || !known
		if !known || counted < at {
			b.add(e.ID, at)
		}
	}
	return had, lacked
}

// incomplete are the scopes that are asked for whose buckets may lack events.
func (m *Memory) incomplete(p plan, now int64) (scopes map[Scope]string) {
	for i, a := range p.asks {
		if a.scope == "" || m.find(p.buckets[i], now).complete(a) {
			continue
		}
		if scopes == nil {
			scopes = map[Scope]string{}
		}
		scopes[a.scope] = a.life()
	}
	return scopes
}
