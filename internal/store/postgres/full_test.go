package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// If a statement before the COMMIT finds the disk full, the transaction was rolled back, and the
// error says so. TestPostgresAnswersToACommit has the answers to the COMMIT itself.
func TestPostgresStatementOnAFullDisk(t *testing.T) {
	f, db := fixtureOn(t, newDatabase(t))
	_, err := db.pool.Exec(t.Context(), `
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk AFTER INSERT ON verifications FOR EACH ROW EXECUTE FUNCTION full_disk()`,
		pgx.QueryExecModeSimpleProtocol)
	storetest.OK(t, err)
	storetest.IsFull(t, storetest.Err(f.Begin(t.Context(), f.Intent(1))))
	storetest.Must(db.pool.Exec(t.Context(), `DROP TRIGGER full_disk ON verifications`))(t)
	storetest.WritableWithRows(t, f, 0)
	f.Admit(t, f.Intent(1))
}

// A Ping waits for a lock on a table if, and only if, claims, sends, outcomes or checks wait for it
// too. The exceptions are three tables that a Ping uses and these calls don't.
func TestPostgresPingBehindALock(t *testing.T) {
	url := newDatabase(t)
	f, _ := fixtureOn(t, url+"&lock_timeout="+shortWait)
	conn := connect(t, url)
	n := 0
	work := func() error {
		n++
		in := f.Intent(n%50 + 1)
		key := store.IdempotencyClaim{Key: [32]byte{byte(n)}, SendID: in.Send.ID}
		_, claimed := f.ClaimIdempotencyKey(t.Context(), key)
		began, err := f.Begin(t.Context(), in)
		if err = errors.Join(claimed, err); err != nil {
			return err
		}
		_, finished := f.Finish(t.Context(), store.Outcome{AttemptID: storetest.Held(began.Send.ID, 1), Status: store.Sent})
		_, checked := f.Check(t.Context(), storetest.Wrong(began.Verification.ID))
		return errors.Join(finished, checked)
	}
	for _, mode := range []string{"ACCESS EXCLUSIVE", "SHARE"} {
		for _, table := range sqldb.TableNames() {
			tx := storetest.Must(conn.Begin(t.Context()))(t)
			storetest.Must(tx.Exec(t.Context(), `LOCK TABLE `+table+` IN `+mode+` MODE`))(t)
			work, ping := work(), f.Ping(t.Context())
			if (work == nil) != (ping == nil) && !slices.Contains([]string{"leases", "write_probe", "schema_fingerprints"}, table) {
				t.Errorf("%s of %s: the work says %v, a ping %v", mode, table, work, ping)
			}
			storetest.OK(t, tx.Rollback(t.Context()))
			storetest.OK(t, f.Ping(t.Context()))
		}
	}
}

// A Ping does not wait for readers of its table, and waits for another Ping only until the other
// one commits. It leaves no row.
func TestPostgresPingBesideABackup(t *testing.T) {
	f, db := fixtureOn(t, newDatabase(t))
	tx := storetest.Must(db.pool.Begin(t.Context()))(t)
	// pg_dump takes this lock, and keeps it until it ends
	storetest.Must(tx.Exec(t.Context(), `LOCK TABLE write_probe IN ACCESS SHARE MODE`))(t)
	storetest.OK(t, f.Ping(t.Context()))
	storetest.OK(t, tx.Rollback(t.Context()))
	storetest.Together(20, func(int) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := f.Ping(ctx); err != nil {
			t.Error(err)
		}
	})
	storetest.OK(t, f.Ping(t.Context()))
	storetest.Equal(t, "rows left", queryValue[int](t, db.pool, `SELECT count(*) FROM write_probe`), 0)
}

// Two replicas together check the free space once a minute, and once more after the clock was set
// back. Each replica also checks it at its start, and after a failure of its own.
func TestPostgresPingChecksFreeSpaceOnceAMinute(t *testing.T) {
	f := newPostgresFixture(t)
	replicas := []*DB{f.Engine.(*DB), f.Replica.Engine.(*DB)}
	pool := replicas[0].pool
	storetest.Must(pool.Exec(t.Context(), `VACUUM FULL write_probe`))(t)
	pages := 0
	// a check fills eight pages, of which the first may be the last page of the previous check
	pingAndCount := func(what string, want int) {
		t.Helper()
		for _, r := range replicas {
			storetest.OK(t, r.Ping(t.Context()))
		}
		before := pages
		pages = queryValue[int](t, pool, `SELECT pg_relation_size('write_probe') / current_setting('block_size')::int`)
		if n := pages - before; n < 7*want || n > 8*want {
			t.Errorf("%s: %d pages, want %d checks", what, n, want)
		}
	}
	pingAndCount("after the start", 2)
	for range 59 {
		f.Pass(time.Second)
		pingAndCount("within a minute", 0)
	}
	f.Pass(time.Second)
	pingAndCount("after a minute", 1)
	f.Pass(-time.Hour)
	pingAndCount("after the clock was set back", 1)
	pingAndCount("after that", 0)
	storetest.Must(pool.Exec(t.Context(), `ALTER TABLE outbox RENAME TO hidden`))(t)
	if storetest.Err(f.Begin(t.Context(), f.Intent(1))) == nil {
		t.Error("a send without its table")
	}
	storetest.Must(pool.Exec(t.Context(), `ALTER TABLE hidden RENAME TO outbox`))(t)
	pingAndCount("after a failed send", 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Ping(gone) == nil {
		t.Error("a canceled Ping")
	}
	pingAndCount("after a failed Ping", 1)
	pingAndCount("at the end", 0)
}

// If a replica finds no free space, the other replicas check it at their next Ping, even within the
// minute.
func TestPostgresNoSpaceMakesOtherReplicasCheck(t *testing.T) {
	url := newDatabase(t)
	here, there, conn := openTest(t, url, serverClockSQL), openTest(t, url, serverClockSQL), connect(t, url)
	storetest.OK(t, here.Ping(t.Context()))
	storetest.OK(t, there.Ping(t.Context()))
	exec(t, conn,
		`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON write_probe FOR EACH ROW EXECUTE FUNCTION full_disk()`,
		`UPDATE leases SET until = now() + interval '50 seconds' WHERE name = 'room'`)
	storetest.OK(t, there.Ping(t.Context())) // the small write succeeds
	here.noteFailure()                       // as after a failed send
	storetest.IsFull(t, here.Ping(t.Context()))
	storetest.IsFull(t, there.Ping(t.Context()))
	exec(t, conn, `DROP TRIGGER full_disk ON write_probe`)
	storetest.OK(t, here.Ping(t.Context()))
	storetest.OK(t, there.Ping(t.Context()))
}

// LastSendCommit returns the last commit until a transaction fails. A Ping changes nothing, and
// neither does a request that is canceled before it begins: it says nothing about the database.
func TestPostgresLastCommit(t *testing.T) {
	f, db := fixtureOn(t, newDatabase(t))
	began := time.Now()
	if c := db.LastSendCommit(); c != nil {
		t.Errorf("before any send: %+v", c)
	}
	f.Admit(t, f.Intent(1))
	storetest.OK(t, f.Ping(t.Context()))
	last := db.LastSendCommit()
	if last == nil || last.At.Before(began) || last.Took <= 0 || last.Took > time.Since(began) {
		t.Errorf("after a send: %+v", last)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := storetest.Err(f.Begin(gone, f.Intent(2))); err == nil || f.Ping(gone) == nil {
		t.Errorf("a send of a canceled request: %v", err)
	}
	if c := db.LastSendCommit(); c != last {
		t.Errorf("after canceled requests: %+v", c)
	}
	storetest.Must(db.pool.Exec(t.Context(), `ALTER TABLE outbox RENAME TO hidden`))(t)
	if err := storetest.Err(f.Begin(t.Context(), f.Intent(3))); err == nil || db.LastSendCommit() != nil {
		t.Errorf("after a send that failed: %v, %+v", err, db.LastSendCommit())
	}
}
