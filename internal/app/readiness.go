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

// databaseProbe tries in the background whether the database can be written, at most once a second, for /readyz and the metrics. Since all
// replicas share the database, a wrong "away" would take all of them out of a load balancer: a database that does not answer is away only
// after three tries in a row. One that answers late is slow, and ready. Safe for concurrent use.
type databaseProbe struct {
	ping   func(context.Context) error
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex
	at     time.Time     // of the last try
	trying chan struct{} // closed when the present try ends; nil: there is none
	misses int           // tries in a row without an answer
	slow   bool          // the last try took slowAfter or longer
	err    error         // a *server.Reason; nil: it can be written
}

const (
	recheckAfter   = time.Second
	slowAfter      = 250 * time.Millisecond
	missesTillAway = 3
)

// Writable returns nil if the database takes writes, else a *server.Reason. It begins a try if the last one was a second ago, waits for it
// for 250 ms, and returns what is known then.
func (p *databaseProbe) Writable(ctx context.Context) error {
	p.mu.Lock()
	if p.trying == nil && p.now().Sub(p.at) >= recheckAfter {
		p.at, p.trying = p.now(), make(chan struct{})
		go p.try(context.WithoutCancel(ctx), p.trying)
	}
	trying := p.trying
	p.mu.Unlock()
	if trying != nil {
		select {
		case <-trying:
		case <-time.After(slowAfter):
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Slow returns a *server.Reason if the database answers, but late.
func (p *databaseProbe) Slow(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || !p.slow {
		return nil
	}
	return &server.Reason{Word: "database_slow", Text: "The database answers slowly.", Err: errors.New("slow")}
}

// try pings once and keeps the result.
func (p *databaseProbe) try(ctx context.Context, ended chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	began := time.Now()
	reason := unwritableReason(p.ping(ctx))
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(ended)
	p.trying = nil
	p.slow = took >= slowAfter
	if reason == nil || reason.Word != unreachable {
		p.misses = 0
	} else if p.misses++; p.misses < missesTillAway {
		return
	}
	switch {
	case reason != nil && p.err == nil:
		p.logger.Error("database not writable: nothing is sent", "error", reason)
	case reason == nil && p.err != nil:
		p.logger.Info("database writable again")
	}
	p.err = nil
	if reason != nil {
		p.err = reason
	}
}

const unreachable = "log_unreachable"

// unwritableReason returns a *server.Reason that tells operators why the log can't be written; nil if err is nil.
func unwritableReason(err error) *server.Reason {
	reason := server.Reason{Word: unreachable, Text: "The database does not answer.", Err: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		reason.Word, reason.Text = "log_full", "The database has no room left to write."
	case errors.Is(err, store.ErrReadOnly):
		reason.Word, reason.Text = "log_read_only", "The database can only be read."
	case errors.Is(err, store.ErrSchema):
		reason.Word, reason.Text = "log_schema", "The database has another schema than this program: run sendcode migrate of this version."
	case errors.Is(err, store.ErrNoPartition):
		reason.Word, reason.Text = "log_no_partition", "The log has no partition for the present time."
	}
	return &reason
}
