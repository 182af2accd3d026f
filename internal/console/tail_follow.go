package console

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// change is a row that is new, or that differs from the row as it was read before.
type change struct {
	now    store.Send
	before *store.Send // nil: it is new
}

// follower is the state of one run of follow.
type follower struct {
	*tail
	mark    store.Mark               // rows up to here have been read
	floor   store.Mark               // rows up to here were left out, and are not read again
	seen    map[uuid.UUID]store.Send // as they were last: those behind the mark that may come again, and those that may change
	watched []uuid.UUID              // those that may change, the oldest first
}

// follow publishes new and changed rows until ctx ends. It closes looked after its first look at the database.
func (t *tail) follow(ctx context.Context, looked chan<- struct{}) {
	f := &follower{tail: t, seen: map[uuid.UUID]store.Send{}}
	ticks := time.NewTicker(tailTick)
	defer ticks.Stop()
	away := false
	for begun := false; ; {
		err := f.poll(ctx, begun)
		if looked != nil {
			close(looked)
			looked = nil
		}
		begun = begun || err == nil
		if err != nil && ctx.Err() == nil && !away {
			t.logger.Warn("could not read new rows; retrying", "error", err)
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// poll reads new and changed rows and publishes them. Unless following has begun, it only finds the end of the list, since earlier rows are
// on the page.
func (f *follower) poll(ctx context.Context, begun bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*tailTick)
	defer cancel()
	if !begun {
		return f.skipToEnd(ctx)
	}
	changes, err := f.readChanged(ctx)
	if err != nil {
		return err
	}
	came, all, err := f.newRows(ctx)
	f.publish(append(changes, came...), false) // what was read is told, whatever came after it
	if err == nil && !all {
		if err = f.skipToEnd(ctx); err == nil {
			f.floor = f.mark
			f.publish(nil, true)
		}
	}
	f.forgetOld()
	return err
}

// skipToEnd moves the mark to the end of the list, and remembers the newest rows.
func (f *follower) skipToEnd(ctx context.Context) error {
	rows, err := f.db.Sends(ctx, store.Filter{Limit: tailLimit})
	slices.Reverse(rows)
	f.recordRows(rows)
	return err
}

// newRows returns the rows after the mark, and changed ones shortly before it, since some may have been committed late. all is false if
// there are more rows than one look reads.
func (f *follower) newRows(ctx context.Context) (changes []change, all bool, err error) {
	after := store.Mark{At: f.mark.At.Add(-overlap)}
	if isAfter(f.floor, after) {
		after = f.floor
	}
	all, err = f.readAfter(ctx, store.Filter{After: &after, Limit: tailLimit}, f.pages, func(rows []store.Send) {
		changes = append(changes, f.recordRows(rows)...)
	})
	return changes, all, err
}

// readAfter reads the rows after f.After, oldest first, and passes each page of them to take. It returns false if it stops at the maximum
// number of pages.
func (t *tail) readAfter(ctx context.Context, f store.Filter, pages int, take func([]store.Send)) (all bool, err error) {
	for range pages {
		rows, err := t.db.Sends(ctx, f)
		if err != nil {
			return false, err
		}
		slices.Reverse(rows)
		take(rows)
		if len(rows) < f.Limit {
			return true, nil
		}
		f.After = new(markOf(rows[len(rows)-1]))
	}
	return false, nil
}

// recordRows remembers rows, oldest first, and returns those that are new or changed.
func (f *follower) recordRows(rows []store.Send) (changes []change) {
	for _, row := range rows {
		before, known := f.seen[row.ID]
		if known && !differs(before, row) {
			continue
		}
		c := change{now: row}
		if known {
			c.before = &before
		} else if mayChange(row) {
			f.watched = append(f.watched, row.ID)
		}
		f.seen[row.ID] = row
		changes = append(changes, c)
		if m := markOf(row); isAfter(m, f.mark) {
			f.mark = m
		}
	}
	return changes
}

// readChanged reads the rows that may have changed.
func (f *follower) readChanged(ctx context.Context) ([]change, error) {
	f.watchFewer()
	if len(f.watched) == 0 {
		return nil, nil
	}
	rows, err := f.db.SendsByID(ctx, f.watched)
	if err != nil {
		return nil, err
	}
	changes := f.recordRows(rows)
	f.watched = slices.DeleteFunc(f.watched, func(id uuid.UUID) bool {
		return !mayChange(f.seen[id]) || f.mark.At.Sub(f.seen[id].LoggedAt) > watchFor
	})
	return changes, nil
}

// watchFewer drops the oldest watched rows over the limit, first those with an outcome, which may only wait for a receipt.
func (f *follower) watchFewer() {
	over := len(f.watched) - maxWatched
	f.watched = slices.DeleteFunc(f.watched, func(id uuid.UUID) bool {
		if over <= 0 || !awaitsReceipt(f.seen[id]) {
			return false
		}
		over--
		return true
	})
	if over > 0 {
		f.watched = f.watched[over:]
	}
}

// forgetOld drops the rows from seen that can't be read again.
func (f *follower) forgetOld() {
	watched := map[uuid.UUID]bool{}
	for _, id := range f.watched {
		watched[id] = true
	}
	for id, row := range f.seen {
		if f.mark.At.Sub(row.LoggedAt) > 2*overlap && !watched[id] {
			delete(f.seen, id)
		}
	}
}

// mayChange reports whether a row may still change: it is in flight, a recent refusal, or a text message without a receipt.
func mayChange(s store.Send) bool {
	return s.Status.InFlight() || s.Status == store.Refused || awaitsReceipt(s)
}

func awaitsReceipt(s store.Send) bool {
	return s.Channel == recipient.SMS && (s.Status == store.Sent || s.Status == store.Unknown || s.Status == store.Undelivered)
}

func differs(a, b store.Send) bool {
	return a.Status != b.Status || a.Reason != b.Reason || a.Attempt != b.Attempt ||
		a.Count != b.Count || a.Recipients != b.Recipients || a.ProviderCode != b.ProviderCode
}

// isAfter reports whether a stands behind b.
func isAfter(a, b store.Mark) bool {
	return a.At.After(b.At) || a.At.Equal(b.At) && slices.Compare(a.ID[:], b.ID[:]) > 0
}
