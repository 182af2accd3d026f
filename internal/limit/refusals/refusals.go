// Package refusals collects refused requests and writes them to the database in batches. So an
// attack does not cost one write for each request, and no response waits for the database. Package
// verification adds refusals, and package jobs calls WriteDue.
//
// A refusal by a rule that counts by recipient gets a row of this recipient. The row counts further
// refusals until the row's deadline. A rule of a wider scope, such as a network, is different: once
// its limit is reached, a client can cause refusals for any number of recipients. So only the first
// recipients of a network have their own rows, which support can find. The other recipients of the
// network share one row.
//
// The number of rows in memory is limited. When a limit is reached, further refusals are counted in
// shared rows, so that no refusal is omitted. Each replica has its own rows.
package refusals

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Database writes the rows. Implementation: sqldb.DB.
type Database interface {
	RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error
}

// Batch collects refusals until they are written to the database. Safe for concurrent use.
type Batch struct {
	db     Database
	logger *slog.Logger
	now    func() time.Time

	flushing chan struct{} // semaphore: one Flush at a time
	mu       sync.Mutex
	own      map[refusalKey]*openRow // rows of one recipient each
	shared   map[refusalKey]*openRow
	networks map[networkKey]*firstRecipientCounter
	first    int // number of rows in own that are of first recipients of networks
	lost     int // number of refusals that could not be counted in a row
	ids      store.IDGenerator
}

// refusalKey is the key of a row. One row counts all refusals with the same key. A shared row has
// no recipient.
type refusalKey struct {
	app          string
	channel      recipient.Channel
	purpose      string
	recipient    recipient.Hash
	rule         string
	ip           string
	verification string // ID of the verification that the request named
}

func keyOf(row store.SendOrRefusal) refusalKey {
	return refusalKey{row.App, row.Channel, row.Purpose, row.Recipient, row.BlockedBy, row.Network, row.VerificationID}
}

// networkKey is the key of a firstRecipientCounter. For each app and rule, the first recipients of
// a network are counted separately.
type networkKey struct{ app, rule, ip string }

// firstRecipientCounter counts the first recipients of a network.
type firstRecipientCounter struct {
	n     int       // recipients with rows of their own
	until time.Time // deadline: a later refusal starts a new count
}

// openRow is a row that counts further refusals. Its Count is the number of refusals that are not
// yet in the database.
type openRow struct {
	store.SendOrRefusal
	until    time.Time               // deadline: a later refusal opens a new row
	written  time.Time               // when the row was last taken to be written; zero: never
	first    bool                    // the recipient is one of the first recipients of its network
	distinct map[recipient.Hash]bool // recipients of a shared row, at most store.ManyRecipients; nil for other rows
}

// These constants bound the memory. A row takes about 1 KB. The recipients of a shared row take
// about 5 KB.
const (
	MaxOwnRowsPerNetwork  = 50               // own rows of a rule for the first recipients of one network
	maxFirstRecipientRows = 5_000            // own rows for the first recipients of all networks
	maxOwnRows            = 20_000           // own rows of recipients, of all rules
	maxSharedRows         = 2_000            // shared rows of networks; beyond, all networks share one row for each rule
	maxNetworks           = 2_000            // networks whose first recipients are counted
	maxOpenTime           = 10 * time.Minute // longest time for which a row stays open
	// minOpenTime is the minimum time for which a network's first recipients are counted and a
	// shared row stays open. Without this minimum, the time would be how long the refusing rule
	// makes the client wait. A rule with a wider scope may make the client wait for less than a
	// second, and each second would need a new row.
	minOpenTime = time.Minute
)

// New makes an empty batch.
func New(db Database, now func() time.Time, logger *slog.Logger) *Batch {
	return &Batch{
		db: db, now: now, logger: logger, flushing: make(chan struct{}, 1),
		own: map[refusalKey]*openRow{}, shared: map[refusalKey]*openRow{}, networks: map[networkKey]*firstRecipientCounter{},
	}
}

// Add counts a request that a rule of the scope refused.
func (b *Batch) Add(row store.SendOrRefusal, scope quota.Scope) { b.addAt(row, scope, b.now()) }

func (b *Batch) addAt(row store.SendOrRefusal, scope quota.Scope, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.findOrOpenRow(row, scope, now)
	if open == nil {
		b.lost += row.Count
		return
	}
	open.Count += row.Count
	open.RetryAfter = row.RetryAfter
	if open.distinct != nil && len(open.distinct) < store.ManyRecipients {
		open.distinct[row.Recipient] = true
	}
}

// findOrOpenRow returns the open row for a refusal. If there is none, it opens a row. If no ID
// could be made, it returns nil.
func (b *Batch) findOrOpenRow(row store.SendOrRefusal, scope quota.Scope, now time.Time) *openRow {
	if open := b.own[keyOf(row)]; open.accepts(now) {
		return open
	}
	// a rule that counts by recipient refuses only after this recipient's places have been used up
	if scope == quota.Recipient || scope == quota.Failures || scope == quota.Backoff {
		if len(b.own) < maxOwnRows {
			return b.openNewRow(b.own, row, now.Add(min(row.RetryAfter, maxOpenTime)), now)
		}
		return b.findOrOpenSharedRow(row, now)
	}
	until := now.Add(min(max(row.RetryAfter, minOpenTime), maxOpenTime))
	if f := b.findOrAddCounter(row, until, now); f != nil && f.n < MaxOwnRowsPerNetwork && b.first < maxFirstRecipientRows &&
		len(b.own) < maxOwnRows {
		open := b.openNewRow(b.own, row, f.until, now)
		if open != nil {
			open.first = true
			f.n++
			b.first++
		}
		return open
	}
	return b.findOrOpenSharedRow(row, now)
}

// accepts reports whether the row counts further refusals. A row accepts refusals until its
// deadline. After the deadline, it still accepts refusals while some of its refusals are not in the
// database. If o is nil, accepts returns false.
func (o *openRow) accepts(now time.Time) bool {
	return o != nil && (now.Before(o.until) || o.Count > 0)
}

// findOrAddCounter returns the counter of the row's network, which counts the recipients of this
// network that have rows of their own. If there is no counter, or if its deadline has passed,
// findOrAddCounter makes a new counter. The parameter `until` is the deadline of the new counter.
// findOrAddCounter returns nil if there would be more than maxNetworks counters.
func (b *Batch) findOrAddCounter(row store.SendOrRefusal, until, now time.Time) *firstRecipientCounter {
	key := networkKey{row.App, row.BlockedBy, row.Network}
	f := b.networks[key]
	switch {
	case f == nil && len(b.networks) >= maxNetworks:
		return nil
	case f == nil || !now.Before(f.until):
		f = &firstRecipientCounter{until: until}
		b.networks[key] = f
	}
	return f
}

// findOrOpenSharedRow returns the shared row of the refusal's network. If there is none, it opens a
// row. If maxSharedRows rows are open, it returns the row that all networks share. Each combination
// of app, channel, purpose and rule has at most one such row. If no ID could be made,
// findOrOpenSharedRow returns nil.
func (b *Batch) findOrOpenSharedRow(row store.SendOrRefusal, now time.Time) *openRow {
	row.Recipient, row.To, row.VerificationID, row.Locale, row.Country, row.Prefix = recipient.Hash{}, "",
		"", "", "", ""
	if open := b.shared[keyOf(row)]; open.accepts(now) {
		return open
	}
	if len(b.shared) >= maxSharedRows {
		row.Network = ""
		if open := b.shared[keyOf(row)]; open.accepts(now) {
			return open
		}
	}
	open := b.openNewRow(b.shared, row, now.Add(min(max(row.RetryAfter, minOpenTime), maxOpenTime)), now)
	if open != nil {
		open.distinct = map[recipient.Hash]bool{}
	}
	return open
}

func (b *Batch) openNewRow(rows map[refusalKey]*openRow, row store.SendOrRefusal, until, now time.Time) *openRow {
	id, err := b.ids.New(now)
	if err != nil {
		return nil
	}
	key := keyOf(row)
	b.closeRow(rows, key)
	row.ID, row.Count = id, 0
	rows[key] = &openRow{SendOrRefusal: row, until: until}
	return rows[key]
}

func (b *Batch) closeRow(rows map[refusalKey]*openRow, key refusalKey) {
	if open := rows[key]; open != nil && open.first {
		b.first--
	}
	delete(rows, key)
}

// takeUnwritten returns the due rows that have unwritten refusals, and resets their counts. A row
// is due if it was never written, if its deadline has passed, or if its last write was at least the
// duration `ago` before the parameter `now`. takeUnwritten also deletes each network whose deadline
// has passed, and each row without unwritten refusals whose deadline has passed. The result lost is
// the number of refusals that no row could count.
func (b *Batch) takeUnwritten(now time.Time, ago time.Duration) (batch []store.SendOrRefusal, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rows := range []map[refusalKey]*openRow{b.own, b.shared} {
		for key, open := range rows {
			ended := !now.Before(open.until)
			switch {
			case open.Count > 0 && (ended || now.Sub(open.written).Abs() >= ago):
				open.written = now
				batch = append(batch, open.drain())
			case open.Count == 0 && ended:
				b.closeRow(rows, key)
			}
		}
	}
	for key, f := range b.networks {
		if !now.Before(f.until) {
			delete(b.networks, key)
		}
	}
	lost, b.lost = b.lost, 0
	return batch, lost
}

// drain returns the row to write to the database, and resets its count. putBack undoes the reset.
func (o *openRow) drain() store.SendOrRefusal {
	if o.distinct != nil {
		o.Recipients = len(o.distinct)
	}
	row := o.SendOrRefusal
	o.Count = 0
	return row
}

// putBack adds the counts of a batch to the open rows again after a failed write. If the database
// did the write although it reported an error, these refusals are counted twice. But no refusal is
// lost.
func (b *Batch) putBack(batch []store.SendOrRefusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range batch {
		rows := b.own
		if row.Recipients > 0 {
			rows = b.shared
		}
		if open := rows[keyOf(row)]; open != nil {
			open.Count += row.Count
			open.written = time.Time{}
		} else {
			b.lost += row.Count
		}
	}
}

// rewriteAfter is the shortest time between two writes of an open row, that is, a row that still
// counts further refusals. In a flood on a thousand recipients, each recipient may have several
// refusals a second. A write for each refusal would be too many.
const rewriteAfter = 5 * time.Second

// rowsAtOnce bounds the rows of one transaction. So if a stop runs out of time, only the last rows
// are lost.
const rowsAtOnce = 1000

// WriteDue writes each row soon after its first refusal. It writes further refusals of the row at
// least rewriteAfter later.
func (b *Batch) WriteDue(ctx context.Context) { b.write(ctx, rewriteAfter) }

// Flush writes all that was collected.
func (b *Batch) Flush(ctx context.Context) { b.write(ctx, 0) }

// write takes rows from takeUnwritten and writes them to the database. If the database fails, the
// rows stay in the batch for the next write. write first waits until another write has ended. If
// ctx ends during this wait, it does nothing.
func (b *Batch) write(ctx context.Context, ago time.Duration) {
	select {
	case b.flushing <- struct{}{}:
		defer func() { <-b.flushing }()
	case <-ctx.Done():
		return
	}
	batch, lost := b.takeUnwritten(b.now(), ago)
	if lost > 0 {
		b.logger.Error("refusals lost: too many waited for the database", "count", lost, logs.SeeDatabaseAway)
	}
	for len(batch) > 0 {
		part := batch[:min(len(batch), rowsAtOnce)]
		if err := b.db.RecordRefusals(ctx, part); err != nil {
			b.logger.Warn("could not store refusals; retrying", "count", len(batch), "error", err, logs.SeeDatabaseAway)
			b.putBack(batch)
			return
		}
		batch = batch[len(part):]
	}
}
