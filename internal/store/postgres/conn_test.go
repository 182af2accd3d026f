package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// Opening a connection takes at most two round trips after the authentication, however many
// statements it prepares. If the database is far away, each further round trip would delay the call
// that needs the connection.
func TestOpeningTakesTwoRoundTrips(t *testing.T) {
	p, through := newProxy(t, borrowMigrated(t))
	connect(t, through) // stays open, because the message that ends it would count as a turn
	login := p.turns.Load()
	db := &DB{clockSQL: serverClockSQL, prepared: map[string]preparedStatement{}}
	for name, o := range map[string]poolOptions{
		"writers": {conns: 1, session: writerSettings, statements: db.registerStatements(claimStatements, beginStatements, checkStatements)},
		"others":  {conns: 1},
	} {
		pool := storetest.Must(newPool(t.Context(), through, "", o))(t)
		t.Cleanup(pool.Close)
		before := p.turns.Load()
		conn := storetest.Must(pool.Acquire(t.Context()))(t)
		servertest.Same(t, "round trips of "+name+" beyond the login", p.turns.Load()-before-login, min(2, int64(len(o.statements))+1))
		for _, text := range o.statements {
			servertest.Same(t, text, queryValue[int](t, conn, `SELECT count(*) FROM pg_prepared_statements WHERE statement = $1`, text), 1)
		}
		conn.Release()
	}
}

// With TLS and a password (SCRAM), a connection opens within its timeout even if each round trip
// takes 600 ms, and the call that needs it has time left.
func TestAFarConnectionOpensInTime(t *testing.T) {
	const farthest = 600 * time.Millisecond
	p, through := newProxy(t, borrowMigrated(t))
	connect(t, through)
	const tcp, tls, scram = 1, 2, 2 // the proxy's server asks for no TLS and no password
	takes := time.Duration(tcp+tls+p.turns.Load()+scram) * farthest
	opens, call := connectTimeout()/longer, store.CallTimeout/longer
	if takes != 6*farthest || takes+farthest > opens || opens >= call {
		t.Errorf("to open a connection takes %v, of %v; a call %v", takes, opens, call)
	}
}

// If a caller's context ends during its statement, the connection stays open, and the caller's next
// statement does not begin.
func TestCanceledCallerClosesNoConnection(t *testing.T) {
	address := borrowMigrated(t) + "&lock_timeout=1min&statement_timeout=1min"
	db, other, holder := openTest(t, address, serverClockSQL), openTest(t, address, serverClockSQL), connect(t, address)
	before := db.pool.Stat().NewConnsCount()
	for name, call := range map[string]func(context.Context, string, func(sqldb.Tx) error) error{"Read": db.Read, "Write": db.DB.Write} {
		exec(t, holder, `SELECT pg_advisory_lock(7)`)
		ctx, leave := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			second <- call(ctx, name, func(q sqldb.Tx) error {
				_, err := q.Run(`SELECT pg_advisory_xact_lock(7)`, nil, nil)
				first <- err
				_, next := q.Run(`SELECT 1`, nil, nil)
				return errors.Join(err, next)
			})
		}()
		servertest.Await(t, "the statement to wait", func() bool { return someSessionWaits(t, other) })
		leave()
		exec(t, holder, `SELECT pg_advisory_unlock(7)`)
		storetest.OK(t, <-first)
		storetest.Is(t, <-second, context.Canceled)
		storetest.OK(t, db.Ping(t.Context()))
		servertest.Same(t, "connections opened during "+name, db.pool.Stat().NewConnsCount(), before)
	}
}

// Statistics read many rows, so their statements have a longer timeout than others. The test
// replaces counted_hours, which all of them read, by a view that checks the timeout.
func TestStatisticsHaveALongTimeout(t *testing.T) {
	address := newDatabase(t)
	db := openTest(t, address, serverClockSQL)
	exec(t, connect(t, address), `ALTER TABLE counted_hours RENAME TO kept_hours`, `
CREATE FUNCTION long() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
  ASSERT current_setting('statement_timeout') = '1min', current_setting('statement_timeout');
  RETURN true;
END $$`, `CREATE VIEW counted_hours AS SELECT * FROM kept_hours WHERE long()`,
		`INSERT INTO kept_hours (hour) SELECT date_trunc('hour', now())`)
	q := store.StatsQuery{From: time.Now().Add(-day), To: time.Now().Add(day), IntervalLength: time.Hour, Zone: time.UTC}
	for name, read := range map[string]func() error{
		"Stats":         func() error { _, err := db.Stats(t.Context(), q); return err },
		"DomainTallies": func() error { _, err := db.DomainTallies(t.Context(), q); return err },
		"ApprovalsBy":   func() error { _, err := db.ApprovalsBy(t.Context(), q, store.ByApp); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the answer to the COMMIT of a claim or a release is lost, the call is repeated and succeeds.
func TestClaimSurvivesALostConnection(t *testing.T) {
	f, p := faultFixture(t)
	c := store.IdempotencyClaim{Key: [32]byte{1}, Fingerprint: [32]byte{2}, SendID: f.Intent(1).Send.ID}
	p.arm(cuts{mode: cutReply, times: 1})
	storetest.Equal(t, "claim", storetest.Must(f.ClaimIdempotencyKey(t.Context(), c))(t).State, store.IdempotencyClaimGranted)
	trips, _ := p.seen()
	storetest.Equal(t, "round trips", trips, 2)
	p.arm(cuts{mode: cutReply, times: 1})
	storetest.OK(t, f.ReleaseIdempotencyKey(t.Context(), c.Key, c.SendID, true))
	p.arm(cuts{})
	c.Fingerprint[0]++
	storetest.Equal(t, "after the release", storetest.Must(f.ClaimIdempotencyKey(t.Context(), c))(t).State, store.IdempotencyClaimGranted)
}

// A claim does not wait for the disk, but the commit of its send does; then both are on the disk.
// Here the server writes its log by itself only every ten seconds.
func TestClaimDoesNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "wal_writer_delay=10s", "autovacuum=off")
	storetest.OK(t, Migrate(t.Context(), server.URL(), ""))
	f := storetest.NewFixture(openTest(t, server.URL(), serverClockSQL))
	f.Now = time.Now()
	conn := connect(t, server.AdminURL())
	const rounds = 20
	unflushed := func() int {
		return queryValue[int](t, conn, `SELECT (pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn())::int`)
	}
	claims, sends := 0, 0
	for i := range rounds {
		in := f.Intent(i)
		c := store.IdempotencyClaim{Key: [32]byte{byte(i + 1)}, SendID: in.Send.ID}
		storetest.Equal(t, "claim", storetest.Must(f.ClaimIdempotencyKey(t.Context(), c))(t).State, store.IdempotencyClaimGranted)
		claims += unflushed()
		f.Admit(t, in)
		sends += unflushed()
	}
	if claims < rounds/2 || sends > rounds/2 {
		t.Errorf("of %d, %d claims and %d sends were not on the disk", rounds, claims, sends)
	}
}

// If claims and releases share a round trip, each gets its own answer.
func TestClaimsOfABatchGetTheirOwnAnswers(t *testing.T) {
	f, p := faultFixture(t)
	db := f.Engine.(*DB)
	claimOf := func(n byte) store.IdempotencyClaim {
		return store.IdempotencyClaim{Key: [32]byte{n}, Fingerprint: [32]byte{n}, SendID: f.Intent(1).Send.ID}
	}
	first, second := claimOf(1), claimOf(2)
	storetest.Must(f.ClaimIdempotencyKey(t.Context(), first))(t)
	storetest.Must(f.ClaimIdempotencyKey(t.Context(), second))(t)
	run := func(want []store.IdempotencyClaimState, changes ...idempotencyChange) {
		var calls []*idempotencyCall
		for _, c := range changes {
			calls = append(calls, batch.NewCall[idempotencyChange, store.IdempotencyClaimAnswer](c, batchKeyOfClaim(c.Key)))
		}
		p.arm(cuts{})
		db.changeIdempotencyClaims(slices.Clone(calls))
		for i, state := range want {
			storetest.OK(t, calls[i].Err)
			storetest.Equal(t, "state", calls[i].Answer.State, state)
		}
	}
	other := claimOf(2)
	other.Fingerprint[5]++
	const granted, mismatched, busy = store.IdempotencyClaimGranted, store.IdempotencyClaimMismatched, store.IdempotencyClaimBusy
	run([]store.IdempotencyClaimState{granted, 0, mismatched, granted}, idempotencyChange{IdempotencyClaim: claimOf(4)},
		idempotencyChange{IdempotencyClaim: first, release: true, forget: true}, idempotencyChange{IdempotencyClaim: other},
		idempotencyChange{IdempotencyClaim: claimOf(3)})
	trips, _ := p.seen()
	storetest.Equal(t, "round trips", trips, 1)
	run([]store.IdempotencyClaimState{granted, 0, busy}, idempotencyChange{IdempotencyClaim: claimOf(1)},
		idempotencyChange{IdempotencyClaim: second, release: true}, idempotencyChange{IdempotencyClaim: claimOf(3)})
	again := claimOf(2)
	storetest.Equal(t, "after a release", storetest.Must(f.ClaimIdempotencyKey(t.Context(), again))(t).SendID, second.SendID)
}
