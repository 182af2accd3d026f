package console

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// tail finds the rows of one stream that are new or have changed: it polls the database, and so
// sees the rows of every replica.
type tail struct {
	db     database
	filter store.Filter
	newest time.Time               // when the newest row that was read was logged, on the database's clock
	seen   map[uuid.UUID]store.Row // as they were read last: those that a look may read again
	turn   bool                    // the last look read the rows that may change
}

// Bounds of what a look reads.
const (
	pollTimeout   = 5 * time.Second
	maxPolledRows = 500              // rows
	pollOverlap   = 2 * time.Second  // rows are committed in another order than they are numbered; none takes longer
	maxClockLag   = time.Minute      // how far the database's clock may be behind this process's
	resumeOverlap = 30 * time.Second // before the place where a stream continues; these rows may have changed
	watchPeriod   = 20 * time.Minute // how long a row's changes are looked for
)

// begin reads the rows that are on the page already, and returns those that the client may not
// know, oldest first: rows after from, and those shortly before it. Without from there are none.
// gap: rows before these were left out.
func (t *tail) begin(ctx context.Context, from *store.Mark, now time.Time) (rows []store.Row, gap bool, err error) {
	since := now.Add(-watchPeriod)
	if from == nil {
		_, _, err = t.readSince(ctx, since, since)
		return nil, false, err
	}
	place := from.At.Add(-resumeOverlap)
	if place.Before(since) {
		since = place
	}
	rows, gap, err = t.readSince(ctx, since, place)
	return slices.DeleteFunc(rows, func(s store.Row) bool { return s.LoggedAt.Before(place) }), gap, err
}

// poll makes one query, for the newest rows or, in turn, for those that may have changed. It
// returns those that are new or have changed, oldest first: rows that match the filter, or did
// before. gap: more came than a look reads, and rows before these were left out.
func (t *tail) poll(ctx context.Context, now time.Time) (rows []store.Row, gap bool, err error) {
	open := t.forget()
	if t.turn = !t.turn && len(open) > 0; !t.turn {
		since := now.Add(-maxClockLag)
		if late := t.newest.Add(-pollOverlap); late.After(since) {
			since = late
		}
		return t.readSince(ctx, since, t.newest)
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	rows, err = t.db.SendsByID(ctx, open)
	return t.remember(rows), false, err
}

// readSince reads the newest rows since then, as look. gap: not all rows after known were read.
func (t *tail) readSince(ctx context.Context, since, known time.Time) (rows []store.Row, gap bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	f := t.filter
	f.Status, f.Provider = "", "" // they change
	f.From, f.Limit = since, maxPolledRows
	rows, err = t.db.Sends(ctx, f)
	gap = len(rows) == maxPolledRows && rows[maxPolledRows-1].LoggedAt.After(known)
	return t.remember(rows), gap, err
}

// remember remembers rows and returns those to tell.
func (t *tail) remember(rows []store.Row) (told []store.Row) {
	slices.SortFunc(rows, store.ByLogged)
	for _, row := range rows {
		before, known := t.seen[row.ID]
		if (!known || hasChanged(before, row)) && (t.filter.Matches(row) || known && t.filter.Matches(before)) {
			told = append(told, row)
		}
		t.seen[row.ID] = row
		if row.LoggedAt.After(t.newest) {
			t.newest = row.LoggedAt
		}
	}
	return told
}

// forget drops the rows that no look reads again, and returns the IDs of those that may change:
// first those under way, which end for certain, then the newest.
func (t *tail) forget() (open []uuid.UUID) {
	rows := slices.SortedFunc(maps.Values(t.seen), func(a, b store.Row) int {
		switch underWay := a.Status.InFlight(); {
		case underWay == b.Status.InFlight():
			return store.ByLogged(b, a)
		case underWay:
			return -1
		}
		return 1
	})
	for _, row := range rows {
		age := t.newest.Sub(row.LoggedAt)
		if mayChange(row) && age <= watchPeriod && len(open) < maxPolledRows {
			open = append(open, row.ID)
		} else if age > 2*pollOverlap {
			delete(t.seen, row.ID)
		}
	}
	return open
}

// mayChange reports whether a row may still change: it is in flight, a recent refusal, or a text
// message without a receipt.
func mayChange(s store.Row) bool {
	return s.Status.InFlight() || s.Status == store.Refused ||
		s.Channel == recipient.SMS && (s.Status == store.Sent || s.Status == store.Unknown ||
			s.Status == store.Undelivered)
}

func hasChanged(a, b store.Row) bool {
	return a.Status != b.Status || a.Reason != b.Reason || a.Attempt != b.Attempt ||
		a.Count != b.Count || a.Recipients != b.Recipients || a.ProviderCode != b.ProviderCode
}
