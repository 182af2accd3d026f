package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
)

// columnKinds says what happens to each column of a table when a person is erased. The columns in
// nothing contain no data about a recipient. The columns in erased are emptied. The columns in hash
// have a keyed hash, and are emptied later, when the hash is due.
type columnKinds struct{ nothing, erased, hash string }

var labels = strings.Join(store.LabelNames(), " ")

// erasable names every column of every table. WriteTraces must write into those that are erased.
var erasable = map[string]columnKinds{
	"sends": {
		nothing: `id verification_id number app channel purpose status reason attempt in_doubt counts
			logged_at finished_at provider provider_code took observed was_reset suppression_id worst_event receipt site bounced human_check`,
		erased: `masked domain country prefix network locale request_id ` + labels, hash: `recipient`,
	},
	"refusals": {
		nothing: `id verification_id app channel purpose logged_at blocked_by retry_after requests recipients`,
		erased:  `masked domain country prefix network locale`, hash: `recipient`,
	},
	// sealed is a caller's code, which identifies nobody. WriteTraces writes one, and an erasure
	// removes it too
	"outbox": {nothing: `id due_at attempt queued channel stranger expires_at sealed`},
	// in limiter_events, bucket is encrypted, and id is random or that of a send
	"limiter_events": {nothing: `bucket id at until refunded writer seq`},
	"refunds":        {nothing: `id since attempt`},
	"failures":       {nothing: `status logged_at id finished_at counts app channel`, hash: `recipient`},
	"minute_index":   {nothing: `field value minute`},
	"verifications": {
		// redeemed_by: the keyed hash of an Idempotency-Key
		nothing: `id app channel purpose key_id code_length alphabet created_at expires_at attempts max_attempts sends approved_at canceled_at not_me_at attempts_reset class replaces redeemed_at redeemed_by caller_checks reported`,
		erased:  `masked sealed holder nonce checks check_key locale details ` + labels, hash: `recipient`,
	},
	"audit_recipients": {nothing: `entry`, erased: `masked`, hash: `recipient`},
	// audit_entries are about the administrator; a reason that names a person is refused
	"audit_entries": {
		nothing: `id at actor role network action app channel purpose target reason outcome detail completes`,
	},
	"idempotency_keys": {nothing: `key fingerprint send_id created_at held_until`}, // keyed hashes, for a day
	"erasures":         {nothing: `forget_at`, hash: `recipient`},
	"suppressions": {
		nothing: `id app channel reason send_id created_by since until lifted_at lifted_by server held_until`,
		erased:  `masked detail lifted_why words`,
		hash:    `address recipient`,
	},
	"app_events": {
		nothing: `id app type send_id verification_id status reason test at state attempt due_at ended_at answer`,
	},
	"accounts":        {nothing: `name role password identity created_at disabled_at`}, // these belong to administrators
	"sessions":        {nothing: `id account bound via granted passed started_at seen_at`},
	"second_factors":  {nothing: `account sealed step created_at`},
	"provider_events": {nothing: `send_id kind at heard_at provider detail`}, // detail: a code or one word
	"spending":        {nothing: `cap period used`},
	"carrier_holds":   {nothing: `channel since until`, hash: `recipient`},
	// each row of prefix_pauses is about many numbers, not about one
	"prefix_pauses": {
		nothing: `id app country prefix class since until sends approved usual lifted_at lifted_by lifted_why`,
	},
	"low_conversions": {nothing: `id app since sends approved ended_at`},
	"leases":          {nothing: `name until`},
	// pending_receipts has the carrier's IDs of messages, for three days
	"pending_receipts":    {nothing: `carrier message_id send_id at ask_at asked`},
	"counted_hours":       {nothing: `hour`},
	"hour_tallies":        {nothing: `hour app channel purpose status reason blocked_by rows requests opened approved`},
	"hour_times":          {nothing: `hour app channel purpose bucket n`},
	"hour_domains":        {nothing: `hour app channel purpose sends failed rejected`, erased: `domain`},
	"hour_codes":          {nothing: `hour app channel purpose dimension opened approved`, erased: `value`},
	"write_probe":         {nothing: `filling`},
	"schema_fingerprints": {nothing: `version sha256`},
	"key_checks":          {nothing: `name value`},
	"sendcode_schema":     {nothing: `id version_id is_applied tstamp`},
}

// A new column fails this test until erasable says what happens to it when a recipient is erased,
// and until the export of a person's data contains it or says why not.
func TestEveryColumnIsNamed(t *testing.T) {
	lite := storetest.Must(sqldb.ReadAll(t.Context(), sqlitetest.Open(t, time.Now).Store(), "TestEveryColumnIsNamed",
		sqldb.OneColumn[string],
		`SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`, nil))(t)
	full := storetest.Must(sqldb.ReadAll(t.Context(), openTest(t, newDatabase(t), serverClockSQL).Store(), "TestEveryColumnIsNamed",
		sqldb.OneColumn[string],
		`SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()
AND table_name NOT IN (SELECT name FROM sendcode_partitions) AND table_name <> 'sendcode_partitions'`, nil))(t)
	for name, got := range map[string][]string{"sqlite": lite, "postgres": full} {
		var want []string
		for table, is := range erasable {
			if name == "sqlite" && table == "minute_index" { // only Postgres has it
				continue
			}
			want = append(want, qualified(table, is.nothing+" "+is.erased+" "+is.hash)...)
		}
		slices.Sort(got)
		slices.Sort(want)
		storetest.Equal(t, name+": columns of which it is said what becomes of them when a recipient is erased", got, want)
	}
	exported := sqldb.ExportedColumns()
	for table, is := range erasable {
		got, known := exported[table]
		want := strings.Fields(is.nothing + " " + is.erased + " " + is.hash)
		slices.Sort(got)
		slices.Sort(want)
		switch personal := is.erased+is.hash != "" && !strings.HasPrefix(table, "hour_") && table != "failures"; {
		case !known || personal && len(got) == 0:
			t.Errorf("a person's export has no word of the table %s", table)
		case len(got) > 0:
			storetest.Equal(t, table+": columns that a person's export has, or says why not", got, want)
		}
	}
	storetest.Equal(t, "tables of the export", len(exported), len(erasable))
}

// WriteTraces writes data of a recipient into each column that is erased. Erase removes these data,
// and ForgetDueErased removes the keyed hash.
func TestEveryColumnIsErased(t *testing.T) {
	f, db := fixtureOn(t, newDatabase(t))
	of := recipient.Hash{15: 77}
	rows := func(table, condition string) int {
		t.Helper()
		return queryValue[int](t, db.pool, `SELECT count(*) FROM `+table+` WHERE `+condition, of[:])
	}
	writtenColumns := func(table string, is columnKinds) (names []string) {
		t.Helper()
		for _, column := range strings.Fields(is.erased) {
			if rows(table, `recipient = $1 AND coalesce(`+column+`::text, '') NOT IN ('', '•••', '\x')`) > 0 {
				names = append(names, table+"."+column)
			}
		}
		for _, column := range strings.Fields(is.hash) {
			if rows(table, column+` = $1`) > 0 {
				names = append(names, table+"."+column)
			}
		}
		return names
	}
	checkWritten := func(what string, columns func(columnKinds) string) {
		t.Helper()
		var got, want []string
		for table, is := range erasable {
			if !strings.HasPrefix(table, "hour_") && table != "erasures" { // countsOutliveRows of storetest tests the hourly counts
				got = append(got, writtenColumns(table, is)...)
				want = append(want, qualified(table, columns(is))...)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		storetest.Equal(t, what, got, want)
	}
	storetest.WriteTraces(t, f, 77)
	checkWritten("columns with data about the recipient", func(is columnKinds) string { return is.erased + " " + is.hash })
	storetest.OK(t, f.Erase(t.Context(), of, time.Millisecond, f.Act()))
	checkWritten("columns once the recipient was erased", func(is columnKinds) string { return is.hash })
	servertest.Await(t, "the grant to be forgotten",
		func() bool { n, err := f.ForgetDueErased(t.Context()); storetest.OK(t, err); return n == 1 })
	storetest.Equal(t, "grants", rows("erasures", `recipient = $1`), 0)
	checkWritten("columns once the recipient was forgotten", func(columnKinds) string { return "" })
}

func qualified(table, columns string) (names []string) {
	for _, column := range strings.Fields(columns) {
		names = append(names, table+"."+column)
	}
	return names
}

func TestPostgresKeepsNoTrace(t *testing.T) {
	server := shared.Server(t)
	url := newDatabase(t)
	f := storetest.NewFixture(openTest(t, url, serverClockSQL))
	storetest.WriteTraces(t, f, 77)
	// the search finds all traces before the erasure
	storetest.Equal(t, "before", len(storetest.FoundIn([]byte(server.Dump(t, url)))), len(storetest.Traces))
	storetest.OK(t, f.Erase(t.Context(), recipient.Hash{15: 77}, time.Millisecond, f.Act()))
	dump := server.Dump(t, url)
	storetest.Equal(t, "traces", storetest.FoundIn([]byte(dump)), nil)
	hash := `\\x0000000000000000000000000000004d`
	storetest.Equal(t, "the hash counts on", strings.Contains(dump, hash), true)
	servertest.Await(t, "the grant to be forgotten",
		func() bool { n, err := f.ForgetDueErased(t.Context()); storetest.OK(t, err); return n == 1 })
	storetest.Equal(t, "the hash", strings.Contains(server.Dump(t, url), hash), false)
}

// sqldb.SealedTables lists every table with a column "sealed", so that no value stays encrypted
// with an old key.
func TestEverySealedColumnIsNamed(t *testing.T) {
	for table, columns := range erasable {
		sealed := slices.Contains(strings.Fields(columns.nothing+" "+columns.erased), "sealed")
		if named := slices.ContainsFunc(sqldb.SealedTables, func(s store.SealedTable) bool { return s.Name == table }); sealed != named {
			t.Errorf("%s: has sealed %v, is in SealedTables %v", table, sealed, named)
		}
	}
}
