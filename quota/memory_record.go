package quota

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Record adds events from elsewhere to the bucket; see [Limiter].
func (m *Memory) Record(ctx context.Context, bucket string, keep time.Duration, events []Event) error {
	return m.Restore(ctx, History{Bucket: bucket, Keep: keep, Events: events})
}

// Restore adds all events that a log has of the bucket; see [Limiter]. If the history has an Epoch, it takes out what the log lacks and
// marks the bucket as complete for that epoch; if events were missing and DoubtFor is set, it marks it as in doubt instead.
func (m *Memory) Restore(_ context.Context, h History) error {
	if err := checkRecord(h.Bucket, h.Keep, h.Events); err != nil {
		return err
	}
	epoch := parseEpoch(h.Epoch)
	if len(h.Events) == 0 && epoch == 0 {
		return nil
	}
	d, since, before := divisionOf(h.Bucket, h.Mapping, h.Ahead), int64(0), int64(0)
	defer m.lock(d.keys([]string{h.Bucket}))()
	now := m.now().UnixMicro()
	if d.family != "" {
		since, before = m.claim(d, h.Keep, now)
	}
	b := m.findOrAdd(h.Bucket, now)
	b.bringBack(now)
	b.prune(now, h.Keep) // Take never prunes a bucket that it does not count in
	had, lacked := b.record(h, now)
	foreign := b.takeOut(h)
	switch {
	case lacked && h.DoubtFor > 0:
		b.mark = completeness{doubtUntil: now + h.DoubtFor.Microseconds()}
	case epoch > 0 && !foreign && since <= now-h.DoubtFor.Microseconds() && (h.DoubtFor == 0 || had && b.mark.doubtUntil <= now):
		b.mark = completeness{epoch: modulo(epoch-1+since-before) + 1, covers: h.Keep}
		b.expiresAt = max(b.expiresAt, now+h.Keep.Microseconds())
	}
	b.setExpiry(h.Keep)
	return nil
}

// record adds the events that still count and were not refunded since. had: the bucket already had at least one of them; lacked: at least
// one was missing.
func (b *bucket) record(h History, now int64) (had, lacked bool) {
	for _, e := range h.Events {
		at := min(e.At.UnixMicro(), now)
		counted, known := b.instantOf(e.ID)
		skew, old := h.Skew.Microseconds(), at <= now-h.Keep.Microseconds()
		moves := !known || counted < at || skew > 0 && counted-at > skew
		switch {
		case old && moves:
			b.remove(e.ID)
		case old || b.refunded(e.ID, now) && at <= b.refunds.until[e.ID]-tombstone.Microseconds():
		default:
			had, lacked = had || known, lacked || !known
			if moves {
				b.add(e.ID, at)
			}
		}
	}
	return had, lacked
}

// takeOut removes the events that the log lacks and that it must have by now. foreign: younger ones are left.
func (b *bucket) takeOut(h History) (foreign bool) {
	settled := h.settled()
	if settled == 0 {
		return false
	}
	for _, id := range slices.Clone(b.ids) {
		if slices.ContainsFunc(h.Events, func(e Event) bool { return e.ID == id }) {
			continue
		}
		if at, _ := b.instantOf(id); at > settled {
			foreign = true
		} else {
			b.remove(id)
		}
	}
	return foreign
}

// incomplete returns the scopes of Request.Logged whose buckets are not marked as complete, each with its epoch; nil if all are.
func (m *Memory) incomplete(p plan, now int64) (scopes map[Scope]string) {
	for i, a := range p.checks {
		number, own := p.clocks, true
		if a.inFamily {
			number, own = m.readFamily(p.division, now)
		}
		epoch := modulo(number) + 1 // a process is one run of the server, at whose start all buckets are empty
		if a.scope == "" || own && m.find(p.buckets[i], now).complete(a.need, epoch) {
			continue
		}
		if scopes == nil {
			scopes = map[Scope]string{}
		}
		scopes[a.scope] = strconv.FormatInt(epoch, 10)
	}
	return scopes
}
