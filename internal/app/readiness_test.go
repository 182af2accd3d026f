package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
)

func TestReasonsOfTheLog(t *testing.T) {
	for _, c := range []struct {
		err  error
		word string
	}{{store.ErrFull, "log_full"}, {store.ErrReadOnly, "log_read_only"}, {store.ErrNoPartition, "log_no_partition"}, {errors.New("dial /var/run"), "log_unreachable"}} {
		now, asked := time.Unix(0, 0), 0
		ping := func(context.Context) error { asked++; return c.err }
		w := writableLog{ping: ping, logger: slog.New(slog.DiscardHandler), now: func() time.Time { return now }}
		for range 10 {
			if err := w.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), c.word) {
				t.Errorf("%v", err)
			}
		}
		now = now.Add(recheckAfter)
		_ = w.Check(t.Context())
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	}
}
