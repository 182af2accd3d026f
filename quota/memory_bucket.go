package quota

import (
	"slices"
	"time"
)

// bucket is the events of one bucket, oldest first, as a sorted set holds them. Instants are µs since 1970. Reading a
// nil bucket finds nothing.
type bucket struct {
	times []int64
	ids   []string         // of the same events
	index map[string]int64 // instant of each ID, once there are too many to look through
	gone  *refunds         // nil until there is one
	mark  mark             // that it is complete
	until int64            // from then on nothing in here counts
}

// mark says for how long a bucket has all events; the zero value: nothing is known.
type mark struct {
	life  string
	keep  time.Duration
	doubt int64 // until then it may lack events that no log has yet
}

// life differs by source alone: a limiter in process has only one, at whose beginning it is empty.
func (a ask) life() string { return "process:" + a.source }

// complete reports whether the bucket has all that is asked for.
func (b *bucket) complete(a ask) bool {
	return b != nil && b.mark.life == a.life() && b.mark.keep >= a.need
}

// indexed is the number of events above which an index is faster and worth its memory.
const indexed = 32

func (b *bucket) history() []int64 {
	if b == nil {
		return nil
	}
	return b.times
}

func (b *bucket) refunded(id string, now int64) bool {
	return b != nil && b.gone != nil && b.gone.until[id] > now
}

// counts reports whether the longest window counts the ID.
func (b *bucket) counts(id string, now int64, keep time.Duration) bool {
	if b == nil {
		return false
	}
	at, ok := b.at(id)
	return ok && at > now-keep.Microseconds()
}

func (b *bucket) at(id string) (int64, bool) {
	if b.index != nil {
		at, ok := b.index[id]
		return at, ok
	}
	if i := slices.Index(b.ids, id); i >= 0 {
		return b.times[i], true
	}
	return 0, false
}

// add counts the event from at.
func (b *bucket) add(id string, at int64) {
	b.remove(id)
	i, _ := slices.BinarySearch(b.times, at+1)
	b.times = slices.Insert(b.times, i, at)
	b.ids = slices.Insert(b.ids, i, id)
	if b.index != nil {
		b.index[id] = at
	} else if len(b.ids) > indexed {
		b.index = make(map[string]int64, 2*indexed)
		for i, id := range b.ids {
			b.index[id] = b.times[i]
		}
	}
}

// prune forgets what can count no more, and that the bucket had it.
func (b *bucket) prune(now int64, keep time.Duration) {
	b.mark.keep = min(b.mark.keep, keep)
	old, _ := slices.BinarySearch(b.times, now-keep.Microseconds()+1)
	for _, id := range b.ids[:old] {
		delete(b.index, id)
	}
	clear(b.ids[:old]) // the array lives on until append needs a larger one
	b.times, b.ids = b.times[old:], b.ids[old:]
	if b.gone != nil {
		b.gone.prune(now)
	}
}

func (b *bucket) remove(id string) {
	at, ok := b.at(id)
	if !ok {
		return
	}
	i, _ := slices.BinarySearch(b.times, at)
	i += slices.Index(b.ids[i:], id) // among those of the same µs
	b.times = slices.Delete(b.times, i, i+1)
	b.ids = slices.Delete(b.ids, i, i+1)
	delete(b.index, id)
}

func (b *bucket) refund(id string, now int64) {
	b.remove(id)
	if b.gone == nil {
		b.gone = &refunds{until: map[string]int64{}}
	}
	b.gone.prune(now)
	b.gone.add(id, now+tombstone.Microseconds())
	b.settle(0)
}

func (b *bucket) reset() {
	b.times, b.ids, b.index = nil, nil, nil
	if b.mark.doubt == 0 {
		b.mark = mark{}
	}
	b.settle(0)
}

// settle lets the bucket live as long as anything in it: never shorter than before while it holds events or a mark, else
// exactly as long as its last refunded ID. keep is the longest window, 0 to leave the events' time as it is.
func (b *bucket) settle(keep time.Duration) {
	if last := len(b.times) - 1; last >= 0 {
		b.until = max(b.until, b.times[last]+keep.Microseconds())
	} else if b.mark.keep == 0 && b.mark.doubt == 0 {
		b.until = 0
	}
	if b.gone != nil {
		b.until = max(b.until, b.gone.last)
	}
}

// refunds are the IDs that were refunded a short while ago.
type refunds struct {
	until map[string]int64 // until when they stay so
	order []string         // oldest first; one that was refunded again is in here again
	last  int64            // the latest of until
}

func (r *refunds) add(id string, until int64) {
	r.until[id] = until
	r.order = append(r.order, id)
	r.last = max(r.last, until)
}

func (r *refunds) prune(now int64) {
	for len(r.order) > 0 && r.until[r.order[0]] <= now {
		delete(r.until, r.order[0])
		r.order = r.order[1:]
	}
}
