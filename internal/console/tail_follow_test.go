package console

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// followed is a tail over a database in memory, in a bubble with a clock of its own.
type followed struct {
	*testing.T
	db    *sqlitetest.DB
	tail  *tail
	n     int
	back  atomic.Int64 // ns, that the database's clock is behind
	reads atomic.Int32
	away  atomic.Bool // the database
}

func inTail(t *testing.T, test func(f *followed)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		f := &followed{T: t}
		f.db = sqlitetest.Open(t, func() time.Time { return time.Now().Add(-time.Duration(f.back.Load())) })
		f.db.SetFault(func(method string) sqlitetest.Fault {
			if !strings.HasPrefix(method, "Sends") {
				return sqlitetest.None
			}
			if f.reads.Add(1); f.away.Load() {
				return sqlitetest.Down
			}
			return sqlitetest.None
		})
		f.tail = newTail(f.db, slog.New(slog.DiscardHandler))
		test(f)
		f.tail.close()
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

// begin writes a send of an app, and gives its ID. text is the same of a text message.
func (f *followed) begin(app string) uuid.UUID { f.Helper(); return f.beginOn(recipient.Email, app) }

func (f *followed) text(app string) uuid.UUID { f.Helper(); return f.beginOn(recipient.SMS, app) }

func (f *followed) beginOn(ch recipient.Channel, app string) uuid.UUID {
	f.Helper()
	f.n++
	id := uuid.UUID{8: 0x80, 14: byte(f.n >> 8), 15: byte(f.n)}
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16|0x7000)
	f.must(f.db.Begin(f.Context(), store.Intent{
		Send:     store.Send{ID: id, App: app, Channel: ch, Purpose: "login"},
		Purposes: []string{"login"}, TTL: time.Hour, Lease: time.Hour, Verification: store.Verification{ID: "v" + id.String(), MaxAttempts: 5},
	}))
	return id
}

// must ends a test that cannot go on since a call failed or did nothing.
func (f *followed) must(done any, err error) {
	f.Helper()
	if err != nil || done == false {
		f.Fatal(done, err)
	}
}

func (f *followed) finish(id uuid.UUID, status store.Status) {
	f.Helper()
	f.must(f.db.Finish(f.Context(), store.Outcome{Held: store.Held{ID: id, Attempt: 1}, Status: status}))
}

func (f *followed) receive(id uuid.UUID, status store.Status) {
	f.Helper()
	f.must(f.db.RecordReceipt(f.Context(), id, status))
}

func (f *followed) refuse(rows ...store.Send) {
	f.Helper()
	f.must(nil, f.db.Refused(f.Context(), rows))
}

// hears waits for d, and fails the test unless a reader was told this until then: "app status", and "gap".
func (f *followed) hears(r *reader, d time.Duration, want ...string) {
	f.Helper()
	time.Sleep(d)
	synctest.Wait()
	var got []string
	for len(r.rows) > 0 {
		b := <-r.rows
		if b.gap {
			got = append(got, "gap")
		}
		for _, row := range b.rows {
			got = append(got, fmt.Sprintf("%s %s", row.App, row.Status))
		}
	}
	if r.why != "" {
		got = append(got, "end: "+r.why)
	}
	if !slices.Equal(got, want) {
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
			f.refuse(refusal)
			f.hears(r, 2*tailTick, "shop refused")
		}
	})
}

// A receipt changes the row of a text message some time after it was sent.
func TestTailTellsOfReceipts(t *testing.T) {
	inTail(t, func(f *followed) {
		all, lost := f.join(store.Filter{}), f.join(store.Filter{Status: store.Undelivered})
		id, silent := f.text("shop"), f.text("desk")
		f.finish(id, store.Sent)
		f.finish(silent, store.Unknown)
		f.hears(all, 2*tailTick, "shop sent", "desk unknown")
		time.Sleep(time.Minute)
		f.begin("later") // so that they are not among the newest any more
		f.hears(all, 2*tailTick, "later sending")
		f.receive(id, store.Undelivered)
		f.hears(all, 2*tailTick, "shop undelivered")
		f.hears(lost, 0, "shop undelivered")
		f.receive(id, store.Delivered)
		f.receive(silent, store.Delivered)
		f.hears(all, 2*tailTick, "shop delivered", "desk delivered")
		f.hears(lost, 0, "shop delivered") // told once that it does not belong any more
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
		f.receive(early, store.Delivered)
		f.finish(waits, store.Failed)
		f.hears(r, 3*tailTick, "shop failed")
	})
}

// A row whose writer's clock, or commit, was a moment behind is not missed.
func TestTailFindsRowsThatComeLate(t *testing.T) {
	inTail(t, func(f *followed) {
		r := f.join(store.Filter{})
		f.begin("first")
		f.hears(r, 2*tailTick, "first sending")
		f.back.Store(int64(3*tailTick + overlap/2))
		f.begin("late")
		f.hears(r, 2*tailTick, "late sending")
	})
}

// Without readers nothing is read; with the next reader it begins anew.
func TestTailRestsWithoutReaders(t *testing.T) {
	inTail(t, func(f *followed) {
		reads := func(least, most int32) {
			t.Helper()
			if n := f.reads.Swap(0); n < least || n > most {
				t.Errorf("%d reads, want %d to %d", n, least, most)
			}
		}
		time.Sleep(time.Minute)
		reads(0, 0)
		r, other := f.join(store.Filter{}), f.join(store.Filter{})
		f.hears(r, 10*tailTick)
		reads(5, 15) // ten looks for two readers
		f.tail.leave(r)
		f.tail.leave(other)
		f.begin("meanwhile")
		time.Sleep(time.Minute)
		reads(0, 1)
		r = f.join(store.Filter{})
		f.begin("shop")
		f.hears(r, 2*tailTick, "shop sending")
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
	})
}

// Of more rows at once than a look may read, the rest is left out: the reader is told of the gap, and the tail continues from the end.
func TestTailSkips(t *testing.T) {
	inTail(t, func(f *followed) {
		f.tail.pages = 3
		r := f.join(store.Filter{App: "shop"})
		var rows []store.Send
		for i := range 3*tailLimit + 150 {
			rows = append(rows, store.Send{ID: uuid.UUID{8, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i)}, App: "flood", Channel: "email"})
		}
		f.refuse(rows...)
		f.hears(r, 2*tailTick, "gap")
		time.Sleep(time.Minute)
		f.begin("shop")
		f.hears(r, 2*tailTick, "shop sending")
	})
}

func TestTailIsBounded(t *testing.T) {
	inTail(t, func(f *followed) {
		var readers []*reader
		for range maxReaders {
			readers = append(readers, f.join(store.Filter{}))
		}
		if _, err := f.tail.join(store.Filter{}); err == nil {
			f.Error("one reader too many")
		}
		f.tail.leave(readers[0])
		f.join(store.Filter{})
		f.tail.close()
		f.hears(readers[1], 0, "end: stopping")
		if _, err := f.tail.join(store.Filter{}); err == nil {
			f.Error("a reader after the stop")
		}
	})
}

func TestTailOutlivesTheDatabase(t *testing.T) {
	inTail(t, func(f *followed) {
		r := f.join(store.Filter{})
		f.away.Store(true)
		f.begin("shop")
		f.hears(r, time.Minute)
		f.away.Store(false)
		f.hears(r, 2*tailTick, "shop sending")
	})
}
