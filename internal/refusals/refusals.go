// Package refusals gathers refused requests and writes them to the log in batches: an attack costs one row, not one write a
// request, and the answer never waits for the log. It stands beside the way of a send: package verification adds to it, package
// jobs has it written.
//
// A recipient's own rule has one row for each recipient until its deadline. A rule of a wider scope can refuse any number of
// recipients at no cost to the client, so the first of a network have a row of their own, which support finds, and the rest
// share one. What finds no room for a row of its own, for whatever reason, is counted in a shared row: nothing is left out.
// The rows of a process are its own, so each replica keeps as many.
package refusals

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Log takes the rows. Implementations: postgres.DB and sqlite.DB.
type Log interface {
	Refused(ctx context.Context, refusals []store.Send) error
}

// Batch is safe for concurrent use.
type Batch struct {
	log    Log
	logger *slog.Logger
	now    func() time.Time

	flushing chan struct{} // has room for the one that writes a batch
	mu       sync.Mutex
	own      map[refusalKey]*openRow // of one recipient each
	shared   map[refusalKey]*openRow
	networks map[networkKey]*firsts
	first    int // rows in own that are there because they came first in their network
	lost     int // refusals without a row: there was no ID for one
	ids      store.IDs
}

// refusalKey is what makes two refusals one row. A shared row has no recipient.
type refusalKey struct {
	app       string
	channel   recipient.Channel
	purpose   string
	recipient recipient.Hash
	rule      string
	ip        string
	of        string // verification that was named
}

func keyOf(row store.Send) refusalKey {
	return refusalKey{row.App, row.Channel, row.Purpose, row.Recipient, row.BlockedBy, row.IP, row.VerificationID}
}

// networkKey is where the first recipients are counted.
type networkKey struct{ app, rule, ip string }

type firsts struct {
	n     int
	until time.Time
}

// openRow is a row that repeated refusals are added to. Its Count is what the log has not got yet.
type openRow struct {
	store.Send
	until    time.Time // a later refusal is another story
	first    bool
	requests int        // all that it stands for
	distinct *estimator // of a shared row
}

// Bounds. In memory, a row is about 1 KB and the estimator of a shared one as much again.
const (
	FirstOwn    = 50               // rows of their own that a rule has for the recipients of one network
	maxFirst    = 5_000            // such rows of all networks
	maxOwn      = 20_000           // rows of one recipient
	maxShared   = 2_000            // shared rows of networks; beyond, all networks share one for each rule
	maxNetworks = 2_000            // networks whose first recipients are counted
	maxOpen     = 10 * time.Minute // how long a row is added to
	minOpen     = time.Minute      // of rows by a wider rule, whose waits may be shorter than a second
)

// New makes an empty batch.
func New(log Log, now func() time.Time, logger *slog.Logger) *Batch {
	return &Batch{
		log: log, now: now, logger: logger, flushing: make(chan struct{}, 1),
		own: map[refusalKey]*openRow{}, shared: map[refusalKey]*openRow{}, networks: map[networkKey]*firsts{},
	}
}

// Add counts a request that a rule of the scope refused.
func (r *Batch) Add(row store.Send, scope quota.Scope) { r.add(row, scope, r.now()) }

func (r *Batch) add(row store.Send, scope quota.Scope, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.rowOf(row, scope, now)
	if open == nil {
		r.lost += row.Count
		return
	}
	open.Count += row.Count
	open.requests += row.Count
	open.RetryAfter = row.RetryAfter
	if open.distinct != nil {
		open.distinct.add(row.Recipient)
	}
}

// rowOf finds the row that a refusal is counted in, or opens it.
func (r *Batch) rowOf(row store.Send, scope quota.Scope, now time.Time) *openRow {
	if open := r.own[keyOf(row)]; open.takes(now) {
		return open
	}
	if ofRecipient(scope) {
		if len(r.own) < maxOwn {
			return r.open(r.own, row, now.Add(min(row.RetryAfter, maxOpen)), now)
		}
		return r.share(row, now)
	}
	until := now.Add(min(max(row.RetryAfter, minOpen), maxOpen))
	if f := r.firstsOf(row, until, now); f != nil && f.n < FirstOwn && r.first < maxFirst && len(r.own) < maxOwn {
		open := r.open(r.own, row, f.until, now)
		if open != nil {
			open.first = true
			f.n++
			r.first++
		}
		return open
	}
	return r.share(row, now)
}

// ofRecipient says whether a rule counts one recipient alone, whose refusals have cost it sends.
func ofRecipient(scope quota.Scope) bool {
	return scope.Base() == quota.Recipient || scope == quota.Failures
}

// takes says whether refusals are still added to the row: until its deadline, and for as long as it has not been written.
func (o *openRow) takes(now time.Time) bool { return o != nil && (now.Before(o.until) || o.Count > 0) }

// firstsOf counts the first recipients of the row's network; nil where that is one network too many.
func (r *Batch) firstsOf(row store.Send, until, now time.Time) *firsts {
	key := networkKey{row.App, row.BlockedBy, row.IP}
	f := r.networks[key]
	switch {
	case f == nil && len(r.networks) >= maxNetworks:
		return nil
	case f == nil || !now.Before(f.until):
		f = &firsts{until: until}
		r.networks[key] = f
	}
	return f
}

// share finds the row for refusals without one of their own. Where there are too many networks it is that of all networks, of which
// there are no more than the configuration has names.
func (r *Batch) share(row store.Send, now time.Time) *openRow {
	row.Recipient, row.To, row.VerificationID, row.Locale, row.Country, row.Prefix = recipient.Hash{}, "", "", "", "", ""
	if open := r.shared[keyOf(row)]; open.takes(now) {
		return open
	}
	if len(r.shared) >= maxShared {
		row.IP = ""
		if open := r.shared[keyOf(row)]; open.takes(now) {
			return open
		}
	}
	open := r.open(r.shared, row, now.Add(min(max(row.RetryAfter, minOpen), maxOpen)), now)
	if open != nil {
		open.distinct = &estimator{}
	}
	return open
}

func (r *Batch) open(rows map[refusalKey]*openRow, row store.Send, until, now time.Time) *openRow {
	id, err := r.ids.New(now)
	if err != nil {
		return nil
	}
	key := keyOf(row)
	r.close(rows, key)
	row.ID, row.Count = id, 0
	rows[key] = &openRow{Send: row, until: until}
	return rows[key]
}

func (r *Batch) close(rows map[refusalKey]*openRow, key refusalKey) {
	if open := rows[key]; open != nil && open.first {
		r.first--
	}
	delete(rows, key)
}

// take empties the batch and forgets rows and networks whose deadline has passed.
func (r *Batch) take(now time.Time) (batch []store.Send, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rows := range []map[refusalKey]*openRow{r.own, r.shared} {
		for key, open := range rows {
			switch {
			case open.Count > 0:
				batch = append(batch, open.written())
			case !now.Before(open.until):
				r.close(rows, key)
			}
		}
	}
	for key, f := range r.networks {
		if !now.Before(f.until) {
			delete(r.networks, key)
		}
	}
	lost, r.lost = r.lost, 0
	return batch, lost
}

// written is the row as it goes to the log.
func (o *openRow) written() store.Send {
	if o.distinct != nil {
		o.Recipients = min(max(1, o.distinct.estimate()), o.requests)
	}
	row := o.Send
	o.Count = 0
	return row
}

// putBack counts again what was not written. It keeps the row's ID, so that a write that arrived after all is at most counted
// again, never lost. The row is still there: while a batch is written, none is forgotten.
func (r *Batch) putBack(batch []store.Send) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range batch {
		rows := r.own
		if row.Recipients > 0 {
			rows = r.shared
		}
		if open := rows[keyOf(row)]; open != nil {
			open.Count += row.Count
		} else {
			r.lost += row.Count
		}
	}
}

// Flush writes what has gathered. What the log does not take goes back into the next batch. Where another Flush is under way it waits
// for it, as long as ctx lasts.
func (r *Batch) Flush(ctx context.Context) {
	select {
	case r.flushing <- struct{}{}:
		defer func() { <-r.flushing }()
	case <-ctx.Done():
		return
	}
	batch, lost := r.take(r.now())
	if lost > 0 {
		r.logger.Error("refusals were not recorded", "count", lost)
	}
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	if err := r.log.Refused(ctx, batch); err != nil {
		r.logger.Warn("refusals wait for the log", "count", len(batch), "error", err)
		r.putBack(batch)
	}
}
