package live

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// followed is a tail over a log in memory, in a bubble with a clock of its own.
type followed struct {
	*testing.T
	log  *sqlite.DB
	tail *Tail
	n    int
}

func inTail(t *testing.T, test func(f *followed)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		f := &followed{T: t, log: sqlitetest.Open(t, time.Now)}
		f.tail = New(f.log, slog.New(slog.DiscardHandler))
		test(f)
		f.tail.Close()
	})
}

func (f *followed) join(filter store.Filter) *reader {
	f.Helper()
	r, err := f.tail.join(filter)
	if err != nil {
		f.Fatal(err)
	}
	synctest.Wait()
	return r
}

// begin writes a send of an app, and gives its ID.
func (f *followed) begin(app string) uuid.UUID { f.Helper(); return f.beginOn("email", app) }

// text is the same of a text message.
func (f *followed) text(app string) uuid.UUID { f.Helper(); return f.beginOn("sms", app) }

func (f *followed) beginOn(ch recipient.Channel, app string) uuid.UUID {
	f.Helper()
	f.n++
	id := uuid.UUID{8: 0x80, 14: byte(f.n >> 8), 15: byte(f.n)}
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16|0x7000)
	_, err := f.log.Begin(f.Context(), store.Intent{
		Send:     store.Send{ID: id, App: app, Channel: ch, Purpose: "login"},
		Purposes: []string{"login"}, TTL: time.Hour, Lease: time.Hour, Verification: store.Verification{ID: "v" + id.String(), MaxAttempts: 5},
	})
	if err != nil {
		f.Fatal(err)
	}
	return id
}

func (f *followed) finish(id uuid.UUID, status store.Status) {
	f.Helper()
	if done, err := f.log.Finish(f.Context(), store.Outcome{Held: store.Held{ID: id, Attempt: 1}, Status: status}); err != nil || !done {
		f.Fatal(done, err)
	}
}

// hears waits for d, and gives what a reader was told until then: "app status", and "gap".
func (f *followed) hears(r *reader, d time.Duration, want ...string) {
	f.Helper()
	time.Sleep(d)
	synctest.Wait()
	var got []string
	for {
		select {
		case b, more := <-r.rows:
			if !more {
				got = append(got, "end: "+r.why)
				break
			}
			if b.gap {
				got = append(got, "gap")
			}
			for _, row := range b.rows {
				got = append(got, fmt.Sprintf("%s %s", row.App, row.Status))
			}
			continue
		default:
		}
		break
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Errorf("heard %q, want %q", got, want)
	}
}

func TestTailTellsWhatComesAndWhatChanges(t *testing.T) {
	inTail(t, func(f *followed) {
		old := f.begin("old")
		f.begin("older, and left")
		time.Sleep(time.Minute)
		r := f.join(store.Filter{})
		f.hears(r, 3*tailTick) // what was there before is on the page
		id := f.begin("shop")
		f.hears(r, 2*tailTick, "shop sending")
		f.finish(id, store.Sent)
		f.finish(old, store.Failed) // from before, and still in flight
		f.hears(r, 2*tailTick, "old failed", "shop sent")
		f.hears(r, time.Minute)
		quick := f.begin("quick")
		f.finish(quick, store.Sent)
		f.hears(r, 2*tailTick, "quick sent")
		refusal := store.Send{ID: uuid.UUID{9}, App: "shop", Channel: "email", BlockedBy: "minute"}
		for range 2 {
			if err := f.log.Refused(f.Context(), []store.Send{refusal}); err != nil {
				f.Fatal(err)
			}
			f.hears(r, 2*tailTick, "shop refused")
		}
		f.tail.leave(r)
	})
}

// A receipt changes the row of a text message some time after it was sent.
func TestTailTellsOfReceipts(t *testing.T) {
	inTail(t, func(f *followed) {
		all, lost := f.join(store.Filter{}), f.join(store.Filter{Status: store.Undelivered})
		receive := func(id uuid.UUID, status store.Status) {
			t.Helper()
			if changed, err := f.log.RecordReceipt(f.Context(), id, status); err != nil || !changed {
				t.Fatal(changed, err)
			}
		}
		id, silent := f.text("shop"), f.text("desk")
		f.finish(id, store.Sent)
		f.finish(silent, store.Unknown)
		f.hears(all, 2*tailTick, "shop sent", "desk unknown")
		time.Sleep(time.Minute)
		f.begin("later") // so that they are not among the newest any more
		f.hears(all, 2*tailTick, "later sending")
		receive(id, store.Undelivered)
		f.hears(all, 2*tailTick, "shop undelivered")
		f.hears(lost, 0, "shop undelivered")
		receive(id, store.Delivered)
		receive(silent, store.Delivered)
		f.hears(all, 2*tailTick, "shop delivered", "desk delivered")
		f.hears(lost, 0, "shop delivered") // told once that it does not belong any more
		f.tail.leave(all)
		f.tail.leave(lost)
	})
}

// Of more rows than are watched, those whose receipt is awaited go first: what is under way ends for certain.
func TestTailWatchesWhatIsUnderWay(t *testing.T) {
	inTail(t, func(f *followed) {
		waits := f.begin("shop")
		r := f.join(store.Filter{App: "shop"})
		early := f.text("shop")
		f.finish(early, store.Sent)
		f.hears(r, 2*tailTick, "shop sent")
		for range maxWatched {
			f.finish(f.text("flood"), store.Sent)
		}
		f.hears(r, time.Minute)
		f.begin("later")
		f.hears(r, 2*tailTick)
		if _, err := f.log.RecordReceipt(f.Context(), early, store.Delivered); err != nil {
			t.Fatal(err)
		}
		f.finish(waits, store.Failed)
		f.hears(r, 3*tailTick, "shop failed")
		f.tail.leave(r)
	})
}

// A row whose writer's clock, or commit, was a moment behind is not missed.
func TestTailFindsRowsThatComeLate(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var back atomic.Int64 // ns, that the log's clock is behind
		f := &followed{T: t, log: sqlitetest.Open(t, func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })}
		f.tail = New(f.log, slog.New(slog.DiscardHandler))
		r := f.join(store.Filter{})
		f.begin("first")
		f.hears(r, 2*tailTick, "first sending")
		back.Store(int64(3*tailTick + overlap/2))
		f.begin("late")
		f.hears(r, 2*tailTick, "late sending")
		f.tail.leave(r)
		f.tail.Close()
	})
}

// Without readers nothing is read; with the next reader it begins anew.
func TestTailRestsWithoutReaders(t *testing.T) {
	inTail(t, func(f *followed) {
		var reads atomic.Int32
		f.log.SetFault(func(method string) sqlite.Fault {
			if strings.HasPrefix(method, "Sends") {
				reads.Add(1)
			}
			return sqlite.None
		})
		time.Sleep(time.Minute)
		if n := reads.Load(); n != 0 {
			f.Errorf("%d reads without a reader", n)
		}
		r, other := f.join(store.Filter{}), f.join(store.Filter{})
		f.hears(r, 10*tailTick)
		if n := reads.Load(); n < 5 || n > 15 {
			f.Errorf("%d reads for two readers in ten looks", n)
		}
		f.tail.leave(r)
		f.tail.leave(other)
		reads.Store(0)
		f.begin("meanwhile")
		time.Sleep(time.Minute)
		if n := reads.Load(); n > 1 {
			f.Errorf("%d reads after the last one left", n)
		}
		r = f.join(store.Filter{})
		f.begin("shop")
		f.hears(r, 2*tailTick, "shop sending")
		f.tail.leave(r)
	})
}

// A reader that takes nothing is sent away, and holds up no other.
func TestTailSendsSlowReadersAway(t *testing.T) {
	inTail(t, func(f *followed) {
		slow, quick := f.join(store.Filter{}), f.join(store.Filter{})
		for range maxBehind + 2 {
			f.begin("shop")
			f.hears(quick, tailTick, "shop sending")
		}
		n := 0
		for range slow.rows {
			n++
		}
		if n != maxBehind || slow.why != endSlow {
			f.Errorf("%d batches, then %q", n, slow.why)
		}
		f.tail.leave(slow)
		f.tail.leave(quick)
	})
}

// Of more rows at once than a look may read, the rest is left out: the reader is told of the gap, and the tail continues from the end.
func TestTailSkips(t *testing.T) {
	inTail(t, func(f *followed) {
		f.tail.pages = 3
		r := f.join(store.Filter{App: "shop"})
		var rows []store.Send
		for i := range 3*PageSize + 150 {
			rows = append(rows, store.Send{ID: uuid.UUID{8, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i)}, App: "flood", Channel: "email"})
		}
		if err := f.log.Refused(f.Context(), rows); err != nil {
			f.Fatal(err)
		}
		f.hears(r, 2*tailTick, "gap")
		time.Sleep(time.Minute)
		f.begin("shop")
		f.hears(r, 2*tailTick, "shop sending")
		f.tail.leave(r)
	})
}

func TestTailIsBounded(t *testing.T) {
	inTail(t, func(f *followed) {
		var readers []*reader
		for range maxReaders {
			readers = append(readers, f.join(store.Filter{}))
		}
		if _, err := f.tail.join(store.Filter{}); err != errTailFull {
			f.Error(err)
		}
		f.tail.leave(readers[0])
		f.join(store.Filter{})
		f.tail.Close()
		f.hears(readers[1], 0, "end: stopping")
		if _, err := f.tail.join(store.Filter{}); err != errTailClosed {
			f.Error(err)
		}
		f.tail.leave(readers[1])
	})
}

func TestTailOutlivesTheLog(t *testing.T) {
	inTail(t, func(f *followed) {
		r := f.join(store.Filter{})
		f.log.SetFault(func(method string) sqlite.Fault {
			if strings.HasPrefix(method, "Sends") {
				return sqlite.Down
			}
			return sqlite.None
		})
		f.begin("shop")
		f.hears(r, time.Minute)
		f.log.SetFault(nil)
		f.hears(r, 2*tailTick, "shop sending")
		f.tail.leave(r)
	})
}
