//go:build nightly

// Only `make nightly` runs this test: it copies a million rows.

package postgres

import (
	"flag"
	"fmt"
	"testing"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

var fillRows = flag.Int64("store.rows", 1_000_000, "sends that are copied from a file")

// A million sends are copied. Afterwards each recipient that the test reads has the same history,
// to the µs.
func TestFillOfManyRows(t *testing.T) {
	file, url := frozenSQLite(t), newDatabase(t)
	var app, purpose, others string
	read := func(statement string, to ...any) {
		t.Helper()
		rows := storetest.Must(file.Query(t.Context(), statement))(t)
		defer rows.Close()
		for rows.Next() {
			storetest.OK(t, rows.Scan(to...))
		}
		storetest.OK(t, rows.Err())
	}
	var before int64
	read(`SELECT count(*) FROM sends`, &before)
	read(`SELECT app, purpose FROM sends WHERE channel = 'email' AND counts ORDER BY logged_at DESC, id LIMIT 1`, &app, &purpose)
	read(`SELECT group_concat(name) FROM pragma_table_info('sends') WHERE name NOT IN ('id', 'recipient', 'logged_at')`, &others)
	var last int64
	read(fmt.Sprintf(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
INSERT INTO sends (id, recipient, logged_at, %[2]s)
SELECT substr(id, 1, 14) || '7001-8000-' || printf('%%012x', n), CAST(printf('%%016x', n %% 1000) AS BLOB), logged_at - n * 1000, %[2]s
FROM n CROSS JOIN (SELECT * FROM sends WHERE channel = 'email' AND counts ORDER BY logged_at DESC, id LIMIT 1) RETURNING 1`, *fillRows,
		others), &last)
	copied := map[string]int64{}
	storetest.OK(t, Fill(t.Context(), url, file.Query, func(table string, n int64) { copied[table] = n }, allowCommit))
	storetest.Equal(t, "sends", copied["sends"], before+*fillRows)
	was, is := storetest.NewFixture(file), frozenAt(t, url, storetest.FrozenLater)
	for n := range 20 {
		b := store.SendBucket{
			App: app, Channel: recipient.Email, Recipient: recipient.Hash([]byte(fmt.Sprintf("%016x", 50*n))),
			Purposes: []string{purpose},
		}
		const within = 100 * day
		want, got := storetest.Must(was.History(t.Context(), b, within))(t), storetest.Must(is.History(t.Context(), b, within))(t)
		storetest.Equal(t, "history", storetest.Show(got), storetest.Show(want))
		if len(want.Past) < int(*fillRows/1000) {
			t.Errorf("%d of %d sends are in the history", len(want.Past), *fillRows/1000)
		}
	}
}
