// Package refusals collects refused requests and writes them to the database in batches, so that an
// attack doesn't cost a write for each request, and no response waits for the database.
//
// A refusal by a rule on the recipient gets a row of that recipient, which counts further refusals
// until its deadline. Once a wider rule, such as one on a network, is used up, a client can cause
// refusals for any number of recipients. So only the first recipients of a network get rows of
// their own, for support to find; the other recipients share a row. Memory is bounded the same way:
// beyond a bound, refusals are counted in shared rows, so that none is left out. Each replica has
// its own rows.
package refusals

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Database is implemented by sqldb.DB.
type Database interface {
	RecordRefusals(ctx context.Context, refusals []store.SendOrRefusal) error
}

// Batch buffers refusals until they are written. Safe for concurrent use.
type Batch struct {
	db     Database
	logger *slog.Logger
	now    func() time.Time

	flushing chan struct{} // has an element while a write is under way
	mu       sync.Mutex
	own      map[refusalKey]*openRow // each of one recipient
	shared   map[refusalKey]*openRow
	networks map[networkKey]*firstRecipientCounter
	first    int // how many rows in own have first set
	lost     int // refusals that no row could count
	ids      store.IDGenerator
}

// refusalKey identifies a row: one row counts all refusals with the same key. Shared rows have no
// recipient.
type refusalKey struct {
	app          string
	channel      recipient.Channel
	purpose      string
	recipient    recipient.Hash
	rule         string
	ip           string
	verification string // the verification that the request named
}

func keyOf(row store.SendOrRefusal) refusalKey {
	return refusalKey{row.App, row.Channel, row.Purpose, row.Recipient, row.BlockedBy, row.Network, row.VerificationID}
}

// networkKey identifies a firstRecipientCounter. Each app and rule counts a network separately.
type networkKey struct{ app, rule, ip string }

type firstRecipientCounter struct {
	n     int       // recipients with rows of their own
	until time.Time // a later refusal starts a new count
}

// openRow is a row that still counts refusals. Its Count is the number of refusals that aren't in
// the database yet.
type openRow struct {
	store.SendOrRefusal
	until    time.Time               // a later refusal opens a new row
	written  time.Time               // when it was last taken to be written; zero: never
	first    bool                    // the recipient is one of the first of its network
	distinct map[recipient.Hash]bool // recipients of a shared row, at most store.ManyRecipients
}

// These constants bound the memory. A row takes about 1 KB, and the recipients of a shared row take
// about 5 KB.
const (
	MaxOwnRowsPerNetwork  = 50               // for the first recipients of one network, for each app and rule
	maxFirstRecipientRows = 5_000            // for the first recipients of all networks
	maxOwnRows            = 20_000           // for all recipients
	maxSharedRows         = 2_000            // beyond that, networks share rows; see findOrOpenSharedRow
	maxNetworks           = 2_000            // networks whose first recipients are counted
	maxOpenTime           = 10 * time.Minute // the longest time for which a row is open
	// minOpenTime keeps a shared row, and the count of a network's first recipients, from lasting
	// only as long as the refusal's wait. A wider rule may refuse for less than a second, and would
	// need a new row each second.
	minOpenTime = time.Minute
)

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

// findOrOpenRow returns nil if no ID could be made.
func (b *Batch) findOrOpenRow(row store.SendOrRefusal, scope quota.Scope, now time.Time) *openRow {
	if open := b.own[keyOf(row)]; open.accepts(now) {
		return open
	}
	// a rule that counts by recipient refuses only after this recipient's places have been used up
	if scope == quota.Recipient || scope == policy.FailuresScope || scope == policy.BackoffScope {
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

// accepts reports whether the row counts further refusals: until its deadline and, after that,
// while some of them are not in the database. A nil row doesn't.
func (o *openRow) accepts(now time.Time) bool {
	return o != nil && (now.Before(o.until) || o.Count > 0)
}

// findOrAddCounter returns the counter of the row's network; a new one ends at until. It returns
// nil beyond maxNetworks.
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

// findOrOpenSharedRow returns the shared row of the refusal's network or, beyond maxSharedRows, the
// one of all networks with the same app, channel, purpose and rule. It returns nil if no ID could
// be made.
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

// takeUnwritten returns the rows to write, and resets their counts: rows with unwritten refusals
// that were never written, that were last written the time ago or more before now, or whose
// deadline has passed. It deletes rows that are past their deadline and have nothing left to write.
// lost is the number of refusals that no row could count.
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

// drain returns the row to write, and resets its count. putBack undoes that.
func (o *openRow) drain() store.SendOrRefusal {
	if o.distinct != nil {
		o.Recipients = len(o.distinct)
	}
	row := o.SendOrRefusal
	o.Count = 0
	return row
}

// putBack counts a batch again after a failed write. If the database did write it, these refusals
// count twice, but none is lost.
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

// rewriteAfter is the shortest time between two writes of a row. In a flood on a thousand
// recipients, each may have several refusals a second.
const rewriteAfter = 5 * time.Second

// rowsAtOnce bounds a transaction, so that only the last rows are lost if a stop runs out of time.
const rowsAtOnce = 1000

// WriteDue writes a row soon after its first refusal, and further refusals at least rewriteAfter
// later.
func (b *Batch) WriteDue(ctx context.Context) { b.write(ctx, rewriteAfter) }

// Flush writes all refusals that are not yet written, whenever their rows were last written.
func (b *Batch) Flush(ctx context.Context) { b.write(ctx, 0) }

// write keeps the rows for the next write if the database fails. It waits for a write under way,
// and does nothing if ctx ends meanwhile.
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
