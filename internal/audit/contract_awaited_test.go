package audit

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

func awaitedNo(n int) Awaited {
	return Awaited{Carrier: "c", ID: fmt.Sprint("m", n), Send: uuid.UUID{1, byte(n), 6: 0x70, 8: 0x80}}
}

func (f *fixture) inquiries(t *testing.T, limit int) (ids []string) {
	t.Helper()
	list, err := f.Inquiries(t.Context(), limit)
	ok(t, err)
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// A message is asked about at its time, then after 30 s and twice as long each time, until there is an answer or three days
// are over.
func awaitsReceipts(t *testing.T, f *fixture) {
	a := awaitedNo(1)
	ok(t, f.Await(t.Context(), a, 10*time.Second))
	a.At = f.now
	ok(t, f.Await(t.Context(), Awaited{Carrier: a.Carrier, ID: a.ID, Send: uuid.UUID{9}}, time.Second)) // twice is once
	ok(t, f.Await(t.Context(), awaitedNo(2), 0))
	f.pass(10*time.Second - time.Microsecond)
	equal(t, "too early", f.inquiries(t, 9), nil)
	f.pass(time.Microsecond)
	list, err := f.Inquiries(t.Context(), 9)
	ok(t, err)
	equal(t, "in time", list, []Awaited{a})
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, 64 * time.Minute, 128 * time.Minute, 256 * time.Minute, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour} {
		f.pass(pause - time.Microsecond)
		equal(t, fmt.Sprint("before inquiry ", n), f.inquiries(t, 9), nil)
		f.pass(time.Microsecond)
		equal(t, fmt.Sprint("inquiry ", n), f.inquiries(t, 9), []string{"m1"})
	}
	for n, want := range []uuid.UUID{a.Send, awaitedNo(2).Send} {
		got, err := f.replica.AwaitedSend(t.Context(), "c", fmt.Sprint("m", n+1))
		ok(t, err)
		equal(t, "send", got, want)
	}
	for _, other := range [][2]string{{"c", "m3"}, {"d", "m1"}} {
		_, err := f.AwaitedSend(t.Context(), other[0], other[1])
		is(t, err, ErrNotFound)
	}
	ok(t, f.Answered(t.Context(), a.Send))
	ok(t, f.Answered(t.Context(), a.Send))
	_, err = f.AwaitedSend(t.Context(), "c", "m1")
	is(t, err, ErrNotFound)
	f.pass(72 * time.Hour)
	equal(t, "given up", f.inquiries(t, 9), nil)
	_, err = f.AwaitedSend(t.Context(), "c", "m2")
	is(t, err, ErrNotFound)
	for _, wrong := range []Awaited{{}, {Carrier: "c", ID: "m"}, {Carrier: "c", Send: a.Send}, {ID: "m", Send: a.Send}} {
		is(t, f.Await(t.Context(), wrong, 0), ErrBadRequest)
	}
	is(t, f.Await(t.Context(), a, -1), ErrBadRequest)
	_, err = f.Inquiries(t.Context(), 0)
	is(t, err, ErrBadRequest)
}

// Replicas that ask at once share the messages, the longest overdue first.
func inquiriesShared(t *testing.T, f *fixture) {
	for n := range 40 {
		ok(t, f.Await(t.Context(), awaitedNo(n), time.Duration(50-n)*time.Second))
	}
	f.pass(11 * time.Second)
	equal(t, "first", f.inquiries(t, 9), []string{"m39"})
	f.pass(39 * time.Second)
	var mu sync.Mutex
	seen := map[string]int{}
	together(8, func(i int) {
		for range 3 {
			list, err := f.both(i).Inquiries(t.Context(), 3)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, a := range list {
				seen[a.ID]++
			}
			mu.Unlock()
		}
	})
	for range 14 {
		for _, id := range f.inquiries(t, 3) {
			seen[id]++
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d messages", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", id, n)
		}
	}
}
