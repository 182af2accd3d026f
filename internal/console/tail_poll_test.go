package console

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// followed is a stream over a database in memory, on a clock of its own.
type followed struct {
	*testing.T
	*tailPoller
	db      *sqlitetest.DB
	n       int
	now     time.Time
	behind  time.Duration // the database's clock
	queries int
}

func newFollowed(t *testing.T, filter store.Filter) *followed {
	t.Helper()
	f := &followed{T: t, now: time.Date(2026, 3, 4, 14, 0, 0, 0, time.UTC)}
	f.db = sqlitetest.Open(t, func() time.Time { return f.now.Add(-f.behind) })
	f.db.SetFault(func(method string) sqlitetest.Fault {
		if strings.HasPrefix(method, "Sends") {
			f.queries++
		}
		return sqlitetest.None
	})
	f.join(filter)
	return f
}

// join begins another stream in the place of the one before.
func (f *followed) join(filter store.Filter) {
	f.Helper()
	f.tailPoller = &tailPoller{db: f.db, filter: filter, seen: map[uuid.UUID]store.SendOrRefusal{}}
	_, _, err := f.tailPoller.begin(f.Context(), nil, f.now)
	f.must(nil, err)
}

// send writes a send of an app, and gives its ID. text is the same of a text message.
func (f *followed) send(app string) uuid.UUID { f.Helper(); return f.beginOn(recipient.Email, app) }

func (f *followed) text(app string) uuid.UUID { f.Helper(); return f.beginOn(recipient.SMS, app) }

func (f *followed) beginOn(ch recipient.Channel, app string) uuid.UUID {
	f.Helper()
	f.n++
	id := uuid.UUID{8: 0x80, 14: byte(f.n >> 8), 15: byte(f.n)}
	binary.BigEndian.PutUint64(id[:], uint64(f.now.UnixMilli())<<16|0x7000)
	f.must(f.db.Begin(f.Context(), store.Intent{
		Send:     store.Send{ID: id, App: app, Channel: ch, Purpose: "login"},
		Purposes: []string{"login"}, TTL: time.Hour, Lease: time.Hour,
		Verification: store.Verification{ID: "v" + id.String(), MaxAttempts: 5},
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
	f.must(f.db.Finish(f.Context(), store.Outcome{AttemptID: store.AttemptID{ID: id, Attempt: 1}, Status: status}))
}

func (f *followed) receive(id uuid.UUID, status store.Status) {
	f.Helper()
	f.must(f.db.RecordReceipt(f.Context(), id, status))
}

func (f *followed) refuse(row store.SendOrRefusal) {
	f.Helper()
	f.must(nil, f.db.RecordRefusals(f.Context(), []store.SendOrRefusal{row}))
}

// hears looks n times, a second apart, and fails the test unless this was told: "app status", and
// "gap".
func (f *followed) hears(n int, want ...string) {
	f.Helper()
	var got []string
	for range n {
		f.now = f.now.Add(tailPollInterval)
		f.queries = 0
		rows, gap, err := f.poll(f.Context(), f.now)
		f.must(f.queries == 1, err)
		if gap {
			got = append(got, "gap")
		}
		for _, row := range rows {
			got = append(got, fmt.Sprintf("%s %s", row.App, row.Status))
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("heard %q, want %q", got, want)
	}
}

func TestTailTellsWhatComesAndWhatChanges(t *testing.T) {
	f := newFollowed(t, store.Filter{})
	old := f.send("old")
	f.send("older, and left")
	f.now = f.now.Add(time.Minute)
	f.join(store.Filter{})
	f.hears(3) // what was there before is on the page
	id := f.send("shop")
	f.hears(2, "shop sending")
	f.finish(id, store.Sent)
	f.finish(old, store.Failed) // from before, and still in flight
	f.hears(2, "shop sent", "old failed")
	f.hears(60)
	quick := f.send("quick")
	f.finish(quick, store.Sent)
	f.hears(2, "quick sent")
	refusal := store.SendOrRefusal{Send: store.Send{ID: uuid.UUID{9}, App: "shop", Channel: "email"},
		Refusal: store.Refusal{BlockedBy: "minute"}}
	f.refuse(refusal)
	f.hears(2, "shop refused")
	f.now = f.now.Add(time.Minute)
	f.send("later")
	f.hears(2, "later sending")
	f.refuse(refusal) // one row for both
	f.hears(2, "shop refused")
}

// A receipt changes the row of a text message some time after it was sent.
func TestTailTellsOfReceipts(t *testing.T) {
	for status, want := range map[store.Status][]string{
		"": {"shop sent", "desk unknown", "later sending", "shop undelivered", "shop delivered",
			"desk delivered"},
		store.Undelivered: {"shop undelivered", "shop delivered"}, // told once that it does not belong any more
	} {
		f := newFollowed(t, store.Filter{Status: status})
		hears := func(n int, told ...string) {
			t.Helper()
			f.hears(n, slices.DeleteFunc(told, func(s string) bool { return !slices.Contains(want, s) })...)
		}
		id, silent := f.text("shop"), f.text("desk")
		f.finish(id, store.Sent)
		f.finish(silent, store.Unknown)
		hears(2, "shop sent", "desk unknown")
		f.now = f.now.Add(time.Minute)
		f.send("later") // so that they are not among the newest any more
		hears(2, "later sending")
		f.receive(id, store.Undelivered)
		hears(2, "shop undelivered")
		f.receive(id, store.Delivered)
		f.receive(silent, store.Delivered)
		hears(2, "shop delivered", "desk delivered")
	}
}

// Of more rows than can be read again, those whose receipt is awaited go first: what is under way
// ends for certain.
func TestTailWatchesWhatIsUnderWay(t *testing.T) {
	f := newFollowed(t, store.Filter{})
	waits, early := f.send("shop"), f.text("shop")
	f.finish(early, store.Sent)
	f.hears(2, "shop sending", "shop sent")
	told := slices.Repeat([]string{"flood sent"}, maxPolledRows/5)
	for range 5 {
		for range told {
			f.finish(f.text("flood"), store.Sent)
		}
		f.hears(2, told...)
	}
	f.hears(5)
	f.receive(early, store.Delivered)
	f.finish(waits, store.Failed)
	f.hears(3, "shop failed")
}

// A row whose writer's clock, or commit, was a moment behind is not missed.
func TestTailFindsRowsThatComeLate(t *testing.T) {
	f := newFollowed(t, store.Filter{})
	f.send("first")
	f.hears(2, "first sending")
	f.behind = 2*tailPollInterval + pollOverlap/2
	f.send("late")
	f.hears(2, "late sending")
}

// Of more rows at once than a look may read, the rest is left out: the client is told of the gap,
// and gets the newest.
func TestTailSkips(t *testing.T) {
	f := newFollowed(t, store.Filter{App: "shop"})
	flood := func(app string, n int) {
		for i := range n {
			f.refuse(store.SendOrRefusal{Send: store.Send{ID: uuid.UUID{8, 12: byte(f.n), 13: byte(i >> 8), 14: byte(i)},
				App: app, Channel: "email"}})
		}
		f.n++
	}
	flood("other", maxPolledRows)
	f.hears(2)
	told := slices.Repeat([]string{"shop refused"}, maxPolledRows)
	for range 2 { // the second look finds as many as it may read, of which it knows the first ones
		flood("shop", maxPolledRows-100)
		f.hears(2, told[100:]...)
	}
	f.now = f.now.Add(time.Minute)
	flood("shop", maxPolledRows+10)
	f.hears(2, append([]string{"gap"}, told...)...)
	f.now = f.now.Add(time.Minute)
	f.send("shop")
	f.hears(2, "shop sending")
}
