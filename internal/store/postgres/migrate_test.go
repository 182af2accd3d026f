package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sendcode/internal/fault"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/migrations"
)

func TestMigrateThreeReplicasAtOnce(t *testing.T) {
	url := shared.Server(t).NewDatabase(t)
	_, err := Open(t.Context(), url, "")
	if err == nil || !strings.Contains(err.Error(), "migration 1 of this program is not applied: run sendcode migrate") {
		t.Fatalf("opened without a schema: %v", err)
	}
	storetest.Together(3, func(int) {
		if err := Migrate(t.Context(), url, ""); err != nil {
			t.Error(err)
		}
	})
	storetest.OK(t, Migrate(t.Context(), url, "")) // again: nothing to do
	log := storetest.Must(Open(t.Context(), url, ""))(t)
	defer log.Close()
	f := storetest.NewFixture(log)
	f.Admit(t, f.Intent(1))
	locks := one[int](t, log.pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`)
	storetest.Equal(t, "locks left", locks, 0)

	// A newer schema, after an update of another replica: migrations only add, so this program works on.
	storetest.Must(log.pool.Exec(t.Context(), `INSERT INTO sendcode_schema (version_id, is_applied) VALUES (99999, true)`))(t)
	newer := storetest.Must(Open(t.Context(), url, ""))(t)
	storetest.OK(t, newer.Close())
}

// A schema that was made from another file is used neither at start nor later.
func TestSchemaOfAnotherBuild(t *testing.T) {
	url := newDatabase(t)
	log := openTest(t, url, serverClock)
	storetest.OK(t, log.Ping(t.Context()))
	exec := func(statement string) { storetest.Must(log.pool.Exec(t.Context(), statement))(t) }
	exec(`UPDATE schema_fingerprints SET sha256 = reverse(sha256)`)
	storetest.Is(t, log.Ping(t.Context()), store.ErrSchema)
	storetest.Is(t, log.Ping(t.Context()), fault.Unavailable)
	_, err := Open(t.Context(), url, "")
	storetest.Is(t, err, store.ErrSchema)
	storetest.Is(t, Migrate(t.Context(), url, ""), store.ErrSchema)
	exec(`UPDATE schema_fingerprints SET sha256 = reverse(sha256)`)
	storetest.OK(t, Migrate(t.Context(), url, ""))
	storetest.OK(t, log.Ping(t.Context()))
}

// While one replica migrates, others wait without a snapshot, or an index that is built concurrently would wait for
// them, and they for it. A wait ends with its context.
func TestMigrateWaitsWithoutASnapshot(t *testing.T) {
	url := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), url, ""))
	config := storetest.Must(pgx.ParseConfig(url))(t)
	config.RuntimeParams["statement_timeout"] = "20s"
	db := stdlib.OpenDB(*config)
	defer db.Close()
	unlock := storetest.Must(lockSchema(t.Context(), db))(t)

	const waiters = 3
	asked := func() int {
		var n int
		storetest.OK(t, db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sendcode migrate' AND query LIKE '%pg_try_advisory_lock%'`).Scan(&n))
		return n
	}
	done, gaveUp := make(chan error), make(chan error)
	for range waiters - 1 {
		go func() { done <- Migrate(t.Context(), url, "") }()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { gaveUp <- Migrate(ctx, url, "") }()
	servertest.Await(t, "every migration to wait", func() bool { return asked() == waiters })
	cancel()
	storetest.Is(t, <-gaveUp, context.Canceled)
	storetest.Must(db.Exec(`CREATE INDEX CONCURRENTLY later ON verifications (locale)`))(t)
	select {
	case err := <-done:
		t.Fatalf("migrated beside another: %v", err)
	default:
	}
	storetest.OK(t, unlock())
	for range waiters - 1 {
		storetest.OK(t, <-done)
	}
}

// A table that is locked: the migration lets go after its lock_timeout, so that those behind it get their turn, and
// comes again.
func TestMigrateComesAgain(t *testing.T) {
	url := newDatabase(t)
	config := storetest.Must(pgx.ParseConfig(url))(t)
	config.RuntimeParams["lock_timeout"] = "10ms"
	db := stdlib.OpenDB(*config)
	defer db.Close()
	holder := connect(t, url)
	tx := storetest.Must(holder.Begin(t.Context()))(t)
	storetest.Must(tx.Exec(t.Context(), `LOCK TABLE sends IN ACCESS SHARE MODE`))(t)

	files := fstest.MapFS{"postgres/99998_later.sql": {Data: []byte("-- +goose Up\nALTER TABLE sends ADD later integer;\n")}}
	tries := 0
	err := retryLocked(t.Context(), func() error {
		tries++
		if tries == 3 {
			storetest.OK(t, tx.Rollback(t.Context()))
		}
		return migrations.Migrate(t.Context(), goose.DialectPostgres, db, files, "postgres")
	})
	storetest.OK(t, err)
	storetest.Equal(t, "tries", tries, 3)

	tries = 0
	err = retryLocked(t.Context(), func() error { tries++; return errors.New("no such thing") })
	if err == nil || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

func TestPostgresErrorsTellNoPassword(t *testing.T) {
	port := servertest.FreePort(t)
	for _, url := range []string{
		"postgres://me:hunter2@127.0.0.1:none/db", "postgres://me:hunter2@[::1/db", "host=/tmp password=hunter2 port=x",
		"postgres://me:hunter2@127.0.0.1:" + strconv.Itoa(port) + "/db?connect_timeout=1", "hunter2://me",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
		_, opened := Open(ctx, url, "")
		for _, err := range []error{opened, Migrate(ctx, url, "")} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v", err)
			}
		}
		cancel()
	}
}

// Behind a PgBouncer as it comes, two replicas keep the contract of what a send passes through.
func TestBehindPgBouncer(t *testing.T) {
	server := shared.Server(t)
	// The pool size is that of docs/operations.md for two replicas. Each case has a database, and with it a pool: those of cases that are
	// over make room.
	bouncer := servertest.PgBouncer(t, server, "max_user_connections = 300", fmt.Sprint("default_pool_size = ", 2*ConnsPerReplica+6))
	storetest.Run(t, func(t *testing.T) *storetest.Fixture {
		return postgresFixture(t, bouncer.Through(newTestSchema(t)))
	},
		"begin", "flight", "claim")
}

// Each connection has the settings, as if they had been in its startup message, and begins as the role.
func TestSettingsBehindPgBouncer(t *testing.T) {
	server := shared.Server(t)
	makeAppRole(t)
	bouncer := servertest.PgBouncer(t, server)
	direct := server.NewDatabase(t)
	through := bouncer.Through(direct) + "&statement_timeout=7s"
	storetest.OK(t, Migrate(t.Context(), through, appRole))
	p := storetest.Must(Open(t.Context(), through, appRole))(t)
	t.Cleanup(func() { storetest.OK(t, p.Close()) })
	for setting, want := range map[string]string{
		"lock_timeout": "1s", "statement_timeout": "7s", "TimeZone": "UTC", "enable_seqscan": "off", "jit": "off", "role": appRole,
		"application_name":   "sendcode",
		"synchronous_commit": "on",
	} {
		for name, pool := range map[string]*pgxpool.Pool{"writers": p.writers, "finishers": p.finishers, "others": p.pool} {
			got := one[string](t, pool, `SELECT current_setting($1)`, setting)
			if got != want {
				t.Errorf("%s: %s is %s, want %s", name, setting, got, want)
			}
		}
	}
}

func TestPoolersThatDivideSessionsAreRefused(t *testing.T) {
	server := shared.Server(t)
	direct := newDatabase(t)
	for name, settings := range map[string][]string{
		"transactions":              {"pool_mode = transaction"},
		"transactions, all ignored": {"pool_mode = transaction", "ignore_startup_parameters = extra_float_digits,lock_timeout,role"},
		"transactions, in turn":     {"pool_mode = transaction", "server_round_robin = 1", "min_pool_size = 3"},
		"transactions, one":         {"pool_mode = transaction", "default_pool_size = 1"},
		"statements":                {"pool_mode = statement"},
		"one session":               {"default_pool_size = 1"}, // one for each of two connections is the least
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := servertest.PgBouncer(t, server, settings...).Through(direct)
			_, opened := Open(t.Context(), url, "")
			for _, err := range []error{opened, Migrate(t.Context(), url, "")} {
				want := map[bool]string{true: "pool_mode = session", false: "default_pool_size"}[strings.HasPrefix(settings[0], "pool_mode")]
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for _, url := range []string{direct, servertest.PgBouncer(t, server, "server_round_robin = 1", "min_pool_size = 3").Through(direct)} {
		config := storetest.Must(pgx.ParseConfig(url))(t)
		storetest.OK(t, checkSessions(t.Context(), config))
	}
}
