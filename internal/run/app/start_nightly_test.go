//go:build nightly

// Only `make nightly` runs this test: it writes a million rows.

package app_test

import (
	"context"
	"flag"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

var startRows = flag.Int64("app.rows", 1_000_000, "sends of the last day at which a replica starts")

// fillDaySQL copies the only send $1 times. Each copy has another recipient, and is 3 to 23 hours
// old.
const fillDaySQL = `
INSERT INTO sends (id, logged_at, recipient, status, verification_id, number, app, channel, purpose, masked, domain, country, prefix, locale, reference,
                   network, attempt, counts)
SELECT (left(sendcode_lowest_id(now())::text, 13) || substr(gen_random_uuid()::text, 14))::uuid,
       now() - interval '3 hours' - n * (interval '20 hours' / $1::bigint), decode(md5(n::text), 'hex'), 'sent', verification_id, number, app, channel,
       purpose, masked, domain, country, prefix, locale, reference, network, attempt, counts
FROM sends, generate_series(1, $1::bigint) n`

// A replica without Redis starts although the last day has a million sends. The start and the first
// requests read at most 2,000 rows, and the answers follow from the stored rows.
func TestQuota26StartAtManyRows(t *testing.T) {
	s := apptest.OnRealParts(t)
	delete(s.Env, "SENDCODE_REDIS_URL")
	s.Policy("    - {name: day, scope: recipient, limit: 2, window: 24h}\n").Start(1)
	admin, err := pgx.Connect(t.Context(), s.Env["SENDCODE_DATABASE_URL"])
	apptest.Must(t, err)
	defer admin.Close(context.WithoutCancel(t.Context()))
	count := func(query string) (n int64) {
		t.Helper()
		apptest.Must(t, admin.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	const ask = `{"channel":"email","to":"ana@example.com"}`
	s.Is("the first send", s.Post("/v1/verifications", ask, apptest.Patiently), http.StatusAccepted)
	_, err = admin.Exec(t.Context(), "SET statement_timeout = 0") // the URL in the tests sets a timeout
	apptest.Must(t, err)
	_, err = admin.Exec(t.Context(), fillDaySQL, *startRows)
	apptest.Must(t, err)
	_, err = admin.Exec(t.Context(), "VACUUM ANALYZE")
	apptest.Must(t, err)
	rowsRead := func() int64 { // Postgres reports the figures of a connection when it ends
		t.Helper()
		servertest.Await(t, "the replica's connections to end", func() bool {
			return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
AND pid <> pg_backend_pid()`) == 0
		})
		return count(`SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)`)
	}
	s.Restart() // after the start, a job counts all rows of the ended hours once
	s.Await("the hours to be counted, the oldest last", func() bool {
		return count("SELECT count(*) FROM counted_hours WHERE hour <= (SELECT min(logged_at) FROM sends)") == 1
	})
	s.Stop(0)
	before := rowsRead()
	s.Restart()
	s.Is("the second send", s.Post("/v1/verifications", ask, apptest.Patiently), http.StatusAccepted)
	s.Is("the third send", s.Post("/v1/verifications", ask), http.StatusTooManyRequests)
	s.Stop(0)
	if read := rowsRead() - before; read > 2_000 {
		t.Errorf("a start and three requests read %d rows of %d", read, *startRows)
	}
}
