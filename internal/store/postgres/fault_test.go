package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// faultFixture returns a database behind a proxy, on the server's own clock; its second replica is
// connected directly. The lock timeout is lockTimeout, or else a minute: the service's timeout of
// one second might pass before a test has seen which calls wait.
func faultFixture(t *testing.T, lockTimeout ...string) (*storetest.Fixture, *proxy) {
	t.Helper()
	direct := borrowMigrated(t) + "&idle_in_transaction_session_timeout=1min&lock_timeout=" + append(lockTimeout, "1min")[0]
	p, through := newProxy(t, direct)
	f := storetest.NewFixture(openTest(t, through, serverClockSQL)).Beside(openTest(t, direct, serverClockSQL))
	f.Admit(t, f.Intent(0)) // opens the connections and prepares the statements
	return f, p
}

func TestPostgresLostConnections(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  cut
		times int
		rows  int // the rows that the Begin has written
		ok    bool
		trips int // the round trips of Begin
	}{
		{"reply lost, then no server", cutReply, 1, 1, false, 1},
		{"request lost once", cutRequest, 1, 1, true, 2},
		{"request lost twice", cutRequest, 2, 0, false, 2},
		{"reply lost once", cutReply, 1, 1, true, 2},
		{"reply lost twice", cutReply, 2, 1, false, 2},
		{"reply to the commit lost once", cutBefore, 1, 1, true, 2},
		{"reply to the commit lost twice", cutBefore, 2, 1, false, 2},
		{"lost after the reply to the commit", cutAfter, 1, 1, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, p := faultFixture(t)
			p.arm(cuts{mode: c.mode, times: c.times, thenUnreachable: !c.ok && c.times == 1})
			in := f.Intent(1, storetest.WithRules(storetest.Rule(1, time.Hour)))
			begun, err := f.Begin(t.Context(), in)
			trips, _ := p.seen()
			storetest.Equal(t, "round trips", trips, c.trips)
			if c.ok {
				storetest.OK(t, err)
				storetest.Equal(t, "admitted", begun.Admitted, true)
				storetest.Equal(t, "row", f.Row(t, in.Send.ID), storetest.RowOf(begun.Send))
			} else {
				storetest.Is(t, err, fault.Unavailable)
				storetest.Is(t, err, fault.Uncertain)
			}
			storetest.Equal(t, "rows", f.Count(t), 1+c.rows)
			p.arm(cuts{})
			// The database continues to work, and has the rows that were written.
			storetest.Equal(t, "repeated", f.MustBegin(t, in).Admitted, true)
			f.Refuse(t, f.Intent(1, storetest.WithRules(storetest.Rule(1, time.Hour))))
			storetest.Equal(t, "rows", f.Count(t), 2)
		})
	}
}

// The server commits, and then a proxy answers in its place, as a pooler may, or an engine above
// several servers. Only an answer that proves a rollback counts as a rollback.
func TestPostgresAnswersToACommit(t *testing.T) {
	f, p := faultFixture(t)
	if isRolledBack(errors.New("no answer")) || commitError(nil) != nil {
		t.Error("no answer proves a rollback, or no error is one")
	}
	for i, c := range []struct {
		mode            cut
		severity, state string
		certain         bool
	}{
		{forgeCommit, "ERROR", "23505", true}, // a deferred constraint; no real server sends one of these three after a commit
		{forgeCommit, "ERROR", "40001", true},
		{forgeCommit, "ERROR", "40P01", true},
		{forgeCommit, "ERROR", "40003", false}, // the error says that the outcome is unknown
		{forgeCommit, "ERROR", "XX000", false}, // Citus, whose worker has committed
		{forgeCommit, "ERROR", "08006", false},
		{forgeCommit, "ERROR", "57P01", false},
		{forgeCommit, "ERROR", "57014", false},
		{forgeCommit, "ERROR", "58030", false},
		{forgeCommit, "ERROR", "53100", false},
		{forgeCommit, "ERROR", "", false},
		{forgeCommit, "FATAL", "40001", false},
		{forgeAll, "FATAL", "08P01", false}, // PgBouncer, whose server crashed after its commit
		{forgeAll, "FATAL", "57P01", false},
		{forgeAll, "ERROR", "08006", false},
	} {
		for name, call := range map[string]func() error{
			"Begin": func() error { return storetest.Err(f.Begin(t.Context(), f.Intent(100+i))) },
			"Write": func() error {
				return f.Engine.(*DB).Write(t.Context(), "", 0, func(tx sqldb.Tx) error { return nil })
			},
		} {
			if c.mode == forgeAll && name != "Begin" {
				continue // its COMMIT has a round trip of its own
			}
			p.arm(cuts{mode: c.mode, times: 2, forged: failure(c.severity, c.state)}) // twice: Begin is repeated
			err := call()
			p.arm(cuts{})
			if !errors.Is(err, fault.Unavailable) && name == "Begin" || errors.Is(err, fault.Uncertain) == c.certain || err == nil {
				t.Errorf("%s, %s %q: %v", name, c.severity, c.state, err)
			}
		}
	}
}

// Reads and Pings are repeated after a lost connection. The writes in the second table are not, and
// their error says that the outcome is unknown.
func TestPostgresLostReadsAndWrites(t *testing.T) {
	f, p := faultFixture(t)
	begun := f.Admit(t, f.Intent(1))
	attempt := store.AttemptID{ID: begun.Send.ID, Attempt: 1}
	for name, call := range map[string]func() error{
		"Sends": func() error { return storetest.Err(f.Sends(t.Context(), store.Filter{Limit: 1})) },
		"Ping":  func() error { return f.Ping(t.Context()) },
	} {
		p.arm(cuts{mode: cutAny, times: 1})
		err := call()
		if seen, _ := p.seen(); err != nil || seen == 0 {
			t.Errorf("%s: %d cuts, %v", name, seen, err)
		}
		p.arm(cuts{})
	}
	for name, call := range map[string]func() error{
		"Finish": func() error {
			return storetest.Err(f.Finish(t.Context(), store.Outcome{AttemptID: attempt, Status: store.Sent}))
		},
		"Cancel":          func() error { return storetest.Err(f.Cancel(t.Context(), begun.Verification.ID)) },
		"ForgetAppEvents": func() error { _, _, err := f.ForgetAppEvents(t.Context(), time.Second, 1); return err },
		"then TakeOver": func() error {
			return storetest.Err(f.TakeOver(t.Context(), store.Queue{Channel: recipient.Email}, time.Second, 1))
		},
		"then Refused": func() error { return f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}) },
	} {
		var err error
		for range 5 { // the pool opens connections by itself; the connection that is cut may be one of these
			// Opens a connection in each pool, so that none is being opened when the cut comes.
			storetest.OK(t, f.Ping(t.Context()))
			storetest.OK(t, f.RenewLeases(t.Context(), time.Second, []store.AttemptID{{ID: uuid.New(), Attempt: 1}}))
			// "then" marks a call that first reads the time; that read is spared, because it is
			// repeated
			p.arm(cuts{mode: cutAny, times: 1, skip: strings.Count(name, "then")})
			err = call()
			p.arm(cuts{})
			if err != nil {
				break
			}
		}
		if !errors.Is(err, fault.Unavailable) || !errors.Is(err, fault.Uncertain) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If only the database rejects an intent, only that intent of the batch fails, and has certainly
// written nothing.
func TestPostgresBatchFailsOnlyTheRejectedIntent(t *testing.T) {
	f, _ := faultFixture(t)
	db := f.Engine.(*DB)
	taken := f.Admit(t, f.Intent(1)).Verification.ID
	var calls []*beginCall
	for n := range 5 {
		in := f.Intent(2 + n)
		if n == 3 {
			in.Verification.ID = taken
		}
		calls = append(calls, newBeginCall(t, in))
	}
	db.beginBatch(calls)
	onlyFailed(t, calls, 3)
	storetest.Equal(t, "rows", f.Count(t), 6)
}

// onlyFailed fails the test unless exactly these calls of a batch failed, and certainly wrote
// nothing, and the other calls succeeded.
func onlyFailed[In, Answer any](t *testing.T, calls []*batch.Call[In, Answer], these ...int) {
	t.Helper()
	for n, x := range calls {
		if slices.Contains(these, n) {
			storetest.Certain(t, x.Err)
			continue
		}
		storetest.OK(t, x.Err)
		if done := any(x.Answer); done != true && !done.(store.BeginAnswer).Admitted {
			t.Errorf("call %d: %v", n, done)
		}
	}
}

func TestPostgresRestart(t *testing.T) {
	server := servertest.Postgres(t)
	address := server.NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, ""))
	f, db := fixtureOn(t, address)
	f.Beside(db)
	for round := range 3 {
		begun := f.Admit(t, f.Intent(round))
		// fills the pool with connections
		storetest.Together(10, func(int) { _, _ = f.Sends(t.Context(), store.Filter{Limit: 1}) })
		storetest.OK(t, server.Restart())
		switch round {
		case 0:
			f.Admit(t, f.Intent(100+round))
		case 1:
			f.Count(t)
		case 2: // Cancel is never repeated, but the pool notices that its connections were closed before it gives one out
			storetest.Equal(t, "canceled", storetest.Must(f.Cancel(t.Context(), begun.Verification.ID))(t), true)
		}
	}

	server.Stop()
	storetest.Certain(t, storetest.Err(f.Begin(t.Context(), f.Intent(200))))
	storetest.Certain(t, storetest.Err(f.Finish(t.Context(), store.Outcome{Status: store.Sent})))
	storetest.Certain(t, storetest.Err(f.Sends(t.Context(), store.Filter{Limit: 1})))
	storetest.Certain(t, f.Ping(t.Context()))
	storetest.OK(t, server.Start())
	storetest.OK(t, f.Ping(t.Context()))
	f.Admit(t, f.Intent(201))
	storetest.Equal(t, "rows", f.Count(t), 5)
}

// After a failover the old primary is read-only. The pools leave it for the server to which the URL
// now leads.
func TestPostgresReadOnly(t *testing.T) {
	server := shared.Server(t)
	address := newDatabase(t)
	f := storetest.NewFixture(openTest(t, address, serverClockSQL))
	f.Beside(f.DB)
	f.Admit(t, f.Intent(1))
	u := storetest.Must(url.Parse(address))(t)
	admin := connect(t, server.AdminURL())
	demote := func(value string) {
		storetest.Must(admin.Exec(t.Context(),
			fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = %s`, u.Path[1:], value)))(t)
	}
	demote("on")
	name := u.Path[1:]
	servertest.Await(t, "the connections from before to end", func() bool {
		others := queryValue[int](t, admin,
			`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`, name)
		return others == 0
	})
	storetest.Certain(t, storetest.Err(f.Begin(t.Context(), f.Intent(2))))
	storetest.Certain(t, storetest.Err(f.Cancel(t.Context(), "x")))
	storetest.Certain(t, f.Ping(t.Context()))
	f.Count(t)
	demote("off")
	// No connection that met the refusal was kept. A connection that was opened meanwhile is
	// replaced once it meets the refusal.
	servertest.Await(t, "a send", func() bool { _, err := f.Begin(t.Context(), f.Intent(3)); return err == nil })
	servertest.Await(t, "a cancel", func() bool { _, err := f.Cancel(t.Context(), "x"); return err == nil })
	storetest.OK(t, f.Ping(t.Context()))
}

func TestPostgresIsDurable(t *testing.T) {
	server := shared.Server(t)
	address := newDatabase(t)
	u := storetest.Must(url.Parse(address))(t)
	admin := connect(t, server.AdminURL())
	for setting, want := range map[string]string{"off": "on", "local": "local"} {
		storetest.Must(admin.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = %s`, u.Path[1:], setting)))(t)
		db := openTest(t, address, serverClockSQL)
		for _, pool := range []*pgxpool.Pool{db.writers, db.finishers, db.pool} {
			got := queryValue[string](t, pool, `SHOW synchronous_commit`)
			storetest.Equal(t, "synchronous_commit with a default of "+setting, got, want)
		}
	}
}

// A commit whose standby did not answer has written its rows. No repeated call reports these rows
// before the standby has them: neither the claim of a key, whose own commit does not wait, nor a
// call that finds everything done and writes nothing.
func TestPostgresRepeatsWhatTheStandbyHas(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "synchronous_standby_names=absent", "synchronous_commit=local")
	storetest.OK(t, Migrate(t.Context(), server.URL(), ""))
	withoutStandby := storetest.NewFixture(openTest(t, server.URL()+"&synchronous_commit=on", serverClockSQL))
	withStandby := storetest.NewFixture(openTest(t, server.URL(), serverClockSQL)) // as if the standby answered
	admin := connect(t, server.AdminURL())
	uncertain := func(what string, call func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- call() }()
		var err error
		servertest.Await(t, what, func() bool {
			exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			select {
			case err = <-done:
				return true
			default:
				return false
			}
		})
		if !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	in := withoutStandby.Intent(0)
	c := store.IdempotencyClaim{Key: [32]byte{1}, SendID: in.Send.ID}
	storetest.Equal(t, "claim", storetest.Must(withoutStandby.ClaimIdempotencyKey(t.Context(), c))(t).State, store.IdempotencyClaimGranted)
	begin := func() error { return storetest.Err(withoutStandby.Begin(t.Context(), in)) }
	uncertain("a send, and its second run", begin)
	uncertain("its repetition", begin)
	storetest.OK(t, withoutStandby.ReleaseIdempotencyKey(t.Context(), c.Key, c.SendID, false))
	c.SendID = withoutStandby.Intent(0).Send.ID
	uncertain("a repetition with its key", func() error { return storetest.Err(withoutStandby.ClaimIdempotencyKey(t.Context(), c)) })
	again := storetest.Must(withStandby.ClaimIdempotencyKey(t.Context(), c))(t)
	storetest.Equal(t, "repeated: state", again.State, store.IdempotencyClaimDone)
	storetest.Equal(t, "repeated: send", again.Send.ID, in.Send.ID)
	storetest.Equal(t, "repeated", withStandby.MustBegin(t, in).Repeated, true)
	ours := withStandby.Admit(t, withStandby.Intent(3)).Verification.ID
	theirs := withStandby.Admit(t, withStandby.Intent(4,
		func(in *store.Intent) { in.Code, in.Verification.CallerChecks = []byte{1}, true })).Verification.ID
	ended := withStandby.Admit(t, withStandby.Intent(5)).Verification.ID
	key := make([]byte, 2*store.CheckKeyHashSize)
	check := store.CheckRequest{
		ID: ours, Key: key[:store.CheckKeyHashSize],
		Judge: func(store.Verification, bool) (store.Judgement, error) {
			return store.Judgement{Right: true, CheckKey: key}, nil
		},
	}
	for _, what := range []string{"", "repeated "} {
		uncertain(what+"check", func() error { return storetest.Err(withoutStandby.Check(t.Context(), check)) })
		uncertain(what+"redemption", func() error { return storetest.Err(withoutStandby.Redeem(t.Context(), ours, key)) })
		uncertain(what+"cancel", func() error { return storetest.Err(withoutStandby.Cancel(t.Context(), ended)) })
		uncertain(what+"report", func() error {
			return storetest.Err(withoutStandby.Report(t.Context(), theirs, store.ReportFailed, nil, store.NewEvent{}))
		})
	}
	storetest.Equal(t, "redeemed", storetest.Must(withStandby.Redeem(t.Context(), ours, key))(t), true)
	storetest.Equal(t, "redeemed with another key", storetest.Must(withStandby.Redeem(t.Context(), ours, key[1:]))(t), false)
}

// A read that may take a minute waits while another such read runs, but not after its context has
// ended. When a long read has ended, the next can run.
func TestPostgresLongReadsRunOneByOne(t *testing.T) {
	t.Parallel()
	f := newPostgresFixture(t)
	f.LongReads <- struct{}{}
	q := store.StatsQuery{From: time.Unix(0, 0), To: time.Unix(3600, 0), IntervalLength: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Stats(ctx, q)
	storetest.Is(t, err, fault.Unavailable)
	<-f.LongReads
	storetest.OK(t, storetest.Err(f.Stats(t.Context(), q)))
	storetest.Equal(t, "held", len(f.LongReads), 0)
}
