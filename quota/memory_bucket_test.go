package quota

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// Every third ID is taken twice, every fifth refunded, in buckets on both sides of the size from which there is an index.
func TestMemoryKnowsItsIDsInSmallAndLargeBuckets(t *testing.T) {
	for _, size := range []int{indexed - 1, indexed, indexed + 1, 3 * indexed} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w, r := memoryWorld(t), sliding(Recipient, MaxLimit, time.Hour)
			for i := range size {
				w.takeID(strconv.Itoa(i), r)
				w.pass(time.Duration(i%2) * µs) // two in each µs
			}
			want := size
			for i := range size {
				if i%3 == 0 {
					same(t, "used after a repetition", w.takeID(strconv.Itoa(i), r).Rules[0].Used, want)
				}
				if i%5 == 0 {
					must(t, w.Refund(t.Context(), strconv.Itoa(i), ann()))
					want--
				}
			}
			for i := range size {
				if i%5 != 0 {
					same(t, "used after the others were refunded", w.takeID(strconv.Itoa(i), r).Rules[0].Used, want)
				}
			}
			_, n := w.kept()
			same(t, "events", n, want)
			w.pass(time.Minute)
			for i := range size {
				w.takeID(strconv.Itoa(i), r) // the refunded ones are new again
			}
			_, n = w.kept()
			same(t, "events", n, size)
			must(t, w.Refund(t.Context(), "0", ann())) // the bucket lives on by it
			must(t, w.Reset(t.Context(), ann()))
			same(t, "used after a reset", w.takeID("1", r).Rules[0].Used, 1)
		})
	}
}

func TestMemoryKnowsItsIDsInABucketThatHasShrunk(t *testing.T) {
	w, r := memoryWorld(t), sliding(Recipient, MaxLimit, time.Minute)
	for range 2 * indexed {
		w.take(r)
	}
	w.pass(30 * time.Second)
	w.takeID("half", r)
	w.pass(30 * time.Second)
	w.takeID("last", r)
	same(t, "used", w.takeID("half", r).Rules[0].Used, 2)
	same(t, "used", w.takeID("last", r).Rules[0].Used, 2)
}

func TestMemoryForgetsRefunds(t *testing.T) {
	w, r := memoryWorld(t), sliding(Recipient, 1, time.Hour)
	w.take(r)
	for range 600 {
		id := w.id()
		must(t, w.Refund(t.Context(), id, ann()))
		must(t, w.Refund(t.Context(), id, ann()))
		w.pass(time.Second)
	}
	gone := w.Limiter.(*Memory).find(ann(), w.now.UnixMicro()).gone
	same(t, "refunds that are remembered", len(gone.until), 60)
	same(t, "calls that are remembered", len(gone.order), 120)
	w.pass(2 * time.Minute)
	w.admits(true, sliding(Recipient, 2, time.Hour))
	sameList(t, "remembered after a take", []int{len(gone.until), len(gone.order)}, []int{0, 0})
}

func TestMemoryKeepsABucketAsLongAsAnythingInIt(t *testing.T) {
	w := memoryWorld(t)
	kept := func() time.Duration { // from now on
		b := w.Limiter.(*Memory).find(ann(), w.now.UnixMicro())
		if b == nil {
			return 0
		}
		return instant(b.until).Sub(w.now)
	}
	w.takeID("one", sliding(Recipient, 9, time.Minute), sliding(Recipient, 9, time.Hour))
	same(t, "longest window", kept(), time.Hour)
	w.takeID("two", sliding(Recipient, 9, time.Minute))
	same(t, "not shortened by a take", kept(), time.Hour)
	must(t, w.Record(t.Context(), ann(), 2*time.Hour, []Event{{"three", w.now.Add(time.Second)}}))
	same(t, "lengthened by a record", kept(), 2*time.Hour+time.Second)
	must(t, w.Refund(t.Context(), "one", ann()))
	same(t, "not shortened by a refund", kept(), 2*time.Hour+time.Second)
	w.pass(time.Second)
	must(t, w.Reset(t.Context(), ann()))
	same(t, "until the refund is forgotten", kept(), tombstone-time.Second)
	w.pass(time.Hour)
	w.takeID("four", defaults...)
	must(t, w.Refund(t.Context(), "four", ann()))
	same(t, "until the refund is forgotten", kept(), tombstone)
	w.pass(tombstone + µs)
	w.takeID("five", defaults...)
	must(t, w.Reset(t.Context(), ann()))
	same(t, "empty", kept(), 0)
}
