package quota

import (
	"slices"
	"time"
)

// bucket is one bucket of a Memory. The events are sorted, oldest first. Instants are µs since
// 1970. A nil bucket counts as an empty bucket.
type bucket struct {
	times     []int64
	ids       []string         // ids[i] is the ID of the event at times[i]
	index     map[string]int64 // instant of each ID; nil until the bucket had more than indexedAbove events
	refunds   *tombstones      // nil without refunds
	expiresAt int64            // from this instant on no event counts, and a sweep may delete the bucket
}

// clampToNow moves each event that lies in the future to the instant in the parameter now. Events
// lie in the future if the clock was set back. The expiry of the bucket moves back by as much as
// the newest event moves. But the bucket does not expire before its tombstones, the marks of
// refunds and resets, have ended.
func (b *bucket) clampToNow(now int64) {
	times := b.eventTimes()
	last := len(times) - 1
	if last < 0 || times[last] <= now {
		return
	}
	b.expiresAt -= times[last] - now
	for i := last; i >= 0 && times[i] > now; i-- {
		times[i] = now
		if b.index != nil {
			b.index[b.ids[i]] = now
		}
	}
	b.setExpiry(0)
}

// indexedAbove is the number of events above which a bucket has an index by ID.
const indexedAbove = 32

// eventTimes returns the instants of the events, oldest first.
func (b *bucket) eventTimes() []int64 {
	if b == nil {
		return nil
	}
	return b.times
}

// refunded reports whether the bucket has a tombstone of the ID, and the tombstone has not ended.
func (b *bucket) refunded(id string, now int64) bool {
	return b != nil && b.refunds != nil && b.refunds.until[id] > now
}

// countsID reports whether the bucket has an event with the ID that is younger than keep.
func (b *bucket) countsID(id string, now int64, keep time.Duration) bool {
	if b == nil {
		return false
	}
	at, ok := b.instantOf(id)
	return ok && at > now-keep.Microseconds()
}

func (b *bucket) instantOf(id string) (int64, bool) {
	if b.index != nil {
		at, ok := b.index[id]
		return at, ok
	}
	if i := slices.Index(b.ids, id); i >= 0 {
		return b.times[i], true
	}
	return 0, false
}

// add inserts the event at its instant; it replaces an event or tombstone with the same ID.
func (b *bucket) add(id string, at int64) {
	b.remove(id)
	if b.refunds != nil {
		delete(b.refunds.until, id)
	}
	i, _ := slices.BinarySearch(b.times, at+1)
	b.times = slices.Insert(b.times, i, at)
	b.ids = slices.Insert(b.ids, i, id)
	if b.index != nil {
		b.index[id] = at
	} else if len(b.ids) > indexedAbove {
		b.index = make(map[string]int64, 2*indexedAbove)
		for i, id := range b.ids {
			b.index[id] = b.times[i]
		}
	}
}

// prune deletes events older than keep and tombstones that have ended.
func (b *bucket) prune(now int64, keep time.Duration) {
	old, _ := slices.BinarySearch(b.times, now-keep.Microseconds()+1)
	for _, id := range b.ids[:old] {
		delete(b.index, id)
	}
	clear(b.ids[:old]) // frees the strings: the array stays until append needs a larger one
	b.times, b.ids = b.times[old:], b.ids[old:]
	if b.refunds != nil {
		b.refunds.prune(now)
	}
}

func (b *bucket) remove(id string) {
	at, ok := b.instantOf(id)
	if !ok {
		return
	}
	i, _ := slices.BinarySearch(b.times, at)
	i += slices.Index(b.ids[i:], id) // several events may have the same µs
	b.times = slices.Delete(b.times, i, i+1)
	b.ids = slices.Delete(b.ids, i, i+1)
	delete(b.index, id)
}

func (b *bucket) refund(id string, now int64) {
	b.remove(id)
	if b.refunds == nil {
		b.refunds = &tombstones{until: map[string]int64{}}
	}
	b.refunds.prune(now)
	b.refunds.add(id, now+tombstoneLife.Microseconds())
	b.setExpiry(0)
}

// resetMark is the ID of the tombstone that marks a reset. No event has this ID.
const resetMark = ""

func (b *bucket) reset(now int64) {
	b.times, b.ids, b.index = nil, nil, nil
	b.refund(resetMark, now)
}

// resetUntil returns the instant that is resetSlack after the last reset, or 0 if there was no
// recent reset. Record ignores events whose time is not later than this instant.
func (b *bucket) resetUntil(now int64) int64 {
	if !b.refunded(resetMark, now) {
		return 0
	}
	return b.refunds.until[resetMark] - (tombstoneLife - resetSlack).Microseconds()
}

// setExpiry sets when the bucket expires. The bucket expires when the age of its newest event
// reaches the duration in the parameter keep, but not before its last tombstone ends. While the
// bucket has events, setExpiry only moves the expiry to a later instant.
func (b *bucket) setExpiry(keep time.Duration) {
	if last := len(b.times) - 1; last >= 0 {
		b.expiresAt = max(b.expiresAt, b.times[last]+keep.Microseconds())
	} else {
		b.expiresAt = 0
	}
	if b.refunds != nil {
		b.expiresAt = max(b.expiresAt, b.refunds.last)
	}
}

// tombstones are the tombstones of a bucket.
type tombstones struct {
	until map[string]int64 // end of each ID's tombstone
	order []string         // IDs, oldest refund first; an ID that was refunded twice appears twice
	last  int64            // the latest end
}

func (t *tombstones) add(id string, until int64) {
	t.until[id] = until
	t.order = append(t.order, id)
	t.last = max(t.last, until)
}

func (t *tombstones) prune(now int64) {
	for len(t.order) > 0 && t.until[t.order[0]] <= now {
		delete(t.until, t.order[0])
		t.order = t.order[1:]
	}
}
