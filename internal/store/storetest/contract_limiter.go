package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// limiterEvent returns an event in a bucket. It counts from now on, for as long as lasts says.
func (f *Fixture) limiterEvent(bucket, id string, lasts time.Duration) store.LimiterEvent {
	return store.LimiterEvent{Bucket: []byte(bucket), ID: id, At: f.Now, Until: f.Now.Add(lasts)}
}

func (f *Fixture) saveLimiterEvents(t *testing.T, changes ...store.LimiterEvent) {
	t.Helper()
	OK(t, f.SaveLimiterEvents(t.Context(), 1, changes))
}

// limiterEvents returns all events as LimiterEvents gives them to reader, by bucket and ID, without
// their numbers.
func (f *Fixture) limiterEvents(t *testing.T, reader int64) map[string]store.LimiterEvent {
	t.Helper()
	all := map[string]store.LimiterEvent{}
	OK(t, f.LimiterEvents(t.Context(), reader, -1, 100, func(e store.LimiterEvent) error {
		e.Seq = 0
		all[string(e.Bucket)+"/"+e.ID] = e
		return nil
	}))
	return all
}

// keepsLimiterEvents checks that LimiterEvents returns an event while it counts, with the instant
// of its first write. After a refund or a reset, other readers get the event for one more minute,
// and it can be added again.
func keepsLimiterEvents(t *testing.T, f *Fixture) {
	a, b, other := f.limiterEvent("net", "\x00a", time.Hour), f.limiterEvent("net", "b\xff", 2*time.Hour),
		f.limiterEvent("app", "c", 30*time.Hour)
	f.saveLimiterEvents(t, a, b, other)
	want := map[string]store.LimiterEvent{"net/\x00a": a, "net/b\xff": b, "app/c": other}
	Equal(t, "written", f.limiterEvents(t, 2), want)
	for id, e := range f.limiterEvents(t, 1) {
		Equal(t, "the reader's own: "+id, e.Own, true)
	}

	f.Pass(time.Minute)
	again := a
	again.At, again.Until = f.Now, f.Now.Add(time.Hour)
	f.saveLimiterEvents(t, again, store.LimiterEvent{Bucket: []byte("net"), ID: "never written", Refunded: true})
	Equal(t, "written again", f.limiterEvents(t, 2), want)

	f.saveLimiterEvents(t, store.LimiterEvent{Bucket: []byte("net"), ID: a.ID, Refunded: true})
	a.Refunded, a.Until = true, f.Now.Add(time.Minute)
	want["net/\x00a"] = a
	Equal(t, "refunded", f.limiterEvents(t, 2), want)
	f.saveLimiterEvents(t, store.LimiterEvent{Bucket: []byte("net"), Refunded: true}, again)
	b.Refunded, b.Until = true, f.Now.Add(time.Minute)
	want["net/\x00a"], want["net/b\xff"] = again, b
	Equal(t, "reset, and one that came after it", f.limiterEvents(t, 2), want)

	f.Pass(time.Hour)
	Equal(t, "ended", f.limiterEvents(t, 2), map[string]store.LimiterEvent{"app/c": other})
	f.saveLimiterEvents(t, f.limiterEvent("net", a.ID, time.Hour))
	Equal(t, "one that ended comes again", f.limiterEvents(t, 2)["net/\x00a"], f.limiterEvent("net", a.ID, time.Hour))
	for _, age := range []time.Duration{0, time.Hour} { // with age 0, other rows stay for ever
		f.Pass(time.Hour)
		Must(f.DeleteAged(t.Context(), age, 10))(t)
	}
	f.Pass(-2 * time.Hour)
	Equal(t, "deleted", f.limiterEvents(t, 2), map[string]store.LimiterEvent{"app/c": other})
	OK(t, f.DeleteLimiterEvents(t.Context(), math.MaxInt64))
	Equal(t, "left", len(f.limiterEvents(t, 2)), 0)
}

// limiterEventsOfReplicas lets replicas write events at once. A replica that continues to read
// after the last number it has read must miss no event. It reads its own events, too.
func limiterEventsOfReplicas(t *testing.T, f *Fixture) {
	const writers, each = 7, 20
	read, last := map[string]bool{}, int64(-1)
	next := func() {
		OK(t, f.LimiterEvents(t.Context(), 1, last, writers*each, func(e store.LimiterEvent) error {
			read[e.ID], last = true, e.Seq
			return nil
		}))
	}
	Together(writers+1, func(i int) {
		for n := range each {
			if i == writers {
				next()
			} else if err := f.Both(i).SaveLimiterEvents(t.Context(), int64(i+1), []store.LimiterEvent{{
				Bucket: []byte("net"),
				ID:     fmt.Sprint(i, " ", n), At: f.Now, Until: f.Now.Add(time.Hour),
			}}); err != nil {
				t.Error(err)
			}
		}
	})
	if f.Dialect == sqldb.SQLite {
		last = -1 // the only process reads all events at its start
	}
	next()
	Equal(t, "read", len(read), writers*each)
}
