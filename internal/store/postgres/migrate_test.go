package postgres

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
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
	var mu sync.Mutex
	var files []string
	ctx := migrations.WithReport(t.Context(), func(file string) {
		mu.Lock()
		defer mu.Unlock()
		files = append(files, file)
	})
	storetest.Together(3, func(int) {
		if err := Migrate(ctx, url, ""); err != nil {
			t.Error(err)
		}
	})
	storetest.OK(t, Migrate(ctx, url, "")) // again: nothing to do
	want := storetest.Must(fs.Glob(storetest.Must(fs.Sub(migrations.Postgres, "postgres"))(t), "*.sql"))(t)
	storetest.Equal(t, "files, each reported once", files, want)
	db := storetest.Must(Open(t.Context(), url, ""))(t)
	defer db.Close()
	f := storetest.NewFixture(db)
	f.Admit(t, f.Intent(1))
	locks := queryValue[int](t, db.pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`)
	storetest.Equal(t, "locks left", locks, 0)

	// A newer schema, after another replica was updated: this program continues to work, since
	// migrations only add.
	storetest.Must(db.pool.Exec(t.Context(), `INSERT INTO sendcode_schema (version_id, is_applied) VALUES (99999, true)`))(t)
	newer := storetest.Must(Open(t.Context(), url, ""))(t)
	storetest.OK(t, newer.Close())
}

// A schema that was made from another file is rejected, both at start and later.
func TestSchemaOfAnotherBuild(t *testing.T) {
	url := newDatabase(t)
	db := openTest(t, url, serverClockSQL)
	storetest.OK(t, db.Ping(t.Context()))
	exec := func(statement string) { storetest.Must(db.pool.Exec(t.Context(), statement))(t) }
	exec(`UPDATE schema_fingerprints SET sha256 = reverse(sha256)`)
	storetest.Is(t, db.Ping(t.Context()), store.ErrSchema)
	storetest.Is(t, db.Ping(t.Context()), fault.Unavailable)
	storetest.Is(t, storetest.Err(Open(t.Context(), url, "")), store.ErrSchema)
	storetest.Is(t, Migrate(t.Context(), url, ""), store.ErrSchema)
	exec(`UPDATE schema_fingerprints SET sha256 = reverse(sha256)`)
	storetest.OK(t, Migrate(t.Context(), url, ""))
	storetest.OK(t, db.Ping(t.Context()))
}

// A later migration is applied once, and a program that does not have it still opens the database.
func TestMigrateLaterFile(t *testing.T) {
	url := newDatabase(t)
	db := stdlib.OpenDB(*storetest.Must(pgx.ParseConfig(url))(t))
	defer db.Close()
	storetest.MigrateLater(t, migrations.Postgres, "postgres", func(ctx context.Context, files fs.FS) error {
		return migrations.Migrate(ctx, goose.DialectPostgres, db, files, "postgres")
	})
	f := storetest.NewFixture(openTest(t, url, serverClockSQL))
	f.Admit(t, f.Intent(1))
}

// While one replica migrates, others wait without a snapshot. With a snapshot, its CREATE INDEX
// CONCURRENTLY would wait for them, and they for it. A wait ends with its context.
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
		storetest.OK(t, db.QueryRow(
			`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sendcode migrate' AND query LIKE '%pg_try_advisory_lock%'`).Scan(&n))
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

// If a table is locked, the migration gives up after its lock_timeout, so that statements queued
// behind it can run, and tries again.
func TestMigrateRetriesAfterLockTimeout(t *testing.T) {
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
	err := retryWhileLocked(t.Context(), func() error {
		tries++
		if tries == 3 {
			storetest.OK(t, tx.Rollback(t.Context()))
		}
		return migrations.Migrate(t.Context(), goose.DialectPostgres, db, files, "postgres")
	})
	storetest.OK(t, err)
	storetest.Equal(t, "tries", tries, 3)

	tries = 0
	err = retryWhileLocked(t.Context(), func() error { tries++; return errors.New("no such thing") })
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

// A database in an encoding other than UTF-8 is refused, with the remedy.
func TestOpenRefusesAnotherEncoding(t *testing.T) {
	t.Parallel()
	server := shared.Server(t)
	conn := storetest.Must(pgx.Connect(t.Context(), server.AdminURL()))(t)
	defer conn.Close(t.Context())
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := strings.ToLower(encoding)
		storetest.Must(conn.Exec(t.Context(), "CREATE DATABASE "+name+" ENCODING '"+encoding+
			"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"))(t)
		at := storetest.Must(url.Parse(server.AdminURL()))(t)
		at.Path = name
		_, opened := Open(t.Context(), at.String(), "")
		for _, err := range []error{opened, Migrate(t.Context(), at.String(), "")} {
			if err == nil || !strings.Contains(err.Error(), encoding+": create one with ENCODING 'UTF8'") {
				t.Errorf("%s: %v", encoding, err)
			}
		}
	}
}

// A database in which Citus distributes tables is refused, by Open and by Migrate. A database that
// only has the extension is not. A table stands in for the catalog of Citus, because Debian has no
// Citus.
func TestDistributedTablesAreRefused(t *testing.T) {
	t.Parallel()
	at := newDatabase(t)
	conn := storetest.Must(pgx.Connect(t.Context(), at))(t)
	defer conn.Close(t.Context())
	open := func() error {
		db, err := Open(t.Context(), at, "")
		if err == nil {
			storetest.OK(t, db.Close())
		}
		return err
	}
	storetest.Must(conn.Exec(t.Context(), `CREATE TABLE pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL)`))(t)
	storetest.OK(t, Migrate(t.Context(), at, ""))
	storetest.OK(t, open())
	storetest.Must(conn.Exec(t.Context(), `INSERT INTO pg_dist_partition VALUES ('sends', 'h')`))(t)
	for _, err := range []error{open(), Migrate(t.Context(), at, "")} {
		if !errors.Is(err, errDistributedTables) {
			t.Errorf("%v", err)
		}
	}
}

// A server that grants every lock, as CockroachDB before 26.2 does, is refused. Two processes that
// start at once are not mistaken for such a server.
func TestCheckServerRefusesAServerWithoutLocks(t *testing.T) {
	t.Parallel()
	direct := newDatabase(t)
	conn := storetest.Must(pgx.Connect(t.Context(), direct))(t)
	defer conn.Close(t.Context())
	storetest.Must(conn.Exec(t.Context(),
		`CREATE SCHEMA unlocked; CREATE FUNCTION unlocked.pg_try_advisory_xact_lock(bigint) RETURNS boolean RETURN true`))(t)
	_, opened := Open(t.Context(), direct+"&options="+url.QueryEscape("-csearch_path=unlocked,pg_catalog,public"), "")
	migrated := Migrate(t.Context(), direct+"&options="+url.QueryEscape("-csearch_path=unlocked,pg_catalog,public"), "")
	for _, err := range []error{opened, migrated} {
		if !errors.Is(err, errIneffectiveLocks) {
			t.Errorf("%v", err)
		}
	}
	storetest.Must(conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, int64(probeLockKey)))(t)
	storetest.OK(t, checkServerAt(t.Context(), storetest.Must(pgx.ParseConfig(direct))(t)))
}
