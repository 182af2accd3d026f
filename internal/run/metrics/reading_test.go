package metrics

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// A scrape waits at most MaxCacheWait for a database that hangs. A value is shown for a while after
// it was read, but not after a failed read. The longer a read takes, the later the next one begins.
func TestReading(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var asked atomic.Int32
		hangs := make(chan struct{})
		var takes atomic.Int64
		var fails atomic.Bool
		r := newReading(func(ctx context.Context) (int, error) {
			n, err := int(asked.Add(1)), error(nil)
			if fails.Load() {
				err = errors.New("away")
			}
			time.Sleep(time.Duration(takes.Load()))
			<-hangs
			return n, err
		})
		began := time.Now()
		_, ok := r.get()
		_, again := r.get()
		if ok || again || asked.Load() != 1 || time.Since(began) != 2*MaxCacheWait {
			t.Fatalf("%v, %v after %v, asked %d times", ok, again, time.Since(began), asked.Load())
		}
		close(hangs)
		for _, c := range []struct {
			after, takes time.Duration
			fails        bool
			want         int
			ok           bool
		}{
			{0, 0, false, 1, true},
			{2*readingPauseFactor*MaxCacheWait - 1, 0, false, 1, true},
			{1, 0, false, 2, true},
			{readingEvery - 1, 0, false, 2, true},
			{1, 0, true, 3, false},
			{readingEvery, time.Second, false, 4, false},
			{time.Second, 0, false, 4, true},
			{readingPauseFactor*time.Second - time.Second, 0, false, 4, true},
			{time.Second, 2 * readingValidFor, false, 4, true},
			{readingValidFor - MaxCacheWait, 0, false, 0, false},
		} {
			time.Sleep(c.after)
			takes.Store(int64(c.takes))
			fails.Store(c.fails)
			if got, ok := r.get(); ok != c.ok || ok && got != c.want {
				t.Errorf("%+v: %d, %v", c, got, ok)
			}
		}
		time.Sleep(2 * readingValidFor) // until the last reading ends
	})
}

// A value that can't be read is not shown: if the database doesn't answer, the backlog isn't 0.
func TestBacklogIsShownByChannel(t *testing.T) {
	for _, away := range []error{nil, errors.New("away")} {
		m := New()
		m.RegisterBacklog(func(context.Context) (map[recipient.Channel]store.Backlog, error) {
			return map[recipient.Channel]store.Backlog{recipient.Email: {Sends: 7, Age: 90 * time.Second}}, away
		})
		shows(t, m, away == nil, `sendcode_outbox_sends{channel="email"} 7`, `sendcode_outbox_oldest_seconds{channel="email"} 90`,
			`sendcode_outbox_sends{channel="sms"} 0`, `sendcode_outbox_oldest_seconds{channel="sms"} 0`)
	}
}

// shows fails the test unless /metrics has all of these lines or, if want is false, none of them.
func shows(t *testing.T, m *Metrics, want bool, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range lines {
		if strings.Contains(w.Body.String(), line+"\n") != want {
			t.Errorf("that it has %s is not %t: %s", line, want, w.Body)
		}
	}
}

// The rows of a partition count by the age of the partition's end. A partition whose rows are not
// estimated yet adds none. The metrics also have the sizes of the database and of Redis.
func TestRegisterStorageAndRedis(t *testing.T) {
	m, now := New(), time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	ended := func(weeks time.Duration, rows int64) store.Partition {
		return store.Partition{Ends: now.Add(-weeks * store.Week), Rows: rows}
	}
	m.RegisterStorage(func(context.Context) (store.StorageStatus, error) {
		return store.StorageStatus{
			Now: now, Bytes: 99,
			Partitions: []store.Partition{
				ended(60, 1), ended(12, 2), ended(11, 4), ended(3, 8), ended(2, 16),
				ended(0, 32), ended(-1, 64), ended(-2, -1),
			},
		}, nil
	})
	m.RegisterRedis(func(context.Context) (keys, bytes int64, err error) { return 5, 6, nil })
	shows(t, m, true, `sendcode_database_sends{age="week"} 64`, `sendcode_database_sends{age="4 weeks"} 48`,
		`sendcode_database_sends{age="13 weeks"} 12`, `sendcode_database_sends{age="older"} 3`, `sendcode_database_bytes 99`,
		`sendcode_redis_keys 5`, `sendcode_redis_memory_bytes 6`)
}
