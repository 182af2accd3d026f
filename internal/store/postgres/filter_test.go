package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// A search for a value that few rows or none have touches few pages, although nearly all rows have
// another value. This holds for the generic plan, which is made once for all values.
func TestPostgresRareFilters(t *testing.T) {
	url := newDatabase(t)
	db, writer := openTest(t, url, serverClockSQL), connect(t, url) // no statement_timeout bounds the writer
	f := storetest.NewFixture(db)
	for n := range 3 {
		send := f.Admit(t, f.Intent(n, func(in *store.Intent) {
			in.Send.To = []string{"a•••@example.com", "a•••@rare.example", "+49 151•••021"}[n]
			in.Send.Country = []string{"", "", "DE"}[n]
		}))
		f.End(t, send.Send.ID, store.Outcome{Status: store.Sent})
	}
	storetest.OK(t, f.RecordRefusals(t.Context(),
		[]store.SendOrRefusal{f.Refusal(4, func(s *store.SendOrRefusal) { s.BlockedBy = "minute" })}))
	exec(t, writer, copySends("logged_at - n * interval '1 ms'")+
		`, generate_series(1, 4000) n WHERE s.domain = 'example.com' OR s.country = 'DE'`,
		`INSERT INTO refusals SELECT s.* FROM refusals r, generate_series(1, 4000) n, LATERAL jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'n', n)) s`,
		`ANALYZE sends; ANALYZE refusals`)
	conn := storetest.Must(db.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	mark := &store.Cursor{At: time.Now().Add(time.Hour)}
	for name, filter := range map[string]store.Filter{
		"domain": {Domain: "rare.example"}, "no such domain": {Domain: "nothing.example"},
		"domain after":      {Domain: "rare.example", After: &store.Cursor{At: time.Unix(0, 0)}},
		"domain before":     {Domain: "nothing.example", Before: mark},
		"domain of an app":  {Domain: "nothing.example", App: "shop"},
		"domain and status": {Domain: "nothing.example", Status: store.Sent},
		"rule":              {BlockedBy: "nothing"}, "rule before": {BlockedBy: "nothing", Before: mark},
		"country":           {Country: "TV"},
		"country of a time": {Country: "TV", From: time.Now().Add(-day), To: time.Now()},
	} {
		filter.Limit = 50
		if pages := genericPages(t, conn, filter); pages > 100 {
			t.Errorf("%s: %d pages", name, pages)
		}
		rows := storetest.Must(f.Sends(t.Context(), filter))(t)
		want := 0
		if filter.Domain == "rare.example" {
			want = 1
		}
		storetest.Equal(t, name, len(rows), want)
	}
}

// A list of the rows since an instant touches few pages of a large table, whatever the other
// filters.
func TestPostgresRowsSinceAnInstant(t *testing.T) {
	url := newDatabase(t)
	db, writer := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	f.Admit(t, f.Intent(1, func(in *store.Intent) { in.Send.To = "a•••@example.com" }))
	storetest.OK(t, f.RecordRefusals(t.Context(),
		[]store.SendOrRefusal{f.Refusal(4, func(s *store.SendOrRefusal) { s.BlockedBy = "minute" })}))
	since := time.Now().Add(-time.Minute)
	exec(t, writer, copySends("logged_at - n * interval '1 s'")+`, generate_series(1, 20000) n`,
		`INSERT INTO refusals SELECT s.* FROM refusals r, generate_series(1, 20000) n,
			LATERAL jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'logged_at', r.logged_at - n * interval '1 s')) s`,
		`ANALYZE sends; ANALYZE refusals`)
	conn := storetest.Must(db.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	for name, filter := range map[string]store.Filter{
		"all": {}, "app": {App: "shop"}, "no such purpose": {Purpose: "none"}, "channel": {Channel: "email"},
		"domain": {Domain: "example.com"},
		"rule":   {BlockedBy: "minute"},
	} {
		filter.From, filter.Limit = since, 500
		if pages := genericPages(t, conn, filter); pages > 600 {
			t.Errorf("%s: %d pages", name, pages)
		}
	}
}

// The list of one recipient, or of one reference, touches few pages whatever the filters beside it
// and whatever the statistics say: those of a table that was never analysed, of one that was
// analysed while all rows were one recipient's, and the true ones.
func TestPostgresListOfOneRecipientTouchesFewPages(t *testing.T) {
	url := newDatabase(t)
	db, writer := openTest(t, url, serverClockSQL), connect(t, url)
	f := storetest.NewFixture(db)
	ana := f.Admit(t, f.Intent(1)).Send
	refusal := f.Refusal(1, nil)
	refusal.Recipient = ana.Recipient
	storetest.OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{refusal}))
	exec(t, writer, `ALTER TABLE refusals SET (autovacuum_enabled = false)`)
	more := func(whose string) {
		exec(t, writer, `INSERT INTO sends (id, status, logged_at, verification_id, number, app, channel, purpose, recipient, masked, domain,
country, prefix, locale, reference, network, attempt, counts)
SELECT `+randomID+`, 'sent', logged_at - n * interval '1 ms', verification_id, number, app, channel, purpose, `+whose+`, masked, domain,
country, prefix, locale, 'o-' || n, network, attempt, counts
FROM (SELECT * FROM sends LIMIT 1) s, generate_series(1, 4000) n`,
			`INSERT INTO refusals SELECT s.* FROM (SELECT * FROM refusals LIMIT 1) r, generate_series(1, 4000) n,
LATERAL jsonb_populate_record(NULL::refusals, to_jsonb(r) ||
    jsonb_build_object('id', gen_random_uuid(), 'logged_at', r.logged_at - n * interval '1 ms', 'recipient', `+whose+`)) s`)
	}
	conn := storetest.Must(db.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	other := ana.Recipient
	other[0] ^= 1
	for _, state := range []struct{ name, whose, then string }{
		{"never analysed", `('\x' || md5(n::text))::bytea`, `SELECT`},
		{"analysed", `('\x' || md5(n::text))::bytea`, `ANALYZE`},
		{"analysed with one recipient", `s.recipient`, `ANALYZE; DELETE FROM sends WHERE logged_at < now() - interval '1 s'`},
	} {
		more(strings.ReplaceAll(state.whose, "s.", ""))
		for _, statement := range strings.Split(state.then, ";") {
			exec(t, writer, statement)
		}
		day := store.Filter{From: ana.LoggedAt.Add(-day), Limit: 50}
		newest := store.Filter{App: ana.App, Channel: ana.Channel, Purpose: ana.Purpose, SendsOnly: true, From: day.From, Limit: 1}
		mark := &store.Cursor{At: ana.LoggedAt, ID: ana.ID}
		for name, filter := range map[string]store.Filter{
			"list":                  {Limit: 50},
			"newest of a purpose":   {App: ana.App, Channel: ana.Channel, Purpose: ana.Purpose, Limit: 1},
			"no such app":           {App: "none", Limit: 50},
			"no such purpose":       {Channel: ana.Channel, Purpose: "none", Limit: 50},
			"newest send":           newest,
			"earlier":               {App: ana.App, Channel: ana.Channel, Before: mark, From: day.From, Limit: 5},
			"newer":                 {After: mark, Limit: 50},
			"of a status":           {Status: store.Sent, Limit: 50},
			"that failed":           {Status: store.Failed, Limit: 50},
			"refused":               {Status: store.Refused, App: ana.App, Limit: 50},
			"of a rule":             {BlockedBy: "minute", Limit: 50},
			"of a domain":           {Domain: "example.com", Limit: 50},
			"through a server":      {Provider: "mx.example", Limit: 50},
			"of a network":          {Network: ana.Network, Limit: 50},
			"whose code is entered": {Outcome: store.CodeEntered, Limit: 50},
			"of a day":              day,
		} {
			for whose, hash := range map[string]recipient.Hash{"Ana's": ana.Recipient, "nobody's": other} {
				filter.Recipient = &hash
				if state.whose == "s.recipient" && whose == "Ana's" {
					continue // all rows are hers
				}
				if pages := genericPages(t, conn, filter); pages > 100 {
					t.Errorf("%s, %s %s: %d pages", state.name, whose, name, pages)
				}
			}
			if state.whose == "s.recipient" {
				continue
			}
			filter.Recipient, filter.Labels, filter.SendsOnly = nil, store.Labels{Reference: "none"}, false
			if !filter.MayMatchSends() {
				continue
			}
			if pages := genericPages(t, conn, filter); pages > 100 {
				t.Errorf("%s, reference, %s: %d pages", state.name, name, pages)
			}
		}
	}
}

// genericPages returns how many pages a filter's query reads with the generic plan, which Postgres
// makes without the values.
func genericPages(t *testing.T, conn *pgxpool.Conn, filter store.Filter) int {
	t.Helper()
	query, params := postgresFilter{sqldb.SendFilter{Filter: filter}}.postgresQuery()
	query, args, err := toNamedArgs(params).RewriteQuery(t.Context(), nil, query, nil)
	storetest.OK(t, err)
	values := make([]string, len(args))
	for i, a := range args {
		values[i] = fmt.Sprintf("'%v'", a)
		switch a := a.(type) {
		case time.Time:
			values[i] = "'" + a.Format(time.RFC3339Nano) + "'"
		case []byte:
			values[i] = fmt.Sprintf(`'\x%x'`, a)
		}
	}
	for _, statement := range []string{`SET plan_cache_mode = force_generic_plan`, `DEALLOCATE ALL`, `PREPARE filter AS ` + query} {
		storetest.Must(conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol))(t)
	}
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	storetest.OK(t, conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE filter(`+strings.Join(values, ", ")+`)`,
		pgx.QueryExecModeSimpleProtocol).Scan(&plan))
	return plan[0].Plan.Hit + plan[0].Plan.Read
}

// Reads about one recipient read only that recipient's rows, however little the planner knows of
// the table: if it was never analysed, or only while it was empty. This holds on connections from
// before the table grew, and on new ones. The server counts each index entry that is read.
func TestPostgresReadsOneRecipientsRows(t *testing.T) {
	address := newDatabase(t)
	admin := connect(t, address)
	for round, prepare := range []string{`SELECT`, `ANALYZE`, `SELECT`} {
		exec(t, admin, prepare)
		db := storetest.Must(Open(t.Context(), address, ""))(t)
		f := storetest.NewFixture(db).Numbered(uint64(round) << 16)
		in := f.Intent(round+1, storetest.WithRules(storetest.Rule(1000, time.Hour)))
		in.Verification.Holder = "s:1"
		begun := f.Admit(t, in)
		askOfRecipient(t, f, begun, 12) // connections choose their plans here
		exec(t, admin, `
INSERT INTO sends (id, status, logged_at, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, network, attempt, counts)
SELECT `+randomID+`, 'sent', logged_at, verification_id, number, app, channel, purpose, decode(md5(n::text), 'hex'), masked, domain, country, prefix, locale, reference, network, attempt, counts
FROM (SELECT * FROM sends LIMIT 1) s, generate_series(1, 2000) n`)
		later := storetest.Must(Open(t.Context(), address, ""))(t)
		for name, db := range map[string]*DB{"before": db, "after": later} {
			before := entriesRead(t, admin, db)
			const rounds = 12
			askOfRecipient(t, storetest.NewFixture(db), begun, rounds)
			if read := entriesRead(t, admin, db) - before; read < rounds || read > 30*rounds {
				t.Errorf("after %s, planned %s it grew: %d entries were read for %d rounds", prepare, name, read, rounds)
			}
			storetest.OK(t, db.Close())
		}
		exec(t, admin, `DELETE FROM sends`)
		exec(t, admin, `VACUUM sends`)
	}
}

// askOfRecipient makes four kinds of requests that read the sends of a recipient, each as often as
// rounds says.
func askOfRecipient(t *testing.T, f *storetest.Fixture, begun store.BeginAnswer, rounds int) {
	t.Helper()
	s := begun.Send
	bucket := store.SendBucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: []string{s.Purpose}}
	for range rounds {
		storetest.Must(f.History(t.Context(), bucket, time.Hour))(t)
		storetest.Must(f.VerificationToCheck(t.Context(),
			store.RecipientVerificationsQuery{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purpose: s.Purpose, Holder: "s:1"}))(t)
		storetest.Must3(f.Verification(t.Context(), begun.Verification.ID))(t)
		storetest.Must(f.SendDetails(t.Context(), s.ID))(t)
	}
}

// entriesRead returns how many entries of the indexes of sends were read so far. It first lets the
// idle connections of db's pools for reads report their counts.
func entriesRead(t *testing.T, admin *pgx.Conn, db *DB) int64 {
	t.Helper()
	for _, c := range append(db.pool.AcquireAllIdle(t.Context()), db.readers.AcquireAllIdle(t.Context())...) {
		storetest.Must(c.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`))(t)
		c.Release()
	}
	exec(t, admin, `SELECT pg_stat_clear_snapshot()`)
	return queryValue[int64](t, admin, `SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname LIKE 'sends%'`)
}
