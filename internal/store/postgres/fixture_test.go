package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/storetest"
)

// DB passes the whole contract with the service's role, which has the fewest rights.
func TestPostgres(t *testing.T) {
	runContract(t, func(f *storetest.Fixture) *storetest.Fixture { return f })
}

// runContract runs the named groups of the contract, or all. The cases share a few databases and
// their open connections, because starting a server process for each connection of each case would
// take several times as long as the cases.
func runContract(t *testing.T, change func(*storetest.Fixture) *storetest.Fixture, groups ...string) {
	t.Helper()
	makeAppRole(t)
	var mu sync.Mutex
	var idleReplicas []*replicas
	storetest.Run(t, func(sub *testing.T) *storetest.Fixture {
		if strings.Contains(sub.Name(), "/end/") { // its case closes the database
			return change(newPostgresFixture(sub, appRole))
		}
		mu.Lock()
		defer mu.Unlock()
		if len(idleReplicas) == 0 {
			idleReplicas = append(idleReplicas, newReplicas(t))
		}
		r := idleReplicas[len(idleReplicas)-1]
		idleReplicas = idleReplicas[:len(idleReplicas)-1]
		r.cases = append(r.cases, sub.Name())
		sub.Cleanup(func() {
			r.renew(sub)
			mu.Lock()
			defer mu.Unlock()
			idleReplicas = append(idleReplicas, r)
		})
		return change(fixtureOf(r.db, r.other, r.clock))
	}, groups...)
}

// replicas are two replicas on one database, with the connection that moves the database's clock,
// and the contract's cases that have used the replicas.
type replicas struct {
	db, other    *DB
	clock, admin *pgx.Conn
	cases        []string
}

// newReplicas opens replicas, which close when t ends. After that it tests that no statement of a
// case has read one of the large tables from end to end.
func newReplicas(t *testing.T) *replicas {
	t.Helper()
	url := newTestSchema(t, appRole)
	r := &replicas{}
	t.Cleanup(func() {
		ctx := context.Background() // t.Context() has ended, because the test is over
		admin := storetest.Must(pgx.Connect(ctx, withLogin(t, url, "postgres")))(t)
		defer admin.Close(ctx)
		counts := scans(ctx, t, admin)
		for _, table := range []string{
			"sends", "refusals", "verifications", "suppressions", "app_events",
			"provider_events", "outbox", "failures", "refunds", "minute_index",
		} {
			if n := counts[table]; n > 0 {
				t.Errorf("%s was read from end to end %d times, by %q", table, n, r.cases)
			}
		}
	})
	r.db, r.other = openTest(t, url+unhurried, testClockSQL, appRole), openTest(t, url+unhurried, testClockSQL, appRole)
	r.clock, r.admin = connect(t, url), connect(t, withLogin(t, url, "postgres"))
	return r
}

// renew removes everything that a case has written.
func (r *replicas) renew(t *testing.T) {
	t.Helper()
	deleteRows(t, r.admin)
	for _, db := range []*DB{r.db, r.other} {
		db.sawClock(storetest.Epoch)
		db.searches.byQueue, db.Actions = nil, nil
		db.committed.Store(nil)
		db.spaceChecked.Store(false)
	}
}

// scans returns how often each table, or one of its partitions, was read from end to end. It waits
// until all other connections of the database are closed.
func scans(ctx context.Context, t *testing.T, admin *pgx.Conn) map[string]int64 {
	t.Helper()
	servertest.Await(t, "all other connections to end", func() bool {
		var others int
		storetest.OK(t, admin.QueryRow(ctx, `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others))
		return others == 0
	})
	rows := storetest.Must(admin.Query(ctx, `
SELECT coalesce(h.inhparent, s.relid)::regclass::text, sum(s.seq_scan)::bigint
FROM pg_stat_user_tables s LEFT JOIN pg_inherits h ON h.inhrelid = s.relid GROUP BY 1`))(t)
	var name string
	var n int64
	counts := map[string]int64{}
	storetest.Must(pgx.ForEachRow(rows, []any{&name, &n}, func() error { counts[name] = n; return nil }))(t)
	return counts
}

const appRole = "sendcode_app"

// makeAppRole creates the service's role, as an administrator of the database would.
func makeAppRole(t *testing.T) {
	t.Helper()
	server := shared.Server(t)
	conn := connect(t, server.AdminURL())
	owner := storetest.Must(pgx.ParseConfig(server.URL()))(t)
	exec(t, conn, `DO $$ BEGIN CREATE ROLE `+appRole+` LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
		`GRANT `+appRole+` TO `+pgx.Identifier{owner.User}.Sanitize())
}

// testClockSQL reads the clock that tests step. It calls a function, which the planner treats like
// clock_timestamp(). If it read the table directly, which has no index, that alone would cost 10^10
// with enable_seqscan off, and the planner would treat any other scan as free.
const testClockSQL = "(SELECT test_now())"

// newPostgresFixture opens two replicas on a database that has the clock and the partitions of the
// tests.
func newPostgresFixture(t *testing.T, role ...string) *storetest.Fixture {
	t.Helper()
	return postgresFixture(t, newTestSchema(t, role...), role...)
}

func newTestSchema(t *testing.T, role ...string) string {
	t.Helper()
	return borrowDatabase(t, "test clock, "+strings.Join(role, ""), func(url string) { makeTestSchema(t, url, role...) })
}

func makeTestSchema(t *testing.T, url string, role ...string) {
	t.Helper()
	conn := storetest.Must(pgx.Connect(t.Context(), url))(t)
	storetest.Must(conn.Exec(t.Context(), `CREATE TABLE test_clock AS SELECT $1::timestamptz AS at`, storetest.Epoch))(t)
	storetest.Must(conn.Exec(t.Context(), `CREATE FUNCTION test_now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN (SELECT at FROM test_clock); END $$`))(t)
	storetest.OK(t, Migrate(t.Context(), url, strings.Join(role, "")))
	repartition(t, conn, storetest.Epoch.Add(time.Minute), storetest.Epoch.Add(time.Hour), storetest.Epoch.Add(40*24*time.Hour))
	storetest.OK(t, conn.Close(t.Context()))
}

// idleDatabases has the databases that no test uses now, by kind. Making and dropping a database
// takes longer than most tests.
var idleDatabases = struct {
	sync.Mutex
	urls map[string][]string
}{urls: map[string][]string{}}

// borrowDatabase returns a database of the shared server, which fill prepares for its kind. A later
// test of that kind gets the same database, emptied. A test that changes the schema must use
// newDatabase.
func borrowDatabase(t *testing.T, kind string, fill func(url string)) (url string) {
	t.Helper()
	server := shared.Server(t)
	idleDatabases.Lock()
	if list := idleDatabases.urls[kind]; len(list) > 0 {
		url, idleDatabases.urls[kind] = list[len(list)-1], list[:len(list)-1]
	}
	idleDatabases.Unlock()
	if url == "" {
		url = storetest.Must(server.CreateDatabase(t.Context()))(t)
		fill(url)
		empty(t, url)
	}
	t.Cleanup(func() {
		empty(t, url)
		idleDatabases.Lock()
		defer idleDatabases.Unlock()
		idleDatabases.urls[kind] = append(idleDatabases.urls[kind], url)
	})
	return url
}

// empty ends all other connections of a database, deletes its rows, and resets the clock of the
// tests and the server's counts.
func empty(t *testing.T, url string) {
	t.Helper()
	ctx := context.Background() // t.Context() has ended, because the test is over
	conn := storetest.Must(pgx.Connect(ctx, withLogin(t, url, "postgres")))(t)
	defer conn.Close(ctx)
	storetest.Must(conn.Exec(ctx, `
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`))(t)
	deleteRows(t, conn)
	for _, statement := range []string{`SELECT pg_stat_force_next_flush()`, `SELECT pg_stat_reset()`} {
		storetest.Must(conn.Exec(ctx, statement))(t)
	}
}

// deleteRows deletes all rows of a database but those about its migrations, as an administrator,
// and resets the clock of the tests. The server does not count these changes.
func deleteRows(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	storetest.Must(admin.Exec(context.Background(), `
SET session_replication_role = replica; -- foreign keys are not looked at
SET track_counts = off;
DO $$ DECLARE name regclass; BEGIN
ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_append_only;
ALTER TABLE audit_recipients DISABLE TRIGGER audit_recipients_append_only;
FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
	AND relname NOT IN ('sendcode_schema', 'schema_fingerprints', 'test_clock') LOOP
	EXECUTE 'DELETE FROM ' || name;
END LOOP;
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_append_only;
ALTER TABLE audit_recipients ENABLE ALWAYS TRIGGER audit_recipients_append_only;
IF to_regclass('test_clock') IS NOT NULL THEN UPDATE test_clock SET at = '`+storetest.Epoch.Format(time.RFC3339Nano)+`'; END IF;
END $$`, pgx.QueryExecModeSimpleProtocol))(t)
}

// postgresFixture opens two replicas on a database that makeTestSchema has prepared.
func postgresFixture(t *testing.T, url string, role ...string) *storetest.Fixture {
	t.Helper()
	conn := connect(t, url)
	return fixtureOf(openTest(t, url+unhurried, testClockSQL, role...), openTest(t, url+unhurried, testClockSQL, role...), conn)
}

// fixtureOf returns a fixture of two replicas on a database whose clock conn steps.
func fixtureOf(db, other *DB, conn *pgx.Conn) *storetest.Fixture {
	return storetest.NewFixture(db).Beside(other).Clocked(storetest.Epoch, func(d time.Duration) {
		_, err := conn.Exec(context.Background(), `UPDATE test_clock SET at = at + $1 * interval '1 microsecond'`, d.Microseconds())
		if err != nil {
			panic(err)
		}
	})
}

// repartition replaces the partitions by others, which reach from the beginning of time to its end
// and are split at the given instants.
func repartition(t *testing.T, conn *pgx.Conn, at ...time.Time) {
	t.Helper()
	rows := storetest.Must(conn.Query(t.Context(), `SELECT name FROM sendcode_partitions`))(t)
	names := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	for _, name := range names {
		storetest.Must(conn.Exec(t.Context(), `DROP TABLE `+name))(t)
	}
	from := "MINVALUE"
	for i := range len(at) + 1 {
		to := "MAXVALUE"
		if i < len(at) {
			to = "'" + store.LowestID(at[i]).String() + "'"
		}
		name := fmt.Sprintf("sends_%d", i)
		storetest.Must(conn.Exec(t.Context(), `CREATE TABLE `+name+` (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)`))(t)
		storetest.Must(conn.Exec(t.Context(), `ALTER TABLE sends ATTACH PARTITION `+name+` FOR VALUES FROM (`+from+`) TO (`+to+`)`))(t)
		from = to
	}
}

// copySends returns SQL that writes a copy of each send s with another ID and the status sent.
// logged is SQL for the time at which the copy was logged. Callers may append to the FROM clause.
func copySends(logged string) string {
	const same = "verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, network, " +
		"attempt, counts"
	return `INSERT INTO sends (id, status, logged_at, ` + same + `) SELECT ` + randomID + `, 'sent', ` + logged + `, ` +
		same + ` FROM sends s`
}

// randomID is the SQL of an ID of the present time.
const randomID = `(left(sendcode_lowest_id(now())::text, 13) || substr(gen_random_uuid()::text, 14))::uuid`

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func queryValue[V any](t *testing.T, q querier, sql string, args ...any) (v V) {
	t.Helper()
	storetest.OK(t, q.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// connect opens a connection that ends with the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := storetest.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// newBeginCall returns the call that Begin makes for an intent.
func newBeginCall(t *testing.T, in store.Intent) *beginCall {
	t.Helper()
	in = storetest.Must(store.ValidatedIntent(in))(t)
	return batch.NewCall[store.Intent, store.BeginAnswer](in, store.RecipientLockKey(in.Send))
}

// borrowMigrated returns a migrated and empty database of the shared server.
func borrowMigrated(t *testing.T) string {
	t.Helper()
	return borrowDatabase(t, "migrated", func(url string) { storetest.OK(t, Migrate(t.Context(), url, "")) })
}

// newDatabase makes a migrated database on the shared server.
func newDatabase(t testing.TB) string {
	t.Helper()
	return shared.Copy(t, "migrated", func(url string) { storetest.OK(t, Migrate(t.Context(), url, "")) })
}

func openTest(t testing.TB, url, clockSQL string, role ...string) *DB {
	t.Helper()
	db := storetest.Must(openWithClock(t.Context(), url, clockSQL, strings.Join(role, ""), &tripTracer{}))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// fixtureOn opens one replica on a database, on the server's own clock.
func fixtureOn(t *testing.T, url string, role ...string) (*storetest.Fixture, *DB) {
	t.Helper()
	db := openTest(t, url, serverClockSQL, role...)
	return storetest.NewFixture(db), db
}

// startBegin runs a Begin in the background. The answer is set once the channel has received the
// error.
func startBegin(t *testing.T, f *storetest.Fixture, in store.Intent) (*store.BeginAnswer, chan error) {
	answer, done := new(store.BeginAnswer), make(chan error, 1)
	go func() {
		var err error
		*answer, err = f.Begin(t.Context(), in)
		done <- err
	}()
	return answer, done
}

// shared is the server of all tests, except tests that stop the server, change its settings or wait
// for its disk.
var shared servertest.SharedPostgres

// longer is the factor by which a call may take longer than in the product, since the machine may
// be busy.
const longer = 4

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "40") // unless the command says how many
	_ = flag.Set("test.parallel", "4") // parallel tests mostly wait for a PgBouncer to connect
	store.CallTimeout *= longer
	OpenConnsAhead = false
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
