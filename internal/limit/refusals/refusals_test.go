package refusals

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

var refusedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// stranger returns a recipient whose hash is distributed like a keyed one.
func stranger(n int) recipient.Hash {
	random := rand.NewPCG(1, uint64(n))
	var h recipient.Hash
	binary.BigEndian.PutUint64(h[:8], random.Uint64())
	binary.BigEndian.PutUint64(h[8:], random.Uint64())
	return h
}

func refusal(n int, ip string) store.SendOrRefusal {
	return store.SendOrRefusal{Send: store.Send{
		App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: stranger(n),
		To: "a•••@example.com", Network: ip,
	}, Refusal: store.Refusal{BlockedBy: "rule", RetryAfter: time.Hour, Count: 1}}
}

// drained fails the test unless this number of own rows and of shared rows is to be written at the
// instant at, for this number of requests, and no refusal is lost. It returns the rows.
func drained(t *testing.T, what string, r *Batch, at time.Time, own, shared, requests int) []store.SendOrRefusal {
	t.Helper()
	batch, lost := r.takeUnwritten(at, 0)
	gotOwn, gotShared, gotRequests := storetest.SumRefusals(batch)
	storetest.Equal(t, what+": own rows, shared, requests, lost", []int{gotOwn, gotShared, gotRequests, lost},
		[]int{own, shared, requests, 0})
	return batch
}

// Refusals share a row until the deadline in the answer, but for ten minutes at most. If a wider
// rule refused, they share it for at least a minute.
func TestBatchSharesARowUntilTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name              string
		scope             quota.Scope
		retryAfter, after time.Duration
		same              bool
	}{
		{"before the deadline", quota.Recipient, time.Minute, time.Minute - 1, true},
		{"at the deadline", quota.Recipient, time.Minute, time.Minute, false},
		{"a day's rule, nine minutes later", quota.Recipient, 24 * time.Hour, maxOpenTime - 1, true},
		{"a day's rule, ten minutes later", quota.Recipient, 24 * time.Hour, maxOpenTime, false},
		{"rejections", policy.FailuresScope, time.Second, time.Second, false},
		{"a network's rule, before a minute has passed", quota.IP, time.Second, minOpenTime - 1, true},
		{"a network's rule, after a minute", quota.IP, time.Second, minOpenTime, false},
		{"an app's rule, ten minutes later", quota.App, 24 * time.Hour, maxOpenTime, false},
	} {
		r := New(nil, time.Now, nil)
		row := refusal(1, "")
		row.RetryAfter = c.retryAfter
		r.addAt(row, c.scope, refusedAt)
		first, _ := r.takeUnwritten(refusedAt, 0)
		r.addAt(row, c.scope, refusedAt.Add(c.after))
		second, _ := r.takeUnwritten(refusedAt.Add(c.after), 0)
		if len(first) != 1 || len(second) != 1 || (first[0].ID == second[0].ID) != c.same {
			t.Errorf("%s: %+v, %+v", c.name, first, second)
		}
	}
}

// MaxOwnRowsPerNetwork bounds the rows of every scope but those on the recipient, whose rules
// refuse only after a send: see TestRefusalsAreBoundedAndCounted.
func TestBatchBoundsRowsOfWiderRules(t *testing.T) {
	for _, scope := range []quota.Scope{
		quota.IP, quota.Network, quota.App, quota.Purpose, policy.CountryScope, policy.PrefixScope, quota.Global,
		"everything",
	} {
		r := New(nil, time.Now, nil)
		for i := range 1000 {
			r.addAt(refusal(i, "192.0.2.0/24"), scope, refusedAt)
			r.addAt(refusal(i, "192.0.2.0/24"), scope, refusedAt)
		}
		for _, row := range drained(t, string(scope), r, refusedAt, MaxOwnRowsPerNetwork, 1, 2000) {
			if row.Recipients > 0 && (!row.Recipient.IsZero() || row.To != "" || row.Count != 1900 ||
				row.Recipients != store.ManyRecipients) {
				t.Errorf("%s: the shared row is %+v", scope, row)
			}
		}
	}
}

// A network that fills its rows takes no rows from another network, app or rule. After the
// deadline, its count begins again.
func TestBatchHasRowsForEachNetwork(t *testing.T) {
	r := New(nil, time.Now, nil)
	app, rule := refusal(900, "192.0.2.0/24"), refusal(901, "192.0.2.0/24")
	app.App, rule.BlockedBy = "other", "other"
	for i := range 100 {
		r.addAt(refusal(i, "192.0.2.0/24"), quota.IP, refusedAt)
	}
	for _, row := range []store.SendOrRefusal{refusal(900, "198.51.100.0/24"), app, rule} {
		r.addAt(row, quota.IP, refusedAt)
	}
	drained(t, "three others", r, refusedAt, MaxOwnRowsPerNetwork+3, 1, 103)
	later := refusedAt.Add(maxOpenTime)
	r.takeUnwritten(later, 0)
	for i := range 100 {
		r.addAt(refusal(1000+i, "192.0.2.0/24"), quota.IP, later)
	}
	drained(t, "later", r, later, MaxOwnRowsPerNetwork, 1, 100)
}

// Whichever rule refuses and wherever requests come from, memory has a bound, and every request is
// counted in some row.
func TestRefusalsAreBoundedAndCounted(t *testing.T) {
	r := New(nil, time.Now, nil)
	for i := range maxOwnRows + 100 {
		r.addAt(refusal(i, ""), quota.Recipient, refusedAt)
	}
	drained(t, "own rules", r, refusedAt, maxOwnRows, 1, maxOwnRows+100)
	r = New(nil, time.Now, nil)
	const networks = 3 * maxSharedRows
	for i := range networks {
		for j := range MaxOwnRowsPerNetwork + 2 {
			r.addAt(refusal(i*100+j, fmt.Sprintf("2001:db8:%x::/48", i)), quota.IP, refusedAt)
		}
	}
	drained(t, "networks", r, refusedAt, maxFirstRecipientRows, maxSharedRows+1, networks*(MaxOwnRowsPerNetwork+2))
	later := refusedAt.Add(maxOpenTime)
	if r.takeUnwritten(later, 0); len(r.own)+len(r.shared)+len(r.networks)+r.first != 0 {
		t.Errorf("%d own, %d shared, %d networks and %d first ones are kept", len(r.own), len(r.shared), len(r.networks), r.first)
	}
}

// A shared row counts each of its recipients once, until there are too many.
func TestBatchCountsDistinctRecipients(t *testing.T) {
	r := New(nil, time.Now, nil)
	for i := range MaxOwnRowsPerNetwork {
		r.addAt(refusal(10_000+i, "192.0.2.0/24"), quota.IP, refusedAt)
	}
	n := 0
	for _, size := range []int{1, 2, 10, store.ManyRecipients - 1, store.ManyRecipients, store.ManyRecipients + 1, 1000} {
		for ; n < size; n++ {
			r.addAt(refusal(n, "192.0.2.0/24"), quota.IP, refusedAt)
			r.addAt(refusal(n/2, "192.0.2.0/24"), quota.IP, refusedAt) // a repeated recipient
		}
		rows, _ := r.takeUnwritten(refusedAt, 0)
		i := slices.IndexFunc(rows, func(row store.SendOrRefusal) bool { return row.Recipients > 0 })
		if got := rows[i].Recipients; got != min(size, store.ManyRecipients) {
			t.Errorf("%d recipients are %d", size, got)
		}
	}
}

// recordingDatabase is a database that stores the counts of all rows that it gets.
type recordingDatabase struct {
	counts []int
	err    error
}

func (d *recordingDatabase) RecordRefusals(_ context.Context, rows []store.SendOrRefusal) error {
	for _, row := range rows {
		d.counts = append(d.counts, row.Count)
	}
	return d.err
}

// A row is written at its first refusal, then once in five seconds, at its deadline, at a stop, and
// soon after a failed write. A clock that was set back delays no write.
func TestBatchRewritesAnOpenRowOnceInFiveSeconds(t *testing.T) {
	db, now := &recordingDatabase{}, refusedAt
	r := New(db, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	step := func(what string, after time.Duration, refusals int, write func(context.Context), want ...int) {
		t.Helper()
		db.counts, now = nil, now.Add(after)
		for range refusals {
			r.Add(refusal(1, ""), quota.Recipient)
		}
		write(t.Context())
		storetest.Equal(t, what, fmt.Sprint(db.counts), fmt.Sprint(want))
	}
	step("the first one", 0, 1, r.WriteDue, 1)
	step("half a second later", 500*time.Millisecond, 3, r.WriteDue)
	step("just before five seconds", rewriteAfter-501*time.Millisecond, 1, r.WriteDue)
	step("after five", time.Millisecond, 0, r.WriteDue, 4)
	step("none came", rewriteAfter, 0, r.WriteDue)
	step("one came", rewriteAfter, 1, r.WriteDue, 1)
	step("a stop", time.Second, 2, r.Flush, 2)
	db.err = context.DeadlineExceeded
	step("a write fails", rewriteAfter, 2, r.WriteDue, 2)
	db.err = nil
	step("it is repeated", time.Second/2, 0, r.WriteDue, 2)
	step("the clock is set back", -time.Minute, 1, r.WriteDue, 1)
	step("the row's deadline", refusedAt.Add(maxOpenTime).Add(-1).Sub(now), 1, r.WriteDue, 1)
	step("a refusal just before it", 0, 1, r.WriteDue)
	step("the deadline", 1, 0, r.WriteDue, 1)
}

// hung is a database that accepts a batch and does not answer.
type hung struct{ taken, release chan struct{} }

func (h hung) RecordRefusals(context.Context, []store.SendOrRefusal) error {
	h.taken <- struct{}{}
	<-h.release
	return nil
}

// While a write hangs, another Flush waits for it no longer than its own context lasts.
func TestBatchFlushHasDeadline(t *testing.T) {
	db := hung{make(chan struct{}), make(chan struct{})}
	r := New(db, time.Now, slog.New(slog.DiscardHandler))
	r.Add(refusal(1, ""), quota.Recipient)
	ended := make(chan struct{})
	go func() { defer close(ended); r.Flush(t.Context()) }()
	<-db.taken
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.Flush(gone)
	close(db.release)
	<-ended
}
