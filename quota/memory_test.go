package quota

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

func (w *world) kept() (buckets, events int) {
	m := w.Limiter.(*Memory)
	for i := range m.shards {
		buckets += len(m.shards[i].buckets)
		for _, b := range m.shards[i].buckets {
			events += len(b.times)
			same(w.t, "IDs of events", len(b.ids), len(b.times))
			if b.index != nil {
				same(w.t, "indexed events", len(b.index), len(b.times))
			}
		}
	}
	return buckets, events
}

func TestMemoryDropsBucketsThatNoRuleNeeds(t *testing.T) {
	w := memoryWorld(t)
	r := sliding(Recipient, 1, time.Minute)
	take := func(recipient string) {
		_, err := w.Take(t.Context(), Request{ID: w.id(), Rules: []Rule{r}, Buckets: buckets(recipient, "")})
		must(t, err)
	}
	const spare = 64 * shards                    // what a sweep is not worth
	for _, aMinute := range []int{10_000, 100} { // so many come in a minute: a rush, and then a few
		for i := range 30_000 {
			take(fmt.Sprint(aMinute, " ", i))
			w.pass(time.Minute / time.Duration(aMinute))
			if i%1000 != 999 {
				continue
			}
			n, _ := w.kept()
			if n < min(i+1, aMinute) || i > 20_000 && n > 2*aMinute+spare {
				t.Fatalf("at %d a minute, %d buckets are kept after %d", aMinute, n, i+1)
			}
		}
	}
}

// A sweep looks at every bucket of its shard, so there must be as many new ones for it.
func TestMemorySweepsSeldom(t *testing.T) {
	w, sweeps := memoryWorld(t), 0
	const n = 1000 * shards
	for i := range n {
		name := strconv.Itoa(i)
		must(t, w.Record(t.Context(), name, time.Hour, []Event{{"one", w.now}}))
		s := &w.Limiter.(*Memory).shards[w.Limiter.(*Memory).home(name)]
		if s.opened == 0 {
			sweeps++
		}
		if s.opened > max(64, len(s.buckets)/2) {
			t.Fatalf("%d opened beside %d without a sweep", s.opened, len(s.buckets))
		}
	}
	if sweeps > 10*shards {
		t.Errorf("%d sweeps of %d shards for %d buckets", sweeps, shards, n)
	}
}

func TestMemoryLookingMakesNoBucket(t *testing.T) {
	w := memoryWorld(t)
	w.peek(defaults...)
	must(t, w.Reset(t.Context(), ann()))
	n, _ := w.kept()
	same(t, "buckets", n, 0)
}

func TestMemoryKeepsOnlyWhatCounts(t *testing.T) {
	w := memoryWorld(t)
	r := sliding(Recipient, 100, time.Second) // more than are looked through without an index
	for range 1000 {
		w.admits(true, r)
		w.pass(10 * time.Millisecond)
	}
	must(t, w.Record(t.Context(), ann(), time.Second, []Event{{"lapsed", w.now.Add(-time.Second)}}))
	b, n := w.kept()
	sameList(t, "buckets and events", []int{b, n}, []int{1, 100})
}

// Callers that name their buckets in opposite orders do not wait for each other for ever.
func TestMemoryServesManyCallersAtOnce(t *testing.T) {
	m := NewMemory(time.Now, "process")
	rules := []Rule{sliding("one", 9, time.Second), sliding("two", 9, time.Second)}
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			names := []string{"a", "b", "a"}
			if caller%2 == 0 {
				names = []string{"b", "a", "b"}
			}
			for i := range 300 {
				id, ctx := fmt.Sprint(caller, i), t.Context()
				req := Request{ID: id, Rules: rules, Buckets: map[Scope]string{"one": names[0], "two": names[1]}}
				_, takeErr := m.Take(ctx, req)
				_, peekErr := m.Peek(ctx, req)
				refundErr := m.Refund(ctx, id, names...)
				recordErr := m.Record(ctx, names[0], time.Second, []Event{{fmt.Sprint(id, "r"), time.Now()}})
				if err := errors.Join(takeErr, peekErr, refundErr, recordErr, m.Reset(ctx, names[1])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestMemoryNamesItsClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6_789, time.FixedZone("", 3600))
	d, err := NewMemory(func() time.Time { return now }, "process").Take(t.Context(), request("one", defaults...))
	must(t, err)
	same(t, "clock", d.Clock, "process")
	same(t, "instant in whole µs of UTC", d.At, time.Date(2026, 1, 2, 2, 4, 5, 6_000, time.UTC))
}
