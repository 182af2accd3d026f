package quota

import (
	"slices"
	"time"
)

// bucket has its events sorted, oldest first. Instants are µs since 1970. A nil bucket is an empty
// one.
type bucket struct {
	times     []int64
	ids       []string         // ids[i] is the ID of the event at times[i]
	index     map[string]int64 // instants by ID; nil until the bucket had more than indexedAbove events
	refunds   *tombstones      // nil: none
	expiresAt int64            // from then on no event counts, and a sweep may delete the bucket
}

// clampToNow moves events that lie in the future, since the clock was set back, to now. The
// bucket's expiry moves back by as much as its newest event, but not to before its tombstones end.
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

const indexedAbove = 32

func (b *bucket) eventTimes() []int64 {
	if b == nil {
		return nil
	}
	return b.times
}

func (b *bucket) refunded(id string, now int64) bool {
	return b != nil && b.refunds != nil && b.refunds.until[id] > now
}

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

// add replaces an event or tombstone with the same ID.
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
	i += slices.Index(b.ids[i:], id) // several events can have the same instant
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

const resetMark = "" // the ID of the tombstone that marks a reset; no event has it

func (b *bucket) reset(now int64) {
	b.times, b.ids, b.index = nil, nil, nil
	b.refund(resetMark, now)
}

// resetUntil returns the instant up to which Record ignores events: resetSlack after a recent
// reset, otherwise 0.
func (b *bucket) resetUntil(now int64) int64 {
	if !b.refunded(resetMark, now) {
		return 0
	}
	return b.refunds.until[resetMark] - (tombstoneLife - resetSlack).Microseconds()
}

// setExpiry makes the bucket expire when its newest event gets as old as keep, but not before its
// last tombstone ends. While there are events, it only moves the expiry to a later instant.
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

type tombstones struct {
	until map[string]int64 // by ID
	order []string         // oldest refund first; an ID that was refunded twice appears twice
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
