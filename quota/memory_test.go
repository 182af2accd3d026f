package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// A sweep visits every bucket of its shard, so it runs only after many new buckets. After a rush,
// few new buckets are enough to delete the expired ones and to shrink their maps.
func TestMemoryForgetsARush(t *testing.T) {
	const rush, later = 300 * shards, 60 * shards // about 300 and 60 in each shard, because the hash is random
	w, sweeps := memoryWorld(t), 0
	m := w.Limiter.(*Memory)
	open := func(name string) *shard {
		must(t, w.Record(t.Context(), name, time.Minute, []AgedEvent{{ID: "one"}}))
		return &m.shards[m.shardOf(name)]
	}
	for i := range rush {
		s := open(fmt.Sprint("rush ", i))
		if s.opened == 0 {
			sweeps++
		}
		if s.opened > max(64, len(s.buckets)/2) {
			t.Fatalf("%d opened beside %d without a sweep", s.opened, len(s.buckets))
		}
	}
	if n, _ := w.kept(); n != rush || sweeps > 10*shards {
		t.Errorf("%d buckets in the rush, %d sweeps of %d shards", n, sweeps, shards)
	}
	for i := range later {
		open(fmt.Sprint("later ", i))
		w.pass(33 * time.Millisecond)
	}
	needed := 0
	for i := range m.shards {
		s := &m.shards[i]
		for _, b := range s.buckets {
			if b.expiresAt > w.now.UnixMicro() {
				needed++
			}
		}
		if s.peak > 200 {
			t.Fatalf("a shard of %d keeps a map for %d", len(s.buckets), s.peak)
		}
	}
	if n, _ := w.kept(); n > needed+later {
		t.Errorf("%d are kept and %d needed, two minutes after the rush", n, needed)
	}
}

// Memory decides as Evaluate does with all events: among many recipients, with rules of a second to
// a day, and with bursts and lulls.
func TestMemoryDropsNothingThatARuleNeeds(t *testing.T) {
	w, random := memoryWorld(t), rand.New(rand.NewPCG(1, 2))
	rules := [][]Rule{
		{sliding(Recipient, 2, time.Second)},
		{sliding(Recipient, 3, time.Minute), {Name: "day", Scope: Recipient, Limit: 5, Per: Day}},
		{{Name: "hour", Scope: Recipient, Limit: 2, Per: Hour}},
		{sliding(Recipient, 4, time.Hour)},
	}
	history := map[string][]Event{}
	for step := range 15_000 {
		who := random.IntN(1_000 + step/4) // new recipients, and old ones again
		name, its := strconv.Itoa(who), rules[who%len(rules)]
		want := Evaluate(its, map[Scope][]Event{Recipient: history[name]}, w.now)
		id := w.id()
		d, err := w.Take(t.Context(), Request{ID: id, Rules: its, Buckets: map[Scope]string{Recipient: name}})
		must(t, err)
		if d.Admitted != want.Allowed() || !d.Admitted && d.RetryAfter() != want.RetryAfter() {
			t.Fatalf("step %d: admitted %v for %v, want %v for %v", step, d.Admitted, d.RetryAfter(), want.Allowed(), want.RetryAfter())
		}
		if d.Admitted {
			history[name] = append(history[name], Event{id, d.At})
		}
		w.pass(time.Duration(random.Int64N(int64([]time.Duration{time.Millisecond, time.Second, 20 * time.Second}[step/1250%3]))))
	}
}

func TestMemoryLookingMakesNoBucket(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6_789, time.FixedZone("", 3600))
	m := NewMemory(func() time.Time { return now })
	d, err := m.Peek(t.Context(), request("", defaults...))
	must(t, err)
	same(t, "instant in whole µs of UTC", d.At, time.Date(2026, 1, 2, 2, 4, 5, 6_000, time.UTC))
	n, _ := (&world{t: t, Limiter: m}).kept()
	same(t, "buckets", n, 0)
}

// Even a bucket that is large enough to have an index keeps only events that count: no refunded
// IDs, and no events from before a reset.
func TestMemoryKeepsOnlyWhatCounts(t *testing.T) {
	w, r := memoryWorld(t), sliding(Recipient, 100, time.Second)
	for i := range 1000 {
		same(t, "admitted", w.takeID(strconv.Itoa(i), r).Admitted, true)
		w.pass(10 * time.Millisecond)
	}
	expectBuckets := func(want int) {
		t.Helper()
		b, n := w.kept()
		sameList(t, "buckets and events", []int{b, n}, []int{1, want})
	}
	must(t, w.Record(t.Context(), ann(), time.Second, []AgedEvent{{ID: "lapsed", Age: time.Second}}))
	expectBuckets(99)
	must(t, w.Refund(t.Context(), "990", ann()))
	expectBuckets(98)
	must(t, w.Reset(t.Context(), ann()))
	same(t, "used after a reset", w.takeID("999", r).Rules[0].Used, 1)
}

// Callers that name their buckets in opposite orders do not deadlock.
func TestMemoryServesManyCallersAtOnce(t *testing.T) {
	m := NewMemory(time.Now)
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
				recordErr := m.Record(ctx, names[0], time.Second, []AgedEvent{{ID: fmt.Sprint(id, "r")}})
				if err := errors.Join(takeErr, peekErr, refundErr, recordErr, m.Reset(ctx, names[1])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
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
	gone := w.Limiter.(*Memory).find(ann(), w.now.UnixMicro()).refunds
	same(t, "refunds that are remembered", len(gone.until), 60)
	same(t, "calls that are remembered", len(gone.order), 120)
	w.pass(2 * time.Minute)
	w.admits(true, sliding(Recipient, 2, time.Hour))
	sameList(t, "remembered after a take", []int{len(gone.until), len(gone.order)}, []int{0, 0})
}

// A bounded Memory that gets more buckets than its bound keeps as many as the bound, and always the
// newest one.
func TestMemoryIsBounded(t *testing.T) {
	w := memoryWorld(t)
	m := NewBoundedMemory(func() time.Time { return w.now }, 10*shards)
	w.Limiter = m
	for i := range 100 * shards {
		name := strconv.Itoa(i)
		must(t, m.Record(t.Context(), name, time.Hour, []AgedEvent{{ID: "one"}}))
		if m.find(name, w.now.UnixMicro()) == nil {
			t.Fatal("the newest bucket is not there")
		}
	}
	buckets, _ := w.kept()
	same(t, "buckets", buckets, 10*shards)
}
