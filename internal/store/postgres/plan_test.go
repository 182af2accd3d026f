package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// The second gate, reads and outcomes find each row by the right index, only in the partitions of
// their window, with any statistics: for tables that are new, empty, small with one recipient, or
// large, and for statistics that are too high or too low.
func TestPostgresHotPlans(t *testing.T) {
	f, db := fixtureOn(t, newDatabase(t))
	direct := connect(t, db.pool.Config().ConnString())
	now := time.Now()
	// sends_3 has the present time; sends_2 is too old for a rule of a day
	repartition(t, direct, now.Add(-60*day), now.Add(-30*day), now.Add(-6*day), now.Add(40*day))
	admit := func() {
		for range 300 {
			f.Admit(t, f.Intent(1))
		}
		f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, BadAddress: true})
	}
	grow := func() {
		for table, change := range map[string][2]string{
			"sends":         {manySends, ""},
			"verifications": {"md5(n::text)", ", 'attempts', n % 3"},
			"failures":      {manySends, ""},
			"outbox":        {manySends, ", 'due_at', x.due_at + n * interval '1 ms'"},
		} {
			multiply(t, direct, table, "'id', "+change[0]+", 'recipient', '\\x' || md5(n::text)"+change[1])
		}
	}
	for _, state := range []struct {
		name string
		do   func()
	}{
		{"new", func() {}},
		{"empty", func() { exec(t, direct, `ANALYZE`) }},
		{"small, analysed empty", admit},
		{"small", func() { exec(t, direct, `ANALYZE`) }},
		{"large, analysed small", grow},
		{"large", func() { exec(t, direct, `ANALYZE`) }},
		{"empty, analysed large", func() { exec(t, direct, `TRUNCATE sends, verifications, outbox, failures`) }},
	} {
		state.do()
		for _, pool := range []*pgxpool.Pool{db.writers, db.finishers, db.readers} {
			pool.Reset() // statements are planned anew on new connections
		}
		t.Run(state.name, func(t *testing.T) { hotPlans(t, db, now) })
	}
}

// manySends is an SQL expression for a send's ID. It differs for each row n, and has the time in
// the ID of row x.
const manySends = "(left(x.id::text, 24) || right(md5(n::text), 12))::uuid"

// multiply adds 5,000 copies of a row of the table. The parameter fields changes some fields of
// each copy, by SQL in which x is the row and n the number of the copy.
func multiply(t *testing.T, conn *pgx.Conn, table, fields string) {
	t.Helper()
	exec(t, conn, fmt.Sprintf(`INSERT INTO %[1]s SELECT y.* FROM (SELECT * FROM %[1]s LIMIT 1) x, generate_series(1, 5000) n, LATERAL
jsonb_populate_record(NULL::%[1]s, to_jsonb(x) || jsonb_build_object(%[2]s)) y`, table, fields))
}

// A step of the retention reads few rows even if half the rows of each table are due.
func TestPostgresRetentionReadsWhatIsDue(t *testing.T) {
	url := newDatabase(t)
	admin := connect(t, withLogin(t, url, "postgres"))
	db, conn := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, BadAddress: true})
	storetest.OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}))
	exec(t, conn, `INSERT INTO provider_events SELECT id, 'bounced', now(), now(), 'post', '' FROM sends`,
		`INSERT INTO minute_index VALUES ('provider', 'post', now())`,
		`INSERT INTO suppressions (id, app, channel, address, recipient, masked, reason, detail, created_by, since, until)
SELECT id, '', 'email', recipient, recipient, '', 'manual', '', 'mei', now(), now() FROM sends`)
	const at = "now() - n % 2 * interval '60 days' - n * interval '1 ms'"
	old := fmt.Sprintf("(left(CASE n %% 2 WHEN 1 THEN '%s' ELSE x.send_id::text END, 24) || right(md5(n::text), 12))::uuid",
		store.LowestID(time.Now().Add(-60*day)))
	for table, fields := range map[string]string{
		"sends":           "'id', " + manySends + ", 'logged_at', " + at,
		"failures":        "'id', " + manySends + ", 'logged_at', " + at,
		"refusals":        "'id', " + manySends + ", 'logged_at', " + at,
		"verifications":   "'id', md5(n::text), 'expires_at', " + at,
		"provider_events": "'send_id', " + old, "minute_index": "'value', n::text, 'minute', " + at,
		"suppressions": "'id', " + manySends + ", 'address', '\\x' || md5(n::text), 'since', " + at + ", 'until', " + at,
	} {
		multiply(t, conn, table, fields)
	}
	readsFew(t, db, conn, admin, 500, func() {
		storetest.Equal(t, "expired", storetest.Must(f.DeleteAged(t.Context(), 50*day, 10))(t), store.DeletedRows{Rows: 20, More: true})
	})
}

// The watch on conversion reads few sends besides those of its span, and their verifications by
// key.
func TestPostgresConversionReadsTheHour(t *testing.T) {
	url := newDatabase(t)
	admin := connect(t, withLogin(t, url, "postgres"))
	db, conn := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Ended(t, f.Intent(1, func(in *store.Intent) { in.Verification.Class = store.StrangerClass }), storetest.Sent)
	for table, fields := range map[string]string{
		"sends":         "'id', " + manySends + ", 'logged_at', now() - n * interval '1 minute'",
		"verifications": "'id', md5(n::text)",
	} {
		multiply(t, conn, table, fields)
	}
	readsFew(t, db, conn, admin, 500, func() {
		w := store.DefaultConversionWatch
		w.Sends = 40
		begun, _, err := f.JudgeConversions(t.Context(), w, func(string, string) (store.NewEvent, error) { return store.NewEvent{}, nil })
		storetest.OK(t, err)
		storetest.Equal(t, "begun, of 50 minutes", []int{len(begun), begun[0].Sends}, []int{1, 50})
	})
}

// The check of keys reads a bounded number of codes and of sealed rows, in tables of any size.
func TestPostgresKeysAreFoundInFewRows(t *testing.T) {
	url := newDatabase(t)
	admin := connect(t, withLogin(t, url, "postgres"))
	db, conn := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Admit(t, f.Intent(1))
	multiply(t, conn, "verifications", "'id', md5(n::text), 'expires_at', now() + (n - 2500) * interval '1 s'")
	readsFew(t, db, conn, admin, 500, func() {
		storetest.Equal(t, "keys", storetest.Must(f.SampleCodeKeyIDs(t.Context(), 50))(t), []string{"k1"})
		rows, next, err := f.SealedPage(t.Context(), sqldb.SealedTables[0], "", 50)
		storetest.OK(t, err)
		storetest.Equal(t, "rows", len(rows), 50)
		storetest.Equal(t, "there is a next page", next != "", true)
	})
}

// A send reads its recipient's rows once, if no rule is longer than a day and the recipient has no
// verification that the send can join.
func TestPostgresReadsARecipientOnce(t *testing.T) {
	held := func(by string) func(*store.Intent) { return func(in *store.Intent) { in.Verification.Holder = by } }
	browser := func(in *store.Intent) { in.Verification.Class = store.StrangerClass }
	for name, changes := range map[string][]func(*store.Intent){
		"a browser":                       {browser},
		"a back end":                      {held("s:1")},
		"its stranger":                    {held("random"), browser},
		"its stranger in another session": {held("s:1"), browser},
	} {
		t.Run(name, func(t *testing.T) {
			url := newDatabase(t)
			admin := connect(t, withLogin(t, url, "postgres"))
			f, db := fixtureOn(t, url)
			rules := storetest.WithRules(storetest.Rule(2, day))
			f.Admit(t, f.Intent(1, rules, held("s:2")))
			f.Admit(t, f.Intent(1, append(changes, rules)...))
			db.Close()
			scans(t.Context(), t, admin)
			storetest.Equal(t, "looks into a partition by the recipient", queryValue[int](t, admin, `
SELECT max(idx_scan)::int FROM pg_stat_user_indexes WHERE indexrelname LIKE 'sends\_%recipient\_logged\_at\_idx'`), 2)
		})
	}
}

// A person's export reads each row about once, however many pages it has.
func TestPostgresExportReadsARowOnce(t *testing.T) {
	url := newDatabase(t)
	admin := connect(t, withLogin(t, url, "postgres"))
	db, conn := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Admit(t, f.Intent(1))
	storetest.OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}))
	for table, fields := range map[string]string{
		"sends":         "'id', " + manySends + ", 'logged_at', now() - n * interval '1 ms'",
		"refusals":      "'id', " + manySends + ", 'logged_at', now() - n * interval '1 ms'",
		"verifications": "'id', md5(n::text), 'expires_at', now() - n * interval '1 ms'",
	} {
		multiply(t, conn, table, fields)
	}
	readsFew(t, db, conn, admin, 12_000, func() { // the sends are read for provider_events too
		rows := map[string]int{}
		storetest.OK(t, f.ExportPerson(t.Context(), f.Intent(1).Send.Recipient, 100,
			func(of store.ExportedTable, page []store.ExportedRow) error {
				rows[of.Name] += len(page)
				return nil
			}))
		storetest.Equal(t, "rows", []int{rows["sends"], rows["refusals"], rows["verifications"]}, []int{5001, 5001, 5001})
	})
}

// readsFew fails the test if a call reads more rows of a table than maxRows. It closes db
// and conn.
func readsFew(t *testing.T, db *DB, conn, admin *pgx.Conn, maxRows int, call func()) {
	t.Helper()
	exec(t, conn, `ANALYZE`, `SELECT pg_stat_force_next_flush()`)
	exec(t, admin, `SELECT pg_stat_reset()`)
	call()
	db.Close()
	storetest.OK(t, conn.Close(t.Context()))
	scans(t.Context(), t, admin) // waits for the other connections, which report their counts as they end
	rows := storetest.Must(admin.Query(t.Context(), `
SELECT relname, max(seq_tup_read), sum(idx_tup_read)::bigint FROM pg_stat_user_tables JOIN pg_stat_user_indexes i USING (relid, relname) GROUP BY 1`))(t)
	var table string
	var whole, byIndex int
	storetest.Must(pgx.ForEachRow(rows, []any{&table, &whole, &byIndex}, func() error {
		if whole+byIndex > maxRows {
			t.Errorf("%s: %d rows were read end to end and %d by index", table, whole, byIndex)
		}
		return nil
	}))(t)
}

// StopCounts over a week reads the hourly counts, and rows only of the hours at both ends.
func TestPostgresStopCountsReadFewRows(t *testing.T) {
	url := newDatabase(t)
	admin := connect(t, withLogin(t, url, "postgres"))
	db, conn := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	storetest.OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}))
	for _, table := range []string{"sends", "refusals"} { // over a week
		multiply(t, conn, table, "'id', "+manySends+", 'logged_at', now() - n * interval '2 min'")
	}
	exec(t, conn, `INSERT INTO counted_hours SELECT date_trunc('hour', now()) - n * interval '1 hour' FROM generate_series(2, 170) n`,
		`INSERT INTO hour_tallies
SELECT hour, 'shop', 'email', 'login', 'refused', '', 'minute', 1, 2, 0, 0 FROM counted_hours`)
	now := time.Now()
	readsFew(t, db, conn, admin, 500, func() {
		counts := storetest.Must(f.StopCounts(t.Context(), now.Add(-7*day), now))(t)
		storetest.Equal(t, "counts", len(counts), 2)
	})
}

func hotPlans(t *testing.T, db *DB, now time.Time) {
	t.Helper()
	b := idBoundsOfBatch([]*beginCall{{In: (&storetest.Fixture{}).Intent(2, storetest.WithRules(storetest.Rule(1, day)))}}, now)
	first, last := store.LowestID(now), store.LowestID(now.Add(time.Second))
	window := map[string]uuid.UUID{"first_id": b.first, "last_id": b.last, "earliest_id": first, "latest_id": last}
	own := map[string]uuid.UUID{"first_id": first, "last_id": last}
	const bucket, key = "sends_3_recipient_logged_at_idx", "sends_3_pkey"
	const keys = "sends_0_pkey sends_1_pkey sends_2_pkey sends_3_pkey sends_4_pkey outbox_pkey refunds_pkey"
	const gate = bucket + " " + key + " failures_recipient suppressions_active verifications_tried"
	for _, c := range []struct {
		statement string
		bounds    map[string]uuid.UUID // the other parameters are NULL
		indexes   string
	}{
		{gateCountedSQL, window, gate},
		{gateHoldersSQL, window, gate + " verifications_pkey"},
		{gateCountedAndHoldersSQL, window, gate + " verifications_pkey"},
		{lockCandidatesSQL, nil, "verifications_pkey"},
		{historySQL, window, bucket + " failures_recipient"},
		{verificationsSQL, nil, "verifications_pkey outbox_pkey refunds_pkey sends_0_recipient_logged_at_idx " +
			"sends_1_recipient_logged_at_idx sends_2_recipient_logged_at_idx sends_4_recipient_logged_at_idx " + bucket},
		{lockChecksSQL, nil, "verifications_pkey"},
		{readCheckedSQL, nil, "verifications_pkey verifications_tried"},
		{countChecksSQL, nil, "verifications_pkey"},
		{updateJoinedSQL, nil, "verifications_pkey"},
		{finishSentSQL, own, "outbox_pkey " + key},
		{finishSQL, own, "outbox_pkey " + key},
		{postponeSQL, own, "outbox_pkey " + key},
		{renewSQL, nil, "outbox_pkey"},
		{takeOverSQL, nil, keys + " outbox_due verifications_pkey"},
		{takeOverWithExpiredCodeSQL, nil, keys + " outbox_due verifications_pkey"},
		{endEventsSQL, nil, "app_events_pkey"},
		{deleteClaimsSQL, nil, "idempotency_keys_pkey"},
		{endClaimLeasesSQL, nil, "idempotency_keys_pkey"},
		{readClaimsSQL, nil, "idempotency_keys_pkey"},
		{readClaimedSendsSQL, nil, keys + " idempotency_keys_pkey"},
		{
			readClaimedVerificationsSQL, nil,
			"idempotency_keys_pkey sends_0_pkey sends_1_pkey sends_2_pkey sends_3_pkey sends_4_pkey verifications_pkey",
		},
	} {
		plan := planOf(t, db, c.statement, c.bounds)
		// a take-over may look up a row of verifications for each row
		if loops := strings.Count(plan, "Nested Loop"); slices.Contains(finishStatements, c.statement) && loops > 0 &&
			(loops > 1 || c.statement != takeOverSQL && c.statement != takeOverWithExpiredCodeSQL) {
			t.Errorf("%s: each of the list is compared with each row", c.statement)
		}
		used := map[string]bool{}
		for _, index := range regexp.MustCompile(`(?:using|Index Scan on) (\S+)`).FindAllStringSubmatch(plan, -1) {
			used[index[1]] = true
		}
		for _, index := range strings.Fields(c.indexes) {
			if !used[index] {
				t.Errorf("%s: %s is not used", c.statement, index)
			}
			delete(used, index)
		}
		for index := range used {
			t.Errorf("%s: %s is used", c.statement, index)
		}
		for _, word := range []string{"Seq Scan", "JIT", "Bitmap"} {
			if strings.Contains(plan, word) {
				t.Errorf("%s: %s", c.statement, word)
			}
		}
		// Each scan of an index has a condition.
		if scans, conditions := strings.Count(plan, "Index Scan")+strings.Count(plan, "Index Only Scan"),
			strings.Count(plan, "Index Cond"); scans != conditions {
			t.Errorf("%s: a whole index is read", c.statement)
		}
		if t.Failed() {
			t.Fatal(plan)
		}
	}
	rows := storetest.Must(db.pool.Query(t.Context(), "EXPLAIN "+sqldb.Postgres.ExpiredVerificationsSQL(),
		toNamedArgs(sqldb.Args{"apps": []string{"shop"}, "from": now.Add(-time.Hour), "until": now, "after": "", "limit": 500})))(t)
	plan := strings.Join(storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
	if !regexp.MustCompile(`using verifications_expires [^\n]*\n *Index Cond: \(\(expires_at >= .* AND \(expires_at < `).MatchString(plan) {
		t.Errorf("expired codes: %s", plan)
	}
}

// planOf returns the generic plan of a prepared statement, which batches of all sizes share.
func planOf(t *testing.T, db *DB, statement string, bounds map[string]uuid.UUID) string {
	t.Helper()
	pool := db.writers
	switch {
	case slices.Contains(finishStatements, statement):
		pool = db.finishers
	case slices.Contains(readStatements, statement):
		pool = db.readers
	}
	conn := storetest.Must(pool.Acquire(t.Context()))(t)
	defer conn.Release()
	name := queryValue[string](t, conn, `SELECT name FROM pg_prepared_statements WHERE statement = $1`, db.prepared[statement].sql)
	var parameters []string
	for _, name := range db.prepared[statement].names {
		parameters = append(parameters, "NULL")
		if id, ok := bounds[name]; ok {
			parameters[len(parameters)-1] = "'" + id.String() + "'"
		}
	}
	rows := storetest.Must(conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s(%s)", name, strings.Join(parameters, ", "))))(t)
	plan := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	return strings.Join(plan, "\n")
}
