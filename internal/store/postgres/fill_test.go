package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/storetest"
)

// frozenSQLite opens a file, migrated to the present schema, that has rows in every table of the
// first schema but write_probe.
func frozenSQLite(t *testing.T) *sqlite.DB {
	t.Helper()
	path, now := storetest.FrozenFile(t, "../sqlite/testdata/frozen.db.gz"), func() time.Time { return storetest.FrozenLater }
	storetest.OK(t, storetest.Must(sqlite.Open(t.Context(), path, now))(t).Close()) // migrates
	file := storetest.Must(sqlite.OpenToMove(path, now))(t)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func ignoreReport(string, int64) {}
func allowCommit() error         { return nil }

// After Fill, a replica reads what FillFrozen wrote, finds a send by its provider, and counts
// hours. Sends in flight are due at once, with the same attempt. A second Fill is refused.
func TestFill(t *testing.T) {
	file, url := frozenSQLite(t), newDatabase(t)
	conn := connect(t, url)
	// one partition for all rows of the file, because 140 of a week each would take longer
	exec(t, conn, `CREATE TABLE sends_old PARTITION OF sends FOR VALUES FROM (MINVALUE) TO ('`+
		queryValue[string](t, conn, `SELECT sendcode_lowest_id(min(begins))::text FROM sendcode_partitions`)+`')`)
	const later = 4102444800000000 // µs since 1970, in the year 2100
	storetest.Must(file.Query(t.Context(), `UPDATE outbox SET attempt = 7, due_at = ? RETURNING id`, later))(t).Close()
	storetest.Must(file.Query(t.Context(),
		`INSERT INTO limiter_events (bucket, id, at, until, writer) VALUES (x'01', x'02', 5, ?, 7) RETURNING id`,
		later))(t).Close() // low_conversions is of a later migration, so the file has no row of it
	storetest.Must(file.Query(t.Context(),
		`INSERT INTO low_conversions (id, app, since, sends, approved) VALUES ('01981b2e-5f00-7000-8000-000000000001', 'default', 1, 1000, 7) RETURNING id`))(t).Close()
	copied := map[string]int64{}
	storetest.OK(t, Fill(t.Context(), url, file.Query, func(table string, n int64) { copied[table] = n }, allowCommit))
	for table, n := range copied {
		if n == 0 {
			t.Errorf("%s has no rows: write some into it", table)
		}
	}
	storetest.Equal(t, "in flight", queryValue[string](t, conn,
		`SELECT string_agg(DISTINCT attempt || ' ' || (due_at <= clock_timestamp()), ',') FROM outbox`), "7 true")
	storetest.Equal(t, "an event of a limiter is read after 0", queryValue[int64](t, conn, `SELECT min(seq) FROM limiter_events`), 1)
	f := frozenAt(t, url, storetest.FrozenLater).Numbered(1000)
	storetest.ReadFrozen(t, f)
	by := store.Filter{Provider: "mx.example", Limit: 10}
	storetest.Equal(t, "by provider", len(storetest.Must(f.Sends(t.Context(), by))(t)), 1)
	storetest.Equal(t, "hours counted", storetest.Must(f.CountHours(t.Context(), 0, 1e6*time.Hour, 9))(t) > 0, true)

	err := Fill(t.Context(), url, file.Query, ignoreReport, allowCommit)
	storetest.Equal(t, "a second time", err != nil && strings.Contains(err.Error(), "the database is not empty"), true)
}

// If Fill does not reach its end, or if the copy has another number of rows, other keys or other
// columns than the file, Fill leaves nothing behind and can be repeated. The partitions reach back
// to the oldest row.
func TestFillFails(t *testing.T) {
	file, url := frozenSQLite(t), newDatabase(t)
	oldest := time.Now().Add(-80 * day)
	storetest.Must(file.Query(t.Context(), `UPDATE sends SET id = ? || substr(id, 14) RETURNING id`,
		store.LowestID(oldest).String()[:13]))(t).Close()
	stopped := errors.New("stopped")
	replaced := func(old, by string) FileQuery {
		return func(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
			return file.Query(ctx, strings.ReplaceAll(statement, old, by), args...)
		}
	}
	for want, c := range map[string]struct {
		from FileQuery
		last func() error
	}{
		"stopped":                           {file.Query, func() error { return stopped }},
		"differs from the file":             {replaced("SELECT count(*) FROM sends", "SELECT 1 + count(*) FROM sends"), allowCommit},
		"check values of keys":              {replaced("hex(value)", "'00'"), allowCommit},
		"table sends: it has other columns": {replaced("pragma_table_info('sends')", "pragma_table_info('outbox')"), allowCommit},
	} {
		err := Fill(t.Context(), url, c.from, ignoreReport, c.last)
		storetest.Equal(t, want, err != nil && strings.Contains(err.Error(), want), true)
	}
	storetest.OK(t, Fill(t.Context(), url, file.Query, ignoreReport, allowCommit))
	storetest.Equal(t, "partitions from the oldest row on, without a gap", queryValue[bool](t, connect(t, url), `
SELECT min(begins) BETWEEN $1::timestamptz - interval '1 week' AND $1 AND sum(ends - begins) = max(ends) - min(begins) FROM sendcode_partitions`,
		oldest), true)
}

// Each table of both schemas is copied, made from other tables, or listed as left out.
func TestFillKnowsEveryTable(t *testing.T) {
	file, conn := frozenSQLite(t), connect(t, borrowMigrated(t))
	f := fill{from: file.Query}
	copied := storetest.Must(f.tables(t.Context()))(t)
	rows := storetest.Must(conn.Query(t.Context(),
		`SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`))(
		t)
	own := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	for _, table := range own {
		if notCopied[table] == "" && !slices.Contains(rebuilt, table) && !slices.Contains(copied, table) {
			t.Errorf("%s is neither copied nor made: name it in rebuilt or notCopied", table)
		}
	}
	for _, table := range copied {
		if !slices.Contains(own, table) {
			t.Errorf("%s of a file has no table in Postgres: name it in notCopied", table)
		}
	}
}
