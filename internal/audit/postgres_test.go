package audit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// The whole contract is kept by the role that has the fewest rights.
func TestPostgres(t *testing.T) {
	server := parts.Postgres(t)
	makeAppRole(t, server)
	schema := newTestSchema(t, server, As(appRole))
	runContract(t, func(t *testing.T) *fixture { return postgresFixture(t, server.Copy(t, schema), As(appRole)) })
}

func TestPostgresGateOnManySteps(t *testing.T) {
	runGateSchedule(t, newPostgresFixture(t, parts.Postgres(t)))
}

const appRole = "sendcode_app"

// makeAppRole makes the role that the service works as, as an administrator of the database would.
func makeAppRole(t *testing.T, server *parts.PostgresServer) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.AdminURL())
	ok(t, err)
	defer conn.Close(context.Background())
	owner, err := pgx.ParseConfig(server.URL())
	ok(t, err)
	_, err = conn.Exec(t.Context(), `DO $$ BEGIN CREATE ROLE `+appRole+` LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	ok(t, err)
	_, err = conn.Exec(t.Context(), `GRANT `+appRole+` TO `+pgx.Identifier{owner.User}.Sanitize())
	ok(t, err)
}

// testClockSQL reads the clock that tests step.
const testClockSQL = "(SELECT at FROM test_clock)"

// newPostgresFixture makes a database with two replicas on it.
func newPostgresFixture(t *testing.T, server *parts.PostgresServer, options ...Option) *fixture {
	t.Helper()
	return postgresFixture(t, newTestSchema(t, server, options...), options...)
}

// newTestSchema makes a database whose log has the clock and the partitions of tests. Nobody is connected to it, so it can be
// copied.
func newTestSchema(t *testing.T, server *parts.PostgresServer, options ...Option) string {
	t.Helper()
	url := server.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer func() { ok(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), `CREATE TABLE test_clock AS SELECT $1::timestamptz AS at`, epoch)
	ok(t, err)
	ok(t, MigratePostgres(t.Context(), url, options...))
	divide(t, conn, epoch.Add(time.Minute), epoch.Add(time.Hour), epoch.Add(40*24*time.Hour))
	return url
}

// postgresFixture opens two replicas on a database that newTestSchema has made. What two dozen do to one row at once waits for its
// lock as long as a busy machine takes, not for the second that is the service's.
func postgresFixture(t *testing.T, url string, options ...Option) *fixture {
	t.Helper()
	url += "&lock_timeout=1min"
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	step := func(d time.Duration) {
		_, err := conn.Exec(t.Context(), `UPDATE test_clock SET at = at + $1 * interval '1 microsecond'`, d.Microseconds())
		ok(t, err)
	}
	return newFixture(openTest(t, url, testClockSQL, options...)).beside(openTest(t, url, testClockSQL, options...)).clocked(epoch, step)
}

// divide makes other partitions than those of the present, from the beginning of time to its end.
func divide(t *testing.T, conn *pgx.Conn, at ...time.Time) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT name FROM sendcode_partitions`)
	ok(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(t, err)
	for _, name := range names {
		_, err := conn.Exec(t.Context(), `DROP TABLE `+name)
		ok(t, err)
	}
	from := "MINVALUE"
	for i := range len(at) + 1 {
		to := "MAXVALUE"
		if i < len(at) {
			to = "'" + lowestID(at[i]).String() + "'"
		}
		name := fmt.Sprintf("sends_%d", i)
		_, err := conn.Exec(t.Context(), `CREATE TABLE `+name+` (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)`)
		ok(t, err)
		_, err = conn.Exec(t.Context(), `ALTER TABLE sends ATTACH PARTITION `+name+` FOR VALUES FROM (`+from+`) TO (`+to+`)`)
		ok(t, err)
		from = to
	}
}

// copySends writes copies of the sends that ended, with other IDs, in SQL; logged is when each was logged.
func copySends(logged string) string {
	const same = "verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, attempt, counts, taken_at, clock"
	return `INSERT INTO sends (id, status, logged_at, ` + same + `) SELECT ` + randomID + `, 'sent', ` + logged + `, ` + same + ` FROM sends s`
}

// randomID is one of now, in SQL.
const randomID = `(left(sendcode_lowest_id(now())::text, 13) || substr(gen_random_uuid()::text, 14))::uuid`

// called is the call of an intent, as Begin makes it.
func called(t *testing.T, in Intent) *call {
	t.Helper()
	in, err := checked(in)
	ok(t, err)
	return newCall(in, lockKey(in.Send))
}

func newDatabase(t *testing.T, server *parts.PostgresServer) string {
	t.Helper()
	url := server.NewDatabase(t)
	ok(t, MigratePostgres(t.Context(), url))
	return url
}

func openTest(t *testing.T, url, now string, options ...Option) *Postgres {
	t.Helper()
	log, err := openPostgres(t.Context(), url, now, options...)
	ok(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}
