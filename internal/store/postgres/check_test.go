package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/storetest"
)

// newCheckCall returns a check for a batch.
func newCheckCall(c store.CheckRequest) *checkCall {
	return batch.NewCall[store.CheckRequest, store.CheckAnswer](c, 0)
}

// If the COMMIT of a check was sent but not answered, the outcome is unknown, and the check is not
// repeated. A check that was lost earlier is repeated once.
func TestPostgresLostChecks(t *testing.T) {
	for _, c := range []struct {
		name                     string
		cuts                     cuts
		ok, uncertain            bool
		wantCounted, wantCommits int // checks in the row; commits that were sent, and first trips that were cut
	}{
		{"request lost", cuts{mode: cutRequest, times: 1}, false, true, 0, 1},
		{"reply lost", cuts{mode: cutReply, times: 1}, false, true, 1, 1},
		{"reply to the commit lost", cuts{mode: cutBefore, times: 1}, false, true, 1, 1},
		{"lost after the reply to the commit", cuts{mode: cutAfter, times: 1}, true, false, 1, 1},
		{"first trip lost", cuts{mode: cutAny, times: 1}, true, false, 1, 2},
		{"first trip lost, then no server", cuts{mode: cutAny, times: 1, thenUnreachable: true}, false, false, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, p := faultFixture(t)
			v := f.Admit(t, f.Intent(1)).Verification
			p.arm(c.cuts)
			got, err := f.Check(t.Context(), storetest.Right(v.ID))
			commits, _ := p.seen()
			p.arm(cuts{})
			storetest.Equal(t, "approved, uncertain, commits", []any{got.Approved, errors.Is(err, fault.Uncertain), commits},
				[]any{c.ok, c.uncertain, c.wantCommits})
			if !c.ok {
				storetest.Is(t, err, fault.Unavailable)
			}
			storetest.Equal(t, "counted", f.Code(t, v.ID).Attempts, c.wantCounted)
		})
	}
}

// A change of a verification between the round trips of its check waits, and then sees what the
// check has done.
func TestPostgresBetweenTheTripsOfACheck(t *testing.T) {
	f, db, other := betweenOn(t, borrowMigrated(t)+unhurried)
	for n, change := range []func(v store.Verification) error{
		func(v store.Verification) error {
			did, err := other.Cancel(t.Context(), v.ID)
			if did {
				t.Error("canceled after it was approved")
			}
			return err
		},
		func(v store.Verification) error { return other.Erase(t.Context(), v.Recipient, time.Hour, f.Act()) },
		func(v store.Verification) error {
			got, err := other.Check(t.Context(), storetest.Right(v.ID))
			if got.Counted {
				t.Error("a second right check counts")
			}
			return err
		},
		func(v store.Verification) error {
			return other.ResetCounters(t.Context(), []store.SendBucket{{App: v.App, Channel: v.Channel, Recipient: v.Recipient}}, f.Act())
		},
	} {
		v := f.Admit(t, f.Intent(n)).Verification
		done := make(chan error, 1)
		runBetweenTrips(db, func() {
			go func() { done <- change(v) }()
			servertest.Await(t, "a wait for the check", func() bool { return len(done) > 0 || someSessionWaits(t, other) })
			if len(done) > 0 { // Errorf, because this isn't the test's own goroutine
				t.Errorf("%d ended before the check", n)
			}
		})
		got := storetest.Must(db.Check(t.Context(), storetest.Right(v.ID)))(t)
		storetest.OK(t, <-done)
		row := f.Code(t, v.ID)
		storetest.Equal(t, "approved, canceled", []any{got.Approved, row.ApprovedAt, row.CanceledAt, row.Attempts},
			[]any{true, got.Verification.ApprovedAt, time.Time{}, 1})
	}
}

// The second trip counts no check of a verification that has ended since the first trip. The check
// gets an error that says that nothing was written.
func TestPostgresCheckCountsNothingOnceEnded(t *testing.T) {
	f, db, _ := betweenFixture(t)
	for n, ended := range []string{
		"approved_at = clock_timestamp()", "canceled_at = clock_timestamp()", "attempts = max_attempts",
		"expires_at = created_at",
	} {
		v := f.Admit(t, f.Intent(n)).Verification
		conn := storetest.Must(db.writers.Acquire(t.Context()))(t)
		list, _, err := db.decideChecks(t.Context(), conn, false, []*checkCall{newCheckCall(storetest.Right(v.ID))})
		storetest.OK(t, err)
		exec(t, conn.Conn(), `UPDATE verifications SET `+ended+` WHERE id = '`+v.ID+`'`) // in the same transaction
		want := queryValue[time.Time](t, conn, `SELECT coalesce(approved_at, 'epoch') FROM verifications WHERE id = $1`, v.ID)
		_, err = db.writeChecks(t.Context(), conn, list)
		conn.Release()
		storetest.OK(t, err)
		storetest.Certain(t, list[0].Err)
		storetest.Equal(t, ended, len(f.Code(t, v.ID).Checks), 0)
		got := queryValue[time.Time](t, db.pool, `SELECT coalesce(approved_at, 'epoch') FROM verifications WHERE id = $1`, v.ID)
		storetest.Equal(t, ended, got, want)
	}
}

// A batch decides the checks of a recipient one after the other. A check that only the database
// rejects fails alone.
func TestPostgresChecksInABatch(t *testing.T) {
	f, db, _ := betweenFixture(t)
	taken := f.NewEvent("verification.approved")
	first := f.Admit(t, f.Intent(0)).Verification
	storetest.Must(f.Check(t.Context(), storetest.Right(first.ID, taken)))(t)
	var all []*checkCall
	add := func(c store.CheckRequest) { all = append(all, newCheckCall(c)) }
	for range 2 {
		for n := range 3 {
			add(storetest.Wrong(f.Admit(t, f.Intent(1+n)).Verification.ID))
		}
	}
	add(storetest.Wrong("unknown"))
	add(storetest.Right(first.ID))
	add(storetest.Right(f.Admit(t, f.Intent(9)).Verification.ID, taken)) // with the ID of an event that exists
	db.checkBatch(all)
	for i, x := range all {
		switch i {
		case 6:
			storetest.Is(t, x.Err, fault.NotFound)
		case 8:
			storetest.Certain(t, x.Err)
			storetest.Equal(t, "counted", f.Code(t, x.In.ID).Attempts, 0)
		default:
			storetest.OK(t, x.Err)
			storetest.Equal(t, "counted", x.Answer.Counted, i < 6)
		}
	}
}

// Checks and resends lock verifications in the order of their IDs, however their batches are
// composed.
func TestPostgresVerificationsAreLockedInOrder(t *testing.T) {
	f, db, other := betweenFixture(t)
	var ids []string
	held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	for n := range 2 {
		ids = append(ids, f.Admit(t, f.Intent(n, held)).Verification.ID)
	}
	first, last := slices.Min(ids), slices.Max(ids)
	for name, run := range map[string]func(){
		"checks": func() {
			db.checkBatch([]*checkCall{newCheckCall(storetest.Wrong(last)), newCheckCall(storetest.Wrong(first))})
		},
		"resends": func() {
			var all []*beginCall
			for n := range 2 {
				all = append(all, newBeginCall(t, f.Intent(1-n, storetest.Joining(ids[1-n]))))
			}
			db.beginBatch(all)
		},
		"resends, one of which names none": func() {
			db.beginBatch([]*beginCall{newBeginCall(t, f.Intent(1, storetest.Joining(last))), newBeginCall(t, f.Intent(0, held))})
		},
	} {
		holding := storetest.Must(other.pool.Begin(t.Context()))(t)
		storetest.Must(holding.Exec(t.Context(), `SELECT FROM verifications WHERE id = $1 FOR UPDATE`, first))(t)
		done := make(chan struct{})
		go func() { defer close(done); run() }()
		servertest.Await(t, "a wait for the first row", func() bool { return someSessionWaits(t, other) })
		free := storetest.Must(other.pool.Begin(t.Context()))(t)
		if _, err := free.Exec(t.Context(), `SELECT FROM verifications WHERE id = $1 FOR UPDATE NOWAIT`, last); err != nil {
			t.Errorf("%s: the last row is locked before the first: %v", name, err)
		}
		for _, tx := range []pgx.Tx{free, holding} {
			storetest.OK(t, tx.Rollback(t.Context()))
		}
		<-done
	}
}

// Of two checks of one recipient in a batch, the second is decided after the first was written.
// Otherwise the two could exceed rowrules.FailedCheckLimit.
func TestPostgresChecksOfOneRecipientAreSerial(t *testing.T) {
	f, db, _ := betweenFixture(t)
	open := func() string { return f.Admit(t, f.Intent(1)).Verification.ID }
	for tries := 19; tries > 0; tries -= 5 { // leaves one of the recipient's 20 tries
		id := open()
		for range min(tries, 5) {
			storetest.Must(db.Check(t.Context(), storetest.Wrong(id)))(t)
		}
	}
	two := []*checkCall{newCheckCall(storetest.Wrong(open())), newCheckCall(storetest.Wrong(open()))}
	db.checkBatch(two)
	storetest.Equal(t, "counted", []bool{two[0].Answer.Counted, two[1].Answer.Counted}, []bool{true, false})
}

// Checks take the locks on the checks of recipients in the order of their keys.
func TestPostgresTriesAreLockedInOrder(t *testing.T) {
	f, db, other := betweenOn(t, borrowMigrated(t)+unhurried)
	var all []*checkCall
	for n := range 4 {
		all = append(all, newCheckCall(storetest.Wrong(f.Admit(t, f.Intent(n)).Verification.ID)))
	}
	keys := storetest.Must(pgx.CollectRows(storetest.Must(other.pool.Query(t.Context(), `
SELECT hashtextextended(app || chr(31) || channel || chr(31) || encode(recipient, 'hex'), 1) FROM verifications ORDER BY 1`))(t),
		pgx.RowTo[int64]))(t)
	held := storetest.Must(other.pool.Begin(t.Context()))(t)
	storetest.Must(held.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, keys[1]))(t)
	done := make(chan struct{})
	go func() { defer close(done); db.checkBatch(all) }()
	servertest.Await(t, "a wait for the second key", func() bool { return someSessionWaits(t, other) })
	var free []bool
	for _, key := range keys {
		free = append(free, queryValue[bool](t, held, `SELECT pg_try_advisory_xact_lock($1)`, key))
	}
	storetest.OK(t, held.Rollback(t.Context()))
	<-done
	storetest.Equal(t, "free, or held by this test", free, []bool{false, true, true, true})
}
