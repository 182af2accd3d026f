package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/server"
	"sendcode/internal/store"
)

// writableLog asks whether the log can be written, at most once a second, for /readyz and the metrics, and writes a line at each change.
// Safe for concurrent use.
type writableLog struct {
	ping   func(context.Context) error
	now    func() time.Time
	logger *slog.Logger

	mu  sync.Mutex
	at  time.Time
	err error
}

// recheckAfter is how long an answer is repeated: each check is a write.
const recheckAfter = time.Second

// Check returns nil if the database takes writes, else a *server.Reason. It tries at most once a second, and repeats that answer in
// between.
func (w *writableLog) Check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.at.IsZero() && w.now().Sub(w.at) < recheckAfter {
		return w.err
	}
	err := unwritableReason(w.ping(ctx))
	switch {
	case err != nil && w.err == nil:
		w.logger.Error("database not writable: nothing is sent", "error", err)
	case err == nil && w.err != nil:
		w.logger.Info("database writable again")
	}
	w.err, w.at = err, w.now()
	return err
}

// unwritableReason returns a *server.Reason that tells operators why the log can't be written; nil if err is nil.
func unwritableReason(err error) error {
	reason := server.Reason{Word: "log_unreachable", Text: "The database does not answer.", Err: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		reason.Word, reason.Text = "log_full", "The database has no room left to write."
	case errors.Is(err, store.ErrReadOnly):
		reason.Word, reason.Text = "log_read_only", "The database can only be read."
	case errors.Is(err, store.ErrNoPartition):
		reason.Word, reason.Text = "log_no_partition", "The log has no partition for the present time."
	}
	return &reason
}
