package audit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

func TestPostgres(t *testing.T) {
	server := parts.Postgres(t)
	runContract(t, func(t *testing.T) *fixture { return newPostgresFixture(t, server) })
}

// testClockSQL reads the clock that tests step.
const testClockSQL = "(SELECT at FROM test_clock)"

// newPostgresFixture makes a database with two replicas on it.
func newPostgresFixture(t *testing.T, server *parts.PostgresServer) *fixture {
	t.Helper()
	url := newDatabase(t, server)
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `CREATE TABLE test_clock AS SELECT $1::timestamptz AS at`, epoch)
	ok(t, err)
	step := func(d time.Duration) {
		_, err := conn.Exec(t.Context(), `UPDATE test_clock SET at = at + $1 * interval '1 microsecond'`, d.Microseconds())
		ok(t, err)
	}
	return &fixture{Log: openTest(t, url, testClockSQL), replica: openTest(t, url, testClockSQL), step: step, now: epoch}
}

func newDatabase(t *testing.T, server *parts.PostgresServer) string {
	t.Helper()
	url := server.NewDatabase(t)
	ok(t, MigratePostgres(t.Context(), url))
	return url
}

func openTest(t *testing.T, url, now string) *Postgres {
	t.Helper()
	log, err := openPostgres(t.Context(), url, now)
	ok(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}
