package audit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// The whole contract is kept by the role that has the fewest rights.
func TestPostgres(t *testing.T) {
	server := parts.Postgres(t)
	makeAppRole(t, server)
	runContract(t, func(t *testing.T) *fixture { return newPostgresFixture(t, server, As(appRole)) })
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
	url := server.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `CREATE TABLE test_clock AS SELECT $1::timestamptz AS at`, epoch)
	ok(t, err)
	ok(t, MigratePostgres(t.Context(), url, options...))
	step := func(d time.Duration) {
		_, err := conn.Exec(t.Context(), `UPDATE test_clock SET at = at + $1 * interval '1 microsecond'`, d.Microseconds())
		ok(t, err)
	}
	return &fixture{Log: openTest(t, url, testClockSQL, options...), replica: openTest(t, url, testClockSQL, options...), step: step, now: epoch}
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
