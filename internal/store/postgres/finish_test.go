package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/storetest"
)

// Of 256 sends, only the five whose rows are locked for too long fail, after few round trips, and
// they have certainly written nothing. When these five are repeated, they make no other send fail.
func TestPostgresFinishFailsOnlyLockedRows(t *testing.T) {
	f, db := fixtureOn(t, borrowMigrated(t)+"&idle_in_transaction_session_timeout=10min&lock_timeout="+shortWait)
	trips := &tripTracerOf(db).outcomes
	var begun []*beginCall
	for n := range 257 {
		begun = append(begun, newBeginCall(t, f.Intent(n)))
	}
	db.beginBatch(begun)
	ending := func(n int) *finishCall {
		o := store.Outcome{AttemptID: store.AttemptID{ID: begun[n].In.Send.ID, Attempt: 1}, Status: store.Sent}
		return batch.NewCall[store.Outcome, bool](o, 0)
	}
	var endings, again []*finishCall
	for n := range 256 {
		endings = append(endings, ending(n))
	}
	stuck := []int{3, 60, 61, 150, 255}
	tx := storetest.Must(db.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, n := range stuck {
		storetest.Must(tx.Exec(t.Context(), `SELECT FROM sends WHERE id = $1 FOR UPDATE`, begun[n].In.Send.ID))(t)
		again = append(again, ending(n))
	}
	db.finishBatch(slices.Clone(endings))
	onlyFailed(t, endings, stuck...)
	storetest.Equal(t, "trips", trips.Swap(0), 1+8+4*8+4*4) // of the stuck sends, 60 and 61 are in one part
	again = append(again, ending(256))
	db.finishBatch(slices.Clone(again))
	onlyFailed(t, again, 0, 1, 2, 3, 4)
	storetest.Equal(t, "trips", trips.Swap(0), 6)
	storetest.OK(t, tx.Rollback(t.Context()))
	for _, n := range stuck {
		f.MustFinish(t, endings[n].In, true)
	}
	storetest.Equal(t, "rows that are known as stuck", len(db.stuck.ids), 0)
	usual := queryValue[string](t, db.finishers, `SELECT current_setting('lock_timeout')`)
	storetest.Equal(t, "wait for a lock, afterwards", usual, shortWait)
}

// If one row is locked for too long, the leases of other rows are still renewed.
func TestPostgresRenewLeasesBesideALockedRow(t *testing.T) {
	f, db := fixtureOn(t, borrowMigrated(t)+"&idle_in_transaction_session_timeout=10min&lock_timeout="+shortWait)
	var held []store.AttemptID
	for n := range 3 {
		held = append(held, store.AttemptID{ID: f.Admit(t, f.Intent(n)).Send.ID, Attempt: 1})
	}
	tx := storetest.Must(db.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	storetest.Must(tx.Exec(t.Context(), `SELECT FROM outbox WHERE id = $1 FOR UPDATE`, held[1].ID))(t)
	storetest.Certain(t, f.RenewLeases(t.Context(), time.Hour, held))
	storetest.OK(t, f.RenewLeases(t.Context(), time.Hour, nil))
	renewed := queryValue[int](t, db.pool, `SELECT count(*) FROM outbox WHERE due_at > now() + interval '30 minutes'`)
	storetest.Equal(t, "renewed leases", renewed, 2)
}

// An identity is refused as taken if another transaction gives it to an account at the same time.
func TestPostgresChangeAccountRefusesATakenIdentity(t *testing.T) {
	f, db := fixtureOn(t, borrowMigrated(t)+unhurried)
	for _, name := range []string{"ana", "bo"} {
		storetest.OK(t, f.AddAccount(t.Context(), store.Account{Name: name, Role: "reader", Password: "hash"}, f.Act()))
	}
	identity := "ana@example.com"
	tx := storetest.Must(db.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	storetest.Must(tx.Exec(t.Context(), `UPDATE accounts SET identity = $1 WHERE name = 'ana'`, identity))(t)
	changed := make(chan error, 1)
	go func() {
		changed <- f.ChangeAccount(t.Context(), "bo", store.AccountChange{Identity: &identity}, f.Act())
	}()
	servertest.Await(t, "the change to wait", func() bool { return someSessionWaits(t, db) })
	storetest.OK(t, tx.Commit(t.Context()))
	storetest.Is(t, <-changed, store.ErrIdentityTaken)
}

// A transaction of a part waits only briefly for locks. The next transaction on the same connection
// waits for the usual time.
func TestPostgresPartWaitsBrieflyForLocks(t *testing.T) {
	_, db := fixtureOn(t, borrowMigrated(t)+"&idle_in_transaction_session_timeout=10min&lock_timeout="+shortWait)
	conn := storetest.Must(db.writers.Acquire(t.Context()))(t)
	defer conn.Release()
	for _, c := range []struct {
		brief bool
		wait  string
	}{{true, "50ms"}, {false, shortWait}} {
		storetest.OK(t, conn.SendBatch(t.Context(), db.open(c.brief)).Close())
		storetest.Equal(t, "wait for a lock", queryValue[string](t, conn, `SELECT current_setting('lock_timeout')`), c.wait)
		exec(t, conn.Conn(), `ROLLBACK`)
	}
}

// When the deadline passes, no further part runs, and each call has its answer or the error.
func TestRunBatchEndsAtItsDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls []*batch.Call[int, bool]
	for n := range 256 {
		calls = append(calls, batch.NewCall[int, bool](n, 0))
	}
	runs := 0
	runBatch(ctx, false, calls, func(ctx context.Context, brief bool, some []*batch.Call[int, bool]) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if runs++; runs == 9 { // runs of 256, 32 and 4 calls, four of one call, of which the first is stuck, and two of 4
			cancel()
		}
		storetest.Equal(t, "brief", brief, runs > 1)
		if some[0].In == 0 {
			return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: lockNotAvailable}
		}
		for _, x := range some {
			x.SetAnswer(true, nil)
		}
		return nil
	})
	storetest.Equal(t, "runs", runs, 9)
	for n, x := range calls {
		storetest.Equal(t, fmt.Sprint("call ", n, " is answered"), x.Answer, n > 0 && n < 12)
		storetest.Equal(t, fmt.Sprint("call ", n, " fails"), x.Err != nil, n == 0 || n >= 12)
	}
}

// lockRecipient takes a recipient's lock, as another replica's transaction would.
func lockRecipient(t *testing.T, db *DB, in store.Intent) (release func()) {
	t.Helper()
	tx := storetest.Must(db.pool.Begin(t.Context()))(t)
	storetest.Must(tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, store.RecipientLockKey(in.Send)))(t)
	return func() { _ = tx.Rollback(context.Background()) }
}

// endWaitingProcess ends the server process that waits for a recipient's lock, once there is one.
// It returns only after the process has ended, so that the next call ends another process.
func endWaitingProcess(t *testing.T, db *DB) {
	t.Helper()
	servertest.Await(t, "a process that waits for the lock", func() bool {
		return queryValue[bool](t, db.pool, `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 4000)) > 0 FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	})
}

// If the server process of a Begin ends before the commit, the Begin is repeated once. If that
// process ends too, the error says that nothing was written.
func TestPostgresServerEndsTheTransaction(t *testing.T) {
	t.Parallel()
	f, _ := faultFixture(t)
	in := f.Intent(1)
	defer lockRecipient(t, f.Replica.Engine.(*DB), in)()
	_, result := startBegin(t, f, in)
	for range 2 {
		endWaitingProcess(t, f.Replica.Engine.(*DB))
	}
	storetest.Certain(t, <-result)
	storetest.Equal(t, "rows", f.Count(t), 1)
}

// A verification ends while a resend waits for its row. The resend reads the row again, and opens a
// new verification. After a change that does not end the verification, the resend joins it.
func TestPostgresApprovedWhileJoining(t *testing.T) {
	f, _ := faultFixture(t)
	db := f.Replica.Engine.(*DB)
	withHolder := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	for n, change := range []string{"approved_at = now()", "canceled_at = now()", "attempts = max_attempts", "locale = 'de'"} {
		first := f.Admit(t, f.Intent(n, withHolder))
		tx := storetest.Must(db.pool.Begin(t.Context()))(t)
		storetest.Must(tx.Exec(t.Context(), `UPDATE verifications SET `+change+` WHERE id = $1`, first.Verification.ID))(t)
		in := f.Intent(n, withHolder)
		begun, result := startBegin(t, f, in)
		servertest.Await(t, "the send to wait", func() bool {
			return queryValue[bool](t, db.pool, `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`)
		})
		free := queryValue[time.Time](t, db.pool, `SELECT clock_timestamp()`)
		storetest.OK(t, tx.Commit(t.Context()))
		storetest.OK(t, <-result)
		storetest.Equal(t, "decided before the row was free", begun.Now.Before(free), false)
		want := in.Verification.ID
		if change == "locale = 'de'" {
			want = first.Verification.ID // this change does not end the verification
			storetest.Equal(t, "sends", begun.Verification.Sends, 2)
		}
		storetest.Equal(t, change, begun.Verification.ID, want)
		storetest.Equal(t, "row", f.Row(t, in.Send.ID), storetest.RowOf(begun.Send))
	}
}

// A check uses up the recipient's tries while a resend waits for the verification's row. The resend
// is refused, as it would be just afterwards.
func TestPostgresLockedOutWhileJoining(t *testing.T) {
	f, db, other := betweenOn(t, borrowMigrated(t)+unhurried)
	withHolder := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	var last store.BeginAnswer
	for n := range rowrules.FailedCheckLimit {
		if n%5 == 0 {
			last = f.Admit(t, f.Intent(1, withHolder))
		}
		if n < rowrules.FailedCheckLimit-1 {
			storetest.Must(db.Check(t.Context(), storetest.Wrong(last.Verification.ID)))(t)
		}
	}
	reached, leave := make(chan struct{}), make(chan struct{})
	runBetweenTrips(other, func() { close(reached); <-leave })
	check := make(chan error, 1)
	go func() { _, err := other.Check(t.Context(), storetest.Wrong(last.Verification.ID)); check <- err }()
	<-reached
	begun, result := startBegin(t, f, f.Intent(1, withHolder))
	servertest.Await(t, "the send to wait", func() bool { return someSessionWaits(t, db) })
	close(leave)
	storetest.OK(t, <-check)
	storetest.OK(t, <-result)
	storetest.Equal(t, "admitted, failures", []any{begun.Admitted, begun.Lockout.Failures}, []any{false, rowrules.FailedCheckLimit})
}

// If one recipient's lock is held for too long, only the sends to that recipient fail. Other sends
// of the same round trip are admitted.
func TestPostgresBeginFailsOnlyForALockedRecipient(t *testing.T) {
	waitsInTime(t)
	f, _ := faultFixture(t, shortWait)
	db := f.Engine.(*DB)
	stuck := f.Intent(1)
	defer lockRecipient(t, f.Replica.Engine.(*DB), stuck)()
	calls := []*beginCall{newBeginCall(t, stuck)}
	for n := range 5 {
		calls = append(calls, newBeginCall(t, f.Intent(2+n)))
	}
	db.beginBatch(calls)
	onlyFailed(t, calls, 0)
	storetest.Equal(t, "rows", f.Count(t), 6)
}

// shortWait is a lock_timeout. A call that waits for a lock twice loses only a fifth of a second,
// so it ends in time even on a busy machine.
const shortWait = "100ms"

// waitsInTime tests that two waits for a lock with the service's own lock_timeout fit into the time
// of a call, and leave a second. It also tests that the server ends a transaction that is idle
// between two trips before another transaction gives up its wait for a lock.
func waitsInTime(t *testing.T) {
	t.Helper()
	db := openTest(t, borrowMigrated(t), serverClockSQL)
	setting := func(q querier, name string) time.Duration {
		return storetest.Must(time.ParseDuration(queryValue[string](t, q, `SELECT current_setting($1)`, name)))(t)
	}
	idle := setting(db.writers, "idle_in_transaction_session_timeout")
	for _, pool := range []*pgxpool.Pool{db.writers, db.finishers, db.pool} {
		wait := setting(pool, "lock_timeout")
		if wait <= 0 || 2*wait > beginTimeout()/longer-time.Second || idle <= 0 || idle >= wait {
			t.Errorf("a lock is waited for %s, between two trips %s", wait, idle)
		}
	}
}
