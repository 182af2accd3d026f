package audit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/parts"
)

// hold takes a recipient's lock as another replica's transaction would.
func hold(t *testing.T, log *Postgres, in Intent) (release func()) {
	t.Helper()
	tx, err := log.pool.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, lockKey(in.Send))
	ok(t, err)
	return func() { _ = tx.Rollback(context.Background()) }
}

// kill ends the server process that waits for a recipient's lock, once there is one, and awaits its end: the next one to be killed is another.
func kill(t *testing.T, log *Postgres) {
	t.Helper()
	eventually(t, func() bool {
		var killed bool
		err := log.pool.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 4000)) > 0 FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&killed)
		ok(t, err)
		return killed
	})
}

func TestPostgresServerEndsTheTransaction(t *testing.T) {
	server := parts.Postgres(t)
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		f, _ := faultFixture(t, server)
		in := f.intent(1)
		release := hold(t, f.other.(*Postgres), in)
		result := make(chan error)
		go func() { _, err := f.Begin(t.Context(), in); result <- err }()
		kill(t, f.other.(*Postgres))
		release()
		ok(t, <-result)
		equal(t, "rows", f.count(t), 2)
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		f, _ := faultFixture(t, server)
		in := f.intent(1)
		defer hold(t, f.other.(*Postgres), in)()
		result := make(chan error)
		go func() { _, err := f.Begin(t.Context(), in); result <- err }()
		kill(t, f.other.(*Postgres))
		kill(t, f.other.(*Postgres))
		certain(t, <-result) // the server said so before it came to the commit
		equal(t, "rows", f.count(t), 1)
	})
}

// A check that approves the verification while a resend waits for its row: the resend looks again, and opens a new one.
func TestPostgresApprovedWhileJoining(t *testing.T) {
	f, _ := faultFixture(t, parts.Postgres(t))
	log := f.other.(*Postgres)
	for n, change := range []string{"approved_at = now()", "canceled_at = now()", "attempts = max_attempts", "locale = 'de'"} {
		first := f.admit(t, f.intent(n, func(in *Intent) { in.Verification.Holder = "s:1" }))
		tx, err := log.pool.Begin(t.Context())
		ok(t, err)
		_, err = tx.Exec(t.Context(), `UPDATE verifications SET `+change+` WHERE id = $1`, first.Verification.ID)
		ok(t, err)
		in := f.intent(n, func(in *Intent) { in.Verification.Holder = "s:1" })
		var begun Begun
		result := make(chan error)
		go func() { begun, err = f.Begin(t.Context(), in); result <- err }()
		eventually(t, func() bool {
			var waiting bool
			ok(t, log.pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted`).Scan(&waiting))
			return waiting
		})
		ok(t, tx.Commit(t.Context()))
		ok(t, <-result)
		want := in.Verification.ID
		if change == "locale = 'de'" {
			want = first.Verification.ID // what does not end it does not matter
			equal(t, "sends", begun.Verification.Sends, 2)
		}
		equal(t, change, begun.Verification.ID, want)
		equal(t, "row", f.row(t, in.Send.ID), begun.Send)
	}
}

// One recipient whose lock somebody holds for too long fails alone; those who share its round trip are let in.
func TestPostgresOneStuckRecipient(t *testing.T) {
	server := parts.Postgres(t)
	waitsInTime(t, server)
	f, _ := faultFixture(t, server, shortWait)
	log := f.db.(*Postgres)
	stuck := f.intent(1)
	defer hold(t, f.other.(*Postgres), stuck)()
	batch := []*call{called(t, stuck)}
	for n := range 5 {
		in := f.intent(2 + n)
		batch = append(batch, called(t, in))
	}
	log.decide(batch)
	certain(t, batch[0].err)
	for _, x := range batch[1:] {
		ok(t, x.err)
		equal(t, "admitted", x.answer.Admitted, true)
	}
	equal(t, "rows", f.count(t), 6)
}

// shortWait for a lock leaves a busy machine all but a fifth of a second of the time that a call has.
const shortWait = "100ms"

// waitsInTime: the service's own wait fits twice into that time, in the round trip and alone.
func waitsInTime(t *testing.T, server *parts.PostgresServer) {
	t.Helper()
	log := openTest(t, newDatabase(t, server), serverClock)
	for _, pool := range []*pgxpool.Pool{log.writers, log.pool} {
		var set string
		ok(t, pool.QueryRow(t.Context(), `SHOW lock_timeout`).Scan(&set))
		wait, err := time.ParseDuration(set)
		if err != nil || wait <= 0 || 2*wait > min(beginTimeout, finishTimeout)-time.Second {
			t.Errorf("a lock is waited for %s", set)
		}
	}
}
