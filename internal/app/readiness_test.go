package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// What the server itself says counts at once; silence only after three tries.
func TestReasonsOfTheDatabase(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			word string
		}{{store.ErrFull, "log_full"}, {store.ErrReadOnly, "log_read_only"}, {store.ErrNoPartition, "log_no_partition"}, {store.ErrSchema, "log_schema"}, {errors.New("dial /var/run"), "log_unreachable"}} {
			var asked atomic.Int32
			p := databaseProbe{ping: func(context.Context) error { asked.Add(1); return c.err }, logger: slog.New(slog.DiscardHandler), now: time.Now}
			for n := 1; n <= missesTillAway; n++ {
				for range 10 {
					err := p.Writable(t.Context())
					if away := c.word != unreachable || n == missesTillAway; away != (err != nil) || away && !strings.HasPrefix(err.Error(), c.word) {
						t.Errorf("%s at try %d: %v", c.word, n, err)
					}
				}
				if int(asked.Load()) != n {
					t.Errorf("asked %d times in try %d", asked.Load(), n)
				}
				time.Sleep(recheckAfter)
			}
		}
	})
}

// A database that answers late is slow, and ready; a look waits 250 ms at most.
func TestASlowDatabaseIsReady(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		late := time.Second
		p := databaseProbe{ping: func(context.Context) error { time.Sleep(late); return nil }, logger: slog.New(slog.DiscardHandler), now: time.Now}
		for range 20 {
			began := time.Now()
			if err := p.Writable(t.Context()); err != nil || time.Since(began) > slowAfter {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.Sleep(recheckAfter)
		}
		if err := p.Slow(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "database_slow") {
			t.Errorf("slow: %v", err)
		}
		late = 0
		time.Sleep(recheckAfter)
		if err := errors.Join(p.Writable(t.Context()), p.Slow(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
