package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// The whole contract is kept by the role that has the fewest rights.
func TestPostgres(t *testing.T) {
	makeAppRole(t)
	storetest.Run(t, func(t *testing.T) *storetest.Fixture { return newPostgresFixture(t, appRole) })
}

func TestPostgresGateOnManySteps(t *testing.T) {
	storetest.RunGateSchedule(t, newPostgresFixture(t))
}

const appRole = "sendcode_app"

// makeAppRole makes the role that the service works as, as an administrator of the database would.
func makeAppRole(t *testing.T) {
	t.Helper()
	server := shared.Server(t)
	conn := storetest.Must(pgx.Connect(t.Context(), server.AdminURL()))(t)
	defer conn.Close(context.Background())
	owner := storetest.Must(pgx.ParseConfig(server.URL()))(t)
	_, err := conn.Exec(t.Context(), `DO $$ BEGIN CREATE ROLE `+appRole+` LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	storetest.OK(t, err)
	storetest.Must(conn.Exec(t.Context(), `GRANT `+appRole+` TO `+pgx.Identifier{owner.User}.Sanitize()))(t)
}

// testClockSQL reads the clock that tests step.
const testClockSQL = "(SELECT at FROM test_clock)"

// newPostgresFixture makes a database with two replicas on it.
func newPostgresFixture(t *testing.T, role ...string) *storetest.Fixture {
	t.Helper()
	return postgresFixture(t, newTestSchema(t, role...), role...)
}

// newTestSchema makes a database whose log has the clock and the partitions of tests.
func newTestSchema(t *testing.T, role ...string) string {
	t.Helper()
	return shared.Copy(t, "test schema of "+strings.Join(role, ""), func(url string) { fillTestSchema(t, url, role...) })
}

func fillTestSchema(t *testing.T, url string, role ...string) {
	t.Helper()
	conn := storetest.Must(pgx.Connect(t.Context(), url))(t)
	defer func() { storetest.OK(t, conn.Close(context.Background())) }()
	storetest.Must(conn.Exec(t.Context(), `CREATE TABLE test_clock AS SELECT $1::timestamptz AS at`, storetest.Epoch))(t)
	storetest.OK(t, Migrate(t.Context(), url, strings.Join(role, "")))
	divide(t, conn, storetest.Epoch.Add(time.Minute), storetest.Epoch.Add(time.Hour), storetest.Epoch.Add(40*24*time.Hour))
}

// postgresFixture opens two replicas on a database that newTestSchema has made. What two dozen do to one row at once waits for its
// lock as long as a busy machine takes, not for the second that is the service's.
func postgresFixture(t *testing.T, url string, role ...string) *storetest.Fixture {
	t.Helper()
	conn := storetest.Must(pgx.Connect(t.Context(), url))(t)
	url += "&lock_timeout=1min"
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	step := func(d time.Duration) {
		storetest.Must(conn.Exec(t.Context(), `UPDATE test_clock SET at = at + $1 * interval '1 microsecond'`, d.Microseconds()))(t)
	}
	return storetest.NewFixture(openTest(t, url, testClockSQL, role...)).Beside(openTest(t, url, testClockSQL,
		role...)).Clocked(storetest.Epoch, step)
}

// divide makes other partitions than those of the present, from the beginning of time to its end.
func divide(t *testing.T, conn *pgx.Conn, at ...time.Time) {
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

// copySends writes copies of the sends that ended, with other IDs, in SQL; logged is when each was logged.
func copySends(logged string) string {
	const same = "verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, " +
		"attempt, counts, taken_at, clock"
	return `INSERT INTO sends (id, status, logged_at, ` + same + `) SELECT ` + randomID + `, 'sent', ` + logged + `, ` + same + ` FROM sends s`
}

// randomID is one of now, in SQL.
const randomID = `(left(sendcode_lowest_id(now())::text, 13) || substr(gen_random_uuid()::text, 14))::uuid`

// called is the call of an intent, as Begin makes it.
func called(t *testing.T, in store.Intent) *call {
	t.Helper()
	in = storetest.Must(store.Checked(in))(t)
	return newCall(in, store.LockKey(in.Send))
}

// newDatabase makes a migrated database on the shared server.
func newDatabase(t testing.TB) string {
	t.Helper()
	return shared.Copy(t, "migrated", func(url string) { storetest.OK(t, Migrate(t.Context(), url, "")) })
}

// newDatabaseOn makes a migrated database on another server.
func newDatabaseOn(t testing.TB, server *parts.PostgresServer) string {
	t.Helper()
	url := server.NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), url, ""))
	return url
}

func openTest(t testing.TB, url, now string, role ...string) *DB {
	t.Helper()
	log := storetest.Must(openAt(t.Context(), url, now, strings.Join(role, "")))(t)
	t.Cleanup(func() { _ = log.Close() })
	return log
}
