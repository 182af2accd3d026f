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

// tailPoller finds the new and changed rows of one stream. It polls the database, so it sees the
// rows of every replica.
type tailPoller struct {
	db     database
	filter store.Filter
	newest time.Time                         // the time of the newest row that was read, on the database's clock
	seen   map[uuid.UUID]store.SendOrRefusal // rows as last read, which a poll may read again
	turn   bool                              // the last poll read the rows that may change
}

// Bounds of what a poll reads.
const (
	pollTimeout   = 5 * time.Second
	maxPolledRows = 500              // of one query
	pollOverlap   = 2 * time.Second  // rows are committed out of order, but none this late
	maxClockLag   = time.Minute      // how far the database's clock may be behind this process's
	resumeOverlap = 30 * time.Second // before the place where a stream continues; these rows may have changed
	watchPeriod   = 20 * time.Minute // how long a row's changes are looked for
)

// begin reads the rows that the page already shows, so that later polls know them. It returns,
// oldest first, those that the client may not know: the rows after from and shortly before it;
// none without from. gap says that earlier rows are missing, since there were too many.
func (t *tailPoller) begin(ctx context.Context, from *store.Cursor, now time.Time) (rows []store.SendOrRefusal, gap bool, err error) {
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
	return slices.DeleteFunc(rows, func(s store.SendOrRefusal) bool { return s.LoggedAt.Before(place) }), gap, err
}

// poll makes one query: for the newest rows or, every other time, for those that may have changed.
// It returns, oldest first, the new and the changed rows that match the filter now or did before.
// gap says that earlier new rows are missing, since there were more than one poll reads.
func (t *tailPoller) poll(ctx context.Context, now time.Time) (rows []store.SendOrRefusal, gap bool, err error) {
	open := t.pruneAndListOpen()
	if t.turn = !t.turn && len(open) > 0; !t.turn {
		since := now.Add(-maxClockLag)
		if late := t.newest.Add(-pollOverlap); late.After(since) {
			since = late
		}
		return t.readSince(ctx, since, t.newest)
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	rows, _, err = t.db.SendsByID(ctx, open)
	return t.recordAndSelect(rows), false, err
}

// readSince reads the newest rows since a time and returns them as poll does. gap says that not all
// rows after known were read.
func (t *tailPoller) readSince(ctx context.Context, since, known time.Time) (rows []store.SendOrRefusal, gap bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	f := t.filter
	f.Status, f.Provider = "", "" // they change
	f.From, f.Limit = since, maxPolledRows
	rows, err = t.db.Sends(ctx, f)
	gap = len(rows) == maxPolledRows && rows[maxPolledRows-1].LoggedAt.After(known)
	return t.recordAndSelect(rows), gap, err
}

// recordAndSelect keeps rows as last read and returns those to write to the stream.
func (t *tailPoller) recordAndSelect(rows []store.SendOrRefusal) (told []store.SendOrRefusal) {
	slices.SortFunc(rows, store.CompareLogged)
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

// pruneAndListOpen drops the rows that no poll reads again. It returns the IDs of the rows that may
// change: first those under way, then the others, newest first.
func (t *tailPoller) pruneAndListOpen() (open []uuid.UUID) {
	rows := slices.SortedFunc(maps.Values(t.seen), func(a, b store.SendOrRefusal) int {
		switch underWay := a.Status.InFlight(); {
		case underWay == b.Status.InFlight():
			return store.CompareLogged(b, a)
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
func mayChange(s store.SendOrRefusal) bool {
	return s.Status.InFlight() || s.Status == store.Refused ||
		s.Channel == recipient.SMS && (s.Status == store.Sent || s.Status == store.Unknown ||
			s.Status == store.Undelivered)
}

func hasChanged(a, b store.SendOrRefusal) bool {
	return a.Status != b.Status || a.Reason != b.Reason || a.Attempt != b.Attempt ||
		a.Count != b.Count || a.Recipients != b.Recipients || a.ProviderCode != b.ProviderCode
}
