package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

// betweenFixture returns two replicas on one database and on the server's own clock. With once, a
// test can make a call between the two round trips of either replica.
func betweenFixture(t *testing.T) (f *storetest.Fixture, db, other *DB) {
	t.Helper()
	return betweenOn(t, borrowMigrated(t))
}

func betweenOn(t *testing.T, address string) (f *storetest.Fixture, db, other *DB) {
	t.Helper()
	db, other = openTest(t, address, serverClockSQL), openTest(t, address, serverClockSQL)
	return storetest.NewFixture(db).Beside(other), db, other
}

// unhurried is added to a URL, so that a session waits until the test has seen the wait. On a busy
// machine, the usual timeouts might end the session's transaction before.
const unhurried = "&lock_timeout=1min&idle_in_transaction_session_timeout=1min"

// tripTracer is a tracer that calls each of two functions once, between the two round trips of a
// Begin or a Check. It also counts the round trips that write outcomes.
type tripTracer struct {
	afterFirst   atomic.Pointer[func()] // as the first trip ends
	beforeSecond atomic.Pointer[func()] // as the second one begins
	outcomes     atomic.Int64
}

func tripTracerOf(db *DB) *tripTracer { return db.writers.Config().ConnConfig.Tracer.(*tripTracer) }

func (t *tripTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	trip := data.Batch.QueuedQueries
	if strings.Contains(trip[len(trip)-1].SQL, "DELETE FROM outbox") {
		t.outcomes.Add(1)
	}
	if strings.HasPrefix(trip[0].SQL, "BEGIN") || trip[len(trip)-1].SQL != "COMMIT" {
		return ctx // not the second of two trips
	}
	if call := t.beforeSecond.Swap(nil); call != nil {
		(*call)()
	}
	return ctx
}

func (*tripTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*tripTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (t *tripTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	if call := t.afterFirst.Swap(nil); call != nil {
		(*call)()
	}
}

func (*tripTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// runBetweenTrips makes the next Begin or Check of db call a function between its two round trips.
func runBetweenTrips(db *DB, call func()) { tripTracerOf(db).beforeSecond.Store(&call) }

// Other calls come between the two trips of a Begin that joins a verification. A check, an
// approval, a cancellation and a reset wait until the Begin is committed. A refund of the earlier
// send doesn't wait. In each case the Begin writes the verification's second send.
func TestPostgresBetweenTheTrips(t *testing.T) {
	f, db, other := betweenOn(t, borrowMigrated(t)+unhurried)
	withHolder := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	for kind := range 5 {
		first := f.Admit(t, f.Intent(kind, withHolder))
		in := f.Intent(kind, withHolder, storetest.WithRules(storetest.Rule(2, time.Hour)))
		done := make(chan error, 1)
		runBetweenTrips(db, func() {
			go func() { done <- changeMeanwhile(other, kind, first, f.Act()) }()
			servertest.Await(t, "an end, or a wait for the other one", func() bool { return len(done) > 0 || someSessionWaits(t, other) })
			if waited := len(done) == 0; waited != (kind != 4) { // a refund has nothing to wait for
				t.Errorf("%d waits: %v", kind, waited)
			}
		})
		begun := f.MustBegin(t, in)
		storetest.OK(t, <-done)
		storetest.Equal(t, "admitted", begun.Admitted, true)
		storetest.Equal(t, fmt.Sprint("joined beside ", kind), begun.Verification.ID, first.Verification.ID)
		row := f.Row(t, in.Send.ID)
		v, newest, _ := storetest.Must3(f.Verification(t.Context(), first.Verification.ID))(t)
		storetest.Equal(t, "number, sends, newest, reset, counts", []any{row.Number, v.Sends, newest.ID, row.WasReset, row.Counts},
			[]any{2, 2, in.Send.ID, kind == 3, kind != 3})
	}
}

// changeMeanwhile changes a verification, or the sends of its recipient; kind says how.
func changeMeanwhile(db *DB, kind int, first store.BeginAnswer, act store.AuditEntry) error {
	ctx := context.Background()
	var err error
	switch kind {
	case 0:
		_, err = db.Check(ctx, storetest.Wrong(first.Verification.ID))
	case 1:
		_, err = db.Check(ctx, storetest.Right(first.Verification.ID))
	case 2:
		_, err = db.Cancel(ctx, first.Verification.ID)
	case 3:
		s := first.Send
		err = db.ResetCounters(ctx, []store.SendBucket{{
			App: s.App, Channel: s.Channel, Recipient: s.Recipient,
			Purposes: []string{"login", "signup"},
		}}, act)
	case 4:
		_, err = db.Finish(ctx, store.Outcome{
			AttemptID: store.AttemptID{ID: first.Send.ID, Attempt: 1}, Status: store.Failed,
			Reason: store.ReasonRejected, Refund: true,
		})
	}
	return err
}

// someSessionWaits reports whether a session of the database waits for a lock.
func someSessionWaits(t *testing.T, db *DB) bool {
	t.Helper()
	return queryValue[bool](t, db.pool, `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// The server ends a replica's session between the two round trips of a Begin, or the replica
// freezes there. Then its transaction has written nothing, and the recipient's lock is free within
// a second, so that the Begin of another replica, which waits for the lock, gets an answer. The
// first replica repeats its Begin, and one of the two sends is admitted.
func TestPostgresStopsBetweenTheTrips(t *testing.T) {
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			t.Parallel()
			address := borrowMigrated(t)
			if killed {
				address += unhurried + "&statement_timeout=1min"
			}
			f, db, other := betweenOn(t, address)
			f.Admit(t, f.Intent(0))
			storetest.OK(t, other.Ping(t.Context()))
			frozen, thaw := make(chan time.Time, 1), make(chan struct{})
			runBetweenTrips(db, func() {
				frozen <- time.Now()
				if killed {
					endIdleTransaction(t, other)
					return
				}
				<-thaw
			})
			mine, theirs := f.Intent(1, storetest.WithRules(storetest.Rule(1, time.Hour))),
				f.Intent(1, storetest.WithRules(storetest.Rule(1, time.Hour)))
			begun, result := startBegin(t, f, mine)
			<-frozen
			got, err := other.Begin(t.Context(), theirs)
			// on a busy machine the server ends the session later
			for again := 0; sqlState(err) == lockNotAvailable && again < 5; again++ {
				got, err = other.Begin(t.Context(), theirs)
			}
			close(thaw)
			storetest.OK(t, err)
			storetest.OK(t, <-result) // the Begin is repeated
			if got.Admitted == begun.Admitted {
				t.Errorf("admitted: %v and %v, by a limit of 1", got.Admitted, begun.Admitted)
			}
			if !killed {
				storetest.Equal(t, "the one that waited", got.Admitted, true)
			}
			storetest.Equal(t, "rows", len(f.All(t)), 2)
		})
	}
}

// endIdleTransaction ends the server process that is between two round trips, of which there must
// be exactly one.
func endIdleTransaction(t *testing.T, db *DB) {
	var n int
	if err := db.pool.QueryRow(context.Background(), `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d processes ended: %v", n, err)
	}
}

// A refusal is answered after the first trip, even if the second trip writes a send of the same
// batch.
func TestPostgresRefusesAfterOneTrip(t *testing.T) {
	f, db, _ := betweenFixture(t)
	one := storetest.WithRules(storetest.Rule(1, time.Hour))
	f.Admit(t, f.Intent(1, one))
	refused, admitted := newBeginCall(t, f.Intent(1, one)), newBeginCall(t, f.Intent(2, one))
	runBetweenTrips(db, func() {
		storetest.Equal(t, "admitted, at", []any{refused.Answer.Admitted, refused.Answer.Now.IsZero()}, []any{false, false})
	})
	db.beginBatch([]*beginCall{refused, admitted})
	storetest.OK(t, admitted.Err)
	storetest.Equal(t, "the other one", admitted.Answer.Admitted, true)
	end := make(chan struct{})
	runBetweenTrips(db, func() { <-end })
	f.Refuse(t, f.Intent(1, one))
	close(end)
}

// If the program's clock is up to 30 hours wrong, in either direction, nothing changes: ages are
// computed on the database's clock.
func TestPostgresProgramsClockIsOff(t *testing.T) {
	f, db, _ := betweenFixture(t)
	for n, off := range []time.Duration{-time.Hour, time.Hour, -30 * time.Hour, 30 * time.Hour} {
		db.sawClock(time.Now().Add(off)) // the database's clock as this process estimates it
		limits := []quota.Rule{{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute}}
		in := f.Intent(n, storetest.WithRules(limits), storetest.WithID(&storetest.Fixture{Now: time.Now()}, off))
		first := f.Admit(t, in)
		if age := time.Since(first.Now); age < -time.Minute || age > time.Minute {
			t.Errorf("%v off: logged %v ago", off, age)
		}
		f.Refuse(t, f.Intent(n, storetest.WithRules(limits), storetest.WithID(&storetest.Fixture{Now: time.Now(), Serial: uint64(n)}, off)))
	}
}

// Nearly every Finish writes the new version of its send's row on the page of the old version, and
// no index entry (a HOT update).
func TestPostgresFinishIsHot(t *testing.T) {
	f, db, _ := betweenOn(t, newDatabase(t))
	const sends = 640
	storetest.Together(32, func(caller int) {
		g := storetest.NewFixture(db).Numbered(uint64(caller+1) << 20)
		for i := range sends / 32 {
			begun, err := db.Begin(t.Context(), g.Intent(1000*caller+i))
			if err == nil {
				_, err = db.Finish(t.Context(),
					store.Outcome{
						AttemptID: store.AttemptID{ID: begun.Send.ID, Attempt: 1}, Status: store.Sent, Provider: "mx",
						ProviderCode: "250 2.0.0",
					})
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	address := db.pool.Config().ConnString()
	storetest.OK(t, f.Close())
	storetest.OK(t, f.Replica.Close())
	conn := connect(t, address)
	scans(t.Context(), t, conn) // waits for the other connections, which report their counts as they end
	var updates, hot int64
	storetest.OK(t, conn.QueryRow(t.Context(),
		`SELECT sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'sends_2%'`).Scan(&updates,
		&hot))
	t.Logf("%d updates, %d of them HOT", updates, hot)
	if updates < sends*9/10 || hot*100 < updates*95 {
		t.Errorf("%d updates, %d of them HOT", updates, hot)
	}
}

var heldFor = flag.Duration("store.held", 1500*time.Millisecond, "how long a snapshot is held beside sends that begin and end")

// However long a snapshot is held, and however many sends end meanwhile, a search of TakeOver reads
// only the rows of the last seconds.
func TestPostgresTakesOverWhileASnapshotIsHeld(t *testing.T) {
	f, db, _ := betweenFixture(t)
	holder := connect(t, db.pool.Config().ConnString())
	exec(t, holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM outbox`)
	var pages []int // pages that each search touched
	ended := 0
	for began, next := time.Now(), time.Now(); len(pages) < 4 || time.Since(began) < *heldFor; ended++ {
		f.Ended(t, f.Intent(ended), store.Outcome{Status: store.Sent})
		if time.Now().Before(next) {
			continue
		}
		next = next.Add(*heldFor / 60)
		storetest.Equal(t, "due", len(f.MustTakeOver(t, 10)), 0)
		now := storetest.Must(db.Clock(t.Context()))(t)
		pages = append(pages, pagesTouched(t, db, now, db.searches.searchStart(store.Queue{Channel: "email"}, now)))
	}
	t.Logf("%d sends ended in %v; pages of each search: %v", ended, *heldFor, pages)
	if first, last := slices.Max(pages[:len(pages)/2]), slices.Max(pages[len(pages)/2:]); last > 2*first+20 {
		t.Errorf("the searches grew from %d pages to %d", first, last)
	}
}

// pagesTouched returns how many pages of outbox and its index a search touches for rows that were
// due after `from`.
func pagesTouched(t *testing.T, db *DB, now, from time.Time) int {
	t.Helper()
	var plan []struct {
		Plan struct {
			Blocks int `json:"Shared Hit Blocks"`
		}
	}
	storetest.OK(t, db.pool.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
SELECT f.id FROM outbox f WHERE f.due_at <= $1 AND f.due_at > $2 AND f.channel = 'email' AND NOT f.stranger ORDER BY f.expires_at, f.id LIMIT 10`, now, from).Scan(&plan))
	return plan[0].Plan.Blocks
}

// A Begin of a mail without a reference writes at most nine index entries, in the tables sends,
// verifications and outbox together.
func TestPostgresIndexEntriesOfASend(t *testing.T) {
	f, db, _ := betweenFixture(t)
	f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.Reference, in.Verification.Holder = "", "s:1" }))
	indexes := storetest.Must(sqldb.ReadAll(t.Context(), db.Store(), "TestPostgresIndexEntriesOfASend",
		func(x *[3]string) []any { return []any{&x[0], &x[1], &x[2]} }, `
SELECT i.indexrelid::regclass::text, i.indrelid::regclass::text, coalesce(pg_get_expr(i.indpred, i.indrelid), 'true')
FROM pg_index i
WHERE i.indrelid IN ('sends'::regclass, 'verifications'::regclass, 'outbox'::regclass)`, nil))(t)
	var entries []string
	for _, index := range indexes {
		n := queryValue[int](t, db.pool, `SELECT count(*) FROM `+index[1]+` WHERE `+index[2])
		if n > 0 {
			entries = append(entries, index[0])
		}
	}
	if len(entries) > 9 {
		t.Errorf("%d entries: %v", len(entries), entries)
	}
}

// If a batch of Begins panics before the write, nothing was written and the recipient's lock is
// free. After a panic that follows the write, the outcome is uncertain, and the connection is
// closed. If one outcome makes the building of a batch's parameters panic, only that outcome fails.
// A panic in AfterConnect becomes an error.
func TestPostgresBatchThatPanics(t *testing.T) {
	f, db, _ := betweenFixture(t)
	tripTracerOf(db).afterFirst.Store(new(func() { panic("planted") }))
	_, err := f.Begin(t.Context(), f.Intent(1))
	storetest.Equal(t, "before the write", [2]bool{errors.Is(err, fault.Unavailable), errors.Is(err, fault.Uncertain)},
		[2]bool{true, false})
	f.Admit(t, f.Intent(1))
	err = db.withRetry(t.Context(), true, func(conn *pgxpool.Conn) (bool, error) {
		defer func() { storetest.Equal(t, "closed", conn.Conn().IsClosed(), true) }()
		return db.runAndCommit(t.Context(), conn, &pgx.Batch{}, func(pgx.BatchResults) error { panic("planted") })
	})
	storetest.Equal(t, "after the write", errors.Is(err, fault.Uncertain), true)
	f.Admit(t, f.Intent(2))
	var endings []*finishCall
	for n := range 4 {
		held := store.AttemptID{ID: f.Admit(t, f.Intent(3+n)).Send.ID, Attempt: 1}
		endings = append(endings, batch.NewCall[store.Outcome, bool](store.Outcome{AttemptID: held, Status: store.Sent}, 0))
	}
	broken := endings[2]
	changeBatch(t.Context(), db, finishSentSQL, slices.Clone(endings), func(some []*finishCall) map[string]any {
		if slices.Contains(some, broken) {
			panic("planted")
		}
		return sentOutcomes.Args(some)
	})
	onlyFailed(t, endings, 2)
	storetest.Is(t, db.pool.Config().AfterConnect(t.Context(), nil), panics.Err) // the pool connects in a goroutine
}

// A transaction may stay open for longer than usual, for example if its process is killed while the
// commit waits for a synchronous standby. Its row is taken over within seconds of the commit,
// although it was due long before. Until the commit, most searches read only the rows of the last
// seconds.
func TestPostgresTakesOverWhatWasCommittedLate(t *testing.T) {
	f := newPostgresFixture(t)
	address := f.Engine.(*DB).pool.Config().ConnString()
	conn, stuck := connect(t, address), connect(t, address)
	f.Admit(t, f.Intent(1))
	exec(t, conn, `CREATE TEMPORARY TABLE kept AS SELECT * FROM outbox`)
	row := storetest.Must(pgx.CollectExactlyOneRow(storetest.Must(conn.Query(t.Context(), `SELECT id::text FROM kept`))(t), pgx.RowTo[string]))(t)
	exec(t, conn, `DELETE FROM outbox`)
	exec(t, stuck, `BEGIN`, `INSERT INTO outbox (attempt, queued, id, due_at, channel, stranger, expires_at)
SELECT 1, false, '`+row+`', test_now() + interval '8 seconds', 'email', false, test_now() + interval '10 minutes'`)
	wide := 0
	for range 120 {
		f.Pass(time.Second)
		storetest.Equal(t, "due before the commit", len(f.MustTakeOver(t, 10)), 0)
		q := store.Queue{Channel: recipient.Email}
		if db := f.Engine.(*DB); db.searches.byQueue[q].now.Equal(db.searches.byQueue[q].wideSearch) {
			wide++
		}
	}
	if wide > 40 {
		t.Errorf("%d of 120 searches began before the last seconds", wide)
	}
	exec(t, stuck, `COMMIT`)
	found := 0
	for range 5 {
		f.Pass(time.Second)
		found += len(f.MustTakeOver(t, 10))
	}
	storetest.Equal(t, "taken over within seconds of the commit", found, 1)
}
