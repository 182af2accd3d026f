package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

func pendingReceipt(n int) store.PendingReceipt {
	return store.PendingReceipt{Carrier: "c", ID: fmt.Sprint("m", n), Send: uuid.UUID{1, byte(n), 6: 0x70, 8: 0x80}}
}

func (f *Fixture) duePolls(t *testing.T, limit int) (ids []string) {
	t.Helper()
	list := Must(f.DuePolls(t.Context(), limit))(t)
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// A message is asked about at its time, then after 30 s and twice as long each time, until there is an answer or three days
// are over.
func pollsUntilAnswered(t *testing.T, f *Fixture) {
	a := pendingReceipt(1)
	OK(t, f.AwaitReceipt(t.Context(), a, 10*time.Second))
	a.At = f.Now
	OK(t, f.AwaitReceipt(t.Context(), store.PendingReceipt{Carrier: a.Carrier, ID: a.ID, Send: uuid.UUID{9}}, time.Second)) // twice is once
	OK(t, f.AwaitReceipt(t.Context(), pendingReceipt(2), 0))
	f.Pass(10*time.Second - time.Microsecond)
	Equal(t, "too early", f.duePolls(t, 9), nil)
	f.Pass(time.Microsecond)
	Equal(t, "in time", Must(f.DuePolls(t.Context(), 9))(t), []store.PendingReceipt{a})
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute,
		32 * time.Minute, 64 * time.Minute, 128 * time.Minute, 256 * time.Minute, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour} {
		f.Pass(pause - time.Microsecond)
		Equal(t, fmt.Sprint("before inquiry ", n), f.duePolls(t, 9), nil)
		f.Pass(time.Microsecond)
		Equal(t, fmt.Sprint("inquiry ", n), f.duePolls(t, 9), []string{"m1"})
	}
	for n, want := range []uuid.UUID{a.Send, pendingReceipt(2).Send} {
		Equal(t, "send", Must(f.Replica.SendAwaiting(t.Context(), "c", fmt.Sprint("m", n+1)))(t), want)
	}
	for _, other := range [][2]string{{"c", "m3"}, {"d", "m1"}} {
		_, err := f.SendAwaiting(t.Context(), other[0], other[1])
		Is(t, err, store.ErrNotFound)
	}
	OK(t, f.PollAnswered(t.Context(), a.Send))
	OK(t, f.PollAnswered(t.Context(), a.Send))
	_, err := f.SendAwaiting(t.Context(), "c", "m1")
	Is(t, err, store.ErrNotFound)
	f.Pass(72 * time.Hour)
	Equal(t, "given up", f.duePolls(t, 9), nil)
	_, err = f.SendAwaiting(t.Context(), "c", "m2")
	Is(t, err, store.ErrNotFound)
}

// Replicas that ask at once share the messages, the longest overdue first.
func duePollsShared(t *testing.T, f *Fixture) {
	for n := range 40 {
		OK(t, f.AwaitReceipt(t.Context(), pendingReceipt(n), time.Duration(50-n)*time.Second))
	}
	f.Pass(11 * time.Second)
	Equal(t, "first", f.duePolls(t, 9), []string{"m39"})
	f.Pass(39 * time.Second)
	eachOnce(t, f, 39, func(log store.Store) (ids []string, err error) {
		list, err := log.DuePolls(t.Context(), 3)
		for _, p := range list {
			ids = append(ids, p.ID)
		}
		return ids, err
	})
}
