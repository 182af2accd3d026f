package verification

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/audit"
	"sendcode/internal/recipient"
)

// refusals gathers refused requests and writes them in batches: an attack costs one row, not one write a request,
// and the answer never waits for the log (AUDIT-1).
type refusals struct {
	mu      sync.Mutex
	pending map[refusalKey]audit.Send // not written yet
	rows    map[refusalKey]openRow    // where a repeated refusal is added to
	lost    int                       // refusals that found no room
	ids     audit.IDs
}

// refusalKey is what makes two refusals one row.
type refusalKey struct {
	app       string
	channel   recipient.Channel
	purpose   string
	recipient recipient.Hash
	rule      string
	ip        string
	of        string // verification that was named
}

type openRow struct {
	id    uuid.UUID
	until time.Time // the deadline that was told; a later refusal is another story
}

func keyOf(row audit.Send) refusalKey {
	return refusalKey{row.App, row.Channel, row.Purpose, row.Recipient, row.BlockedBy, row.IP, row.VerificationID}
}

// maxOpen bounds how long a row is added to, so that what is remembered stays small.
const maxOpen = 10 * time.Minute

// maxPending bounds memory under attack; what does not fit is counted and reported.
const maxPending = 50_000

func newRefusals() *refusals {
	return &refusals{pending: map[refusalKey]audit.Send{}, rows: map[refusalKey]openRow{}}
}

func (r *refusals) add(row audit.Send, now time.Time) {
	key := keyOf(row)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.pending[key]; ok {
		p.Count += row.Count
		p.RetryAfter = row.RetryAfter
		r.pending[key] = p
		return
	}
	if len(r.pending) >= maxPending {
		r.lost += row.Count
		return
	}
	open, ok := r.rows[key]
	if !ok || !now.Before(open.until) {
		id, err := r.ids.New(now)
		if err != nil {
			r.lost += row.Count
			return
		}
		open = openRow{id: id, until: now.Add(min(row.RetryAfter, maxOpen))}
		r.rows[key] = open
	}
	row.ID = open.id
	r.pending[key] = row
}

// take empties the batch and forgets rows whose deadline has passed.
func (r *refusals) take(now time.Time) (batch []audit.Send, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.pending {
		batch = append(batch, row)
	}
	clear(r.pending)
	for key, open := range r.rows {
		if !now.Before(open.until) {
			delete(r.rows, key)
		}
	}
	lost, r.lost = r.lost, 0
	return batch, lost
}

// flushRefusals writes what has gathered. What the log does not take goes back into the next batch.
func (s *Service) flushRefusals(ctx context.Context) {
	batch, lost := s.refusals.take(s.Now())
	if lost > 0 {
		s.Logger.Error("refusals were not recorded: too many at once", "count", lost)
	}
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	if err := s.Log.Refused(ctx, batch); err != nil {
		s.Logger.Warn("refusals wait for the log", "count", len(batch), "error", err)
		for _, row := range batch {
			s.refusals.putBack(row)
		}
	}
}

// putBack keeps the row's ID, so that a write that arrived after all is at most counted again, never lost.
func (r *refusals) putBack(row audit.Send) {
	key := keyOf(row)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.pending[key]; ok {
		row.Count += p.Count
		row.RetryAfter = p.RetryAfter
	}
	r.pending[key] = row
}
