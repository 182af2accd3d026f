package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

func newSQLiteFixture(t *testing.T) *storetest.Fixture {
	clock := &storetest.TestClock{At: storetest.Epoch}
	db := openSQLite(t, storetest.TempFile(t), clock)
	return storetest.NewFixture(db).Beside(db).Clocked(storetest.Epoch, clock.Step)
}

// The data directory is locked against a second process. Even without that lock, two processes
// would admit no more sends than the rules allow.
func TestSQLiteOpenedByTwoProcesses(t *testing.T) {
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	f := storetest.NewFixture(openSQLite(t, path, clock)).Beside(openSQLite(t, path, clock)).Clocked(storetest.Epoch, nil)
	f.BeginAll(t, 24, func(int) store.Intent { return f.Intent(1, storetest.WithRules(storetest.Rule(7, time.Hour))) })
	storetest.Equal(t, "rows", len(f.All(t)), 7)
}

// A refusal by a rule waits for no write.
func TestSQLiteRefusesBesideAWrite(t *testing.T) {
	db := openSQLite(t, storetest.TempFile(t), &storetest.TestClock{At: storetest.Epoch})
	f := storetest.NewFixture(db).Clocked(storetest.Epoch, nil)
	one := storetest.WithRules(storetest.Rule(1, time.Hour))
	f.Admit(t, f.Intent(1, one))
	busy, end := make(chan struct{}), make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		storetest.OK(t, db.Write(t.Context(), "Test", sqldb.InOrder, func(sqldb.Tx) error { close(busy); <-end; return nil }))
	})
	<-busy
	f.Refuse(t, f.Intent(1, one))
	close(end)
	writing.Wait()
}

// A file whose schema another build made is not used.
func TestSQLiteSchemaOfAnotherBuild(t *testing.T) {
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	db := openSQLite(t, path, clock)
	storetest.Must(db.writer.Exec(`UPDATE schema_fingerprints SET sha256 = 'x'`))(t)
	storetest.OK(t, db.Close())
	storetest.Is(t, storetest.Err(Open(t.Context(), path, clock.Now)), store.ErrSchema)
}

func openSQLite(t *testing.T, path string, clock *storetest.TestClock) *DB {
	t.Helper()
	db := storetest.Must(Open(t.Context(), path, clock.Now))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?name=#1%41.db")
	storetest.OK(t, os.WriteFile(path, nil, 0o644))
	clock := &storetest.TestClock{At: storetest.Epoch}
	f := storetest.NewFixture(openSQLite(t, path, clock)).Clocked(storetest.Epoch, nil)
	f.Admit(t, f.Intent(1))
	files := storetest.Must(filepath.Glob(filepath.Join(filepath.Dir(path), "*")))(t)
	storetest.Equal(t, "files: the database, its -wal and -shm", len(files), 3)
	for _, file := range files {
		storetest.Equal(t, file, storetest.Must(os.Stat(file))(t).Mode().Perm(), os.FileMode(0o600))
	}
}

func TestSQLiteSettings(t *testing.T) {
	db := openSQLite(t, storetest.TempFile(t), &storetest.TestClock{At: storetest.Epoch})
	for _, c := range []struct {
		db           *sql.DB
		pragma, want string
	}{
		{db.writer, "journal_mode", "wal"},
		{db.writer, "synchronous", "2"},
		{db.writer, "foreign_keys", "1"},
		{db.writer, "busy_timeout", "5000"},
		{db.writer, "temp_store", "2"},
		{db.readers, "query_only", "1"},
		{db.readers, "busy_timeout", "5000"},
	} {
		var got string
		storetest.OK(t, c.db.QueryRow("PRAGMA "+c.pragma).Scan(&got))
		storetest.Equal(t, c.pragma, got, c.want)
	}
}

// Waiting writes are committed in their order of precedence, no matter when they came: outcomes
// before sends, and last the writes that no request waits for.
func TestWritesCommitInOrderOfPrecedence(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		clock := &storetest.TestClock{At: storetest.Epoch}
		db := openSQLite(t, storetest.TempFile(t), clock)
		f := storetest.NewFixture(db).Clocked(storetest.Epoch, clock.Step)
		held := f.Admit(t, f.Intent(1)).Send.ID
		leave := make(chan struct{})
		var writes sync.WaitGroup
		seen := map[string]string{} // what is committed when a write begins: rows of leases, and of the outbox
		write := func(name string, precedence sqldb.Precedence) {
			writes.Go(func() {
				storetest.OK(t, db.Write(t.Context(), "TestWritesCommitInOrderOfPrecedence", precedence, func(q sqldb.Tx) error {
					if name == "first" {
						<-leave
					}
					var rows string
					err := db.readers.QueryRow(`SELECT (SELECT count(*) FROM leases) || ' ' || (SELECT count(*) FROM outbox)`).Scan(&rows)
					seen[name] = rows
					_, failed := q.Change(`INSERT INTO leases (name, until) VALUES (@name, 0)`, sqldb.Args{"name": name})
					return errors.Join(err, failed)
				}))
			})
			synctest.Wait()
		}
		write("first", sqldb.InOrder)
		storetest.Equal(t, "rows, for which readers wait for no write", len(f.All(t)), 1)
		write("retention", sqldb.Behind)
		write("send", sqldb.InOrder)
		writes.Go(func() { f.End(t, held, storetest.Sent) })
		synctest.Wait()
		close(leave)
		writes.Wait()
		storetest.Equal(t, "committed before", seen, map[string]string{"first": "0 1", "send": "1 0", "retention": "2 0"})
	})
}

// slowEngine is an engine whose transactions take s.each for a deleted send and, after the first
// three, s.later, on the clock of a bubble. It records how many sends each transaction deleted, and
// the ratio of the writer's free time to the time of the transaction.
type slowEngine struct {
	*DB
	each, later time.Duration
	began       time.Time
	took        time.Duration // how long the last call took
	deleted     []int
	free        []float64
}

func (s *slowEngine) Write(ctx context.Context, name string, precedence sqldb.Precedence, f func(sqldb.Tx) error) error {
	return s.DB.Write(ctx, name, precedence, func(q sqldb.Tx) error {
		sends := func() (n int) {
			_, _ = q.Run(`SELECT count(*) FROM sends`, nil, func(scan sqldb.Scan) error { return scan(&n) })
			return n
		}
		if len(s.deleted) > 0 {
			s.free = append(s.free, float64(time.Since(s.began)-s.took)/float64(s.took))
		}
		each := s.each
		if len(s.deleted) >= 3 {
			each = s.later
		}
		before := sends()
		err := f(q)
		n := before - sends()
		s.began, s.took, s.deleted = time.Now(), time.Duration(n)*each, append(s.deleted, n)
		time.Sleep(s.took)
		return err
	})
}

// Old rows are deleted in transactions that grow until they take about 5 ms, or in transactions of
// ten rows if the disk is slow. Between two transactions the writer is free for at least four times
// as long.
func TestDeleteAgedInSteps(t *testing.T) {
	const fast, slow = 50 * time.Microsecond, time.Millisecond
	tens := func(n int) []int { return slices.Repeat([]int{10}, n) }
	for name, c := range map[string]struct {
		each, later time.Duration
		deleted     []int
	}{
		"fast":       {fast, fast, []int{10, 20, 40, 80, 80, 70}},
		"slow":       {slow, slow, append(tens(30), 0)},
		"turns slow": {fast, slow, append([]int{10, 20, 40, 80, 40, 20}, append(tens(9), 0)...)},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				f := newSQLiteFixture(t)
				for n := range 300 {
					f.Ended(t, f.Intent(n), storetest.Sent)
				}
				f.Pass(time.Hour + store.MaxCodeLife + time.Second)
				disk := &slowEngine{DB: f.Engine.(*DB), each: c.each, later: c.later}
				disk.DB.Engine = disk
				for storetest.Must(f.DeleteAged(t.Context(), time.Hour, 2000))(t).More {
					time.Sleep(time.Second) // until the next call
				}
				storetest.Equal(t, "deleted by each transaction", disk.deleted, c.deleted)
				if least := slices.Min(disk.free); least < 4 {
					t.Errorf("between two transactions the writer was free for %.1f times as long as the first took", least)
				}
			})
		})
	}
}

// countDeletingEngine is an engine in which the counts of an hour are deleted after each read.
type countDeletingEngine struct{ *DB }

func (e countDeletingEngine) Read(ctx context.Context, name string, f func(sqldb.Tx) error) error {
	return errors.Join(e.DB.Read(ctx, name, f),
		e.DB.Write(ctx, name, sqldb.InOrder, func(q sqldb.Tx) error { return e.DB.DeleteCountsOfHour(q, storetest.Epoch) }))
}

// If rows of an hour may have changed while they were read, the hour is not counted then.
func TestCountHoursLeavesWhatChanges(t *testing.T) {
	f := newSQLiteFixture(t)
	f.Ended(t, f.Intent(1), storetest.Sent)
	f.Pass(3 * time.Hour)
	db := f.Engine.(*DB)
	count := func() int {
		return storetest.Must(db.CountHours(t.Context(), 10*time.Minute, 100*time.Hour, 9))(t)
	}
	db.Engine = countDeletingEngine{db}
	storetest.Equal(t, "hours counted while one changes", count(), 0)
	db.Engine = db
	if count() == 0 {
		t.Error("no hour is counted")
	}
}

// A commit that fails before it is written is known to have failed, and later writes succeed. A
// deferred foreign key fails at the commit.
func TestSQLiteFailedCommit(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	err := db.Write(t.Context(), "TestSQLiteFailedCommit", sqldb.InOrder, func(q sqldb.Tx) error {
		return q.ExecAll(nil, `
CREATE TABLE a (id INTEGER PRIMARY KEY);
CREATE TABLE b (a INTEGER REFERENCES a DEFERRABLE INITIALLY DEFERRED);
INSERT INTO b VALUES (1)`)
	})
	storetest.Certain(t, err)
	f.Admit(t, f.Intent(1))
}

// Writes that come while another write is under way share one transaction, in their order. A write
// that fails undoes only its own changes. If the transaction is lost, as on a full disk, none of
// them wrote anything.
func TestSQLiteSharesCommits(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		third func(q sqldb.Tx) error
		rows  int
		want  []error
	}{
		"all": {func(sqldb.Tx) error { return nil }, 5, []error{nil, nil, nil, nil}},
		"one fails": {func(q sqldb.Tx) error {
			return errors.Join(q.ExecAll(nil, `DELETE FROM write_probe`), refused)
		}, 4, []error{nil, nil, refused, nil}},
		"lost": {func(q sqldb.Tx) error {
			return errors.Join(q.ExecAll(nil, `ROLLBACK`), refused)
		}, 1, []error{refused, refused, refused, refused}},
	} {
		servertest.Bubble(t, func(t *testing.T) {
			db := openSQLite(t, storetest.TempFile(t), &storetest.TestClock{At: storetest.Epoch})
			leave, seen, used := make(chan struct{}), []int{}, map[any]bool{}
			insert := func(q sqldb.Tx) error {
				used[q.Conn.(statementConn).q] = true
				rows, err := sqldb.QueryAll(q, sqldb.OneColumn[int], `SELECT count(*) FROM write_probe`, nil)
				seen = append(seen, rows...)
				return errors.Join(err, q.ExecAll(nil, `INSERT INTO write_probe (filling) VALUES (x'00')`))
			}
			go func() {
				_ = db.Write(t.Context(), "TestSQLiteSharesCommits", sqldb.InOrder, func(q sqldb.Tx) error { <-leave; return insert(q) })
			}()
			synctest.Wait()
			got := make([]error, len(c.want))
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() {
					got[i] = db.Write(t.Context(), "TestSQLiteSharesCommits", sqldb.InOrder, func(q sqldb.Tx) error {
						err := insert(q)
						if i == 2 && err == nil {
							err = c.third(q)
						}
						return err
					})
				})
				synctest.Wait()
			}
			close(leave)
			all.Wait()
			for i, want := range c.want {
				storetest.Equal(t, name+": as wanted", errors.Is(got[i], want), true)
				if want != nil {
					storetest.Certain(t, got[i])
				}
			}
			storetest.Equal(t, name+": transactions", len(used), 2)
			storetest.Equal(t, name+": rows seen by the first three", seen[:4], []int{0, 1, 2, 3})
			rows := storetest.Must(sqldb.ReadAll(t.Context(), &db.DB, "TestSQLiteSharesCommits", sqldb.OneColumn[int],
				`SELECT count(*) FROM write_probe`, nil))(t)
			storetest.Equal(t, name+": rows", rows[0], c.rows)
		})
	}
}

// Queries for sends, lists and exports use their index. Only a merge of sends and refusals sorts
// rows.
func TestSQLitePlans(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	in := f.Intent(1)
	who := in.Send.Recipient
	filter := func(f store.Filter) string {
		f.Limit = 10
		query, _ := db.SendsQuery(sqldb.SendFilter{Filter: f})
		return query
	}
	for name, c := range map[string]struct{ query, index string }{
		"gate":         {historySQL, "sends_recipient"},
		"failed sends": {historySQL, "failures_recipient"},
		"holder":       {candidatesSQL, "sends_recipient"},
		"in flight": {
			`SELECT f.id FROM outbox f CROSS JOIN sends s ON s.id = f.id WHERE f.due_at <= 5 AND f.channel = 'email'`,
			"outbox_due",
		},
		"refunds": {
			`SELECT r.id FROM refunds r CROSS JOIN sends s ON s.id = r.id WHERE r.since <= 5 ORDER BY r.since, r.id LIMIT 3`,
			"refunds_since",
		},
		"newest":    {`SELECT id FROM sends s WHERE ` + sqldb.SendsOfVerificationSQL, "sends_recipient"},
		"failed":    {filter(store.Filter{Status: store.Failed, Before: &store.Cursor{}}), "sqlite_autoindex_failures_1"},
		"refused":   {filter(store.Filter{Status: store.Refused, Before: &store.Cursor{}}), "refusals_logged"},
		"rule":      {filter(store.Filter{BlockedBy: "x"}), "refusals_blocked_by"},
		"domain":    {filter(store.Filter{Domain: "x"}), "sends_domain"},
		"delivered": {filter(store.Filter{Status: store.Delivered, App: "x"}), "sends_receipt"},
		"server":    {filter(store.Filter{Provider: "x", App: "x", Channel: "email", Purpose: "x", Before: &store.Cursor{}}), "sends_provider"},
		"person of a purpose": {
			filter(store.Filter{Recipient: &who, App: "x", Channel: "email", Purpose: "x", Provider: "x", Domain: "x", Before: &store.Cursor{}}),
			"sends_recipient (recipient=? AND (logged_at,id)<(?,?))",
		},
		"all":                       {filter(store.Filter{}), "sends_logged"},
		"page":                      {filter(store.Filter{Before: &store.Cursor{}}), "sends_logged"},
		"recipient":                 {filter(store.Filter{Recipient: &who, Before: &store.Cursor{}}), "sends_recipient"},
		"reference":                 {filter(store.Filter{Labels: store.Labels{Reference: "x"}, Before: &store.Cursor{}}), "sends_reference"},
		"person, refused by a rule": {filter(store.Filter{Recipient: &who, BlockedBy: "x"}), "refusals_recipient (recipient=?"},
		"reference in a domain":     {filter(store.Filter{Labels: store.Labels{Reference: "x"}, Domain: "x", Country: "DE"}), "sends_reference (reference=?"},
		"hours":                     {readHourSQL, "sends_logged"},
		"expired":                   {sqldb.SQLite.ExpiredVerificationsSQL(), "verifications_expires"},
		"export":                    {sqldb.SQLite.ExportPageSQL("sends", false), "sends_recipient (recipient=? AND (logged_at,id)>(?,?))"},
		"refusals":                  {sqldb.SQLite.ExportPageSQL("refusals", false), "refusals_recipient (recipient=? AND (logged_at,id)>(?,?))"},
		"codes":                     {sqldb.SQLite.ExportPageSQL("verifications", false), "SEARCH t USING INDEX sqlite_autoindex_verifications_1 (id=?)"},
		"bounces":                   {sqldb.SQLite.ExportPageSQL("provider_events", false), "sends_recipient (recipient=? AND (logged_at,id)>"},
		"counting": {
			`SELECT id FROM sends s WHERE (s.logged_at, s.id) > (@at, @id) AND s.counts = 1 ORDER BY s.logged_at, s.id LIMIT 9`,
			"sends_logged",
		},
	} {
		plan := sqlitePlan(t, db, c.query)
		// only the merge of two lists may sort
		if !strings.Contains(plan, c.index) || strings.Count(plan, "TEMP B-TREE FOR ORDER") > strings.Count(plan, "COMPOUND QUERY") {
			t.Errorf("%s: %s", name, plan)
		}
	}
}

// A list of an app, a channel or a purpose reads the rows of each kind by the index on kinds, and
// goes no further than its page.
func TestSQLiteKindPlans(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	const kind = "(<expr>"
	for name, filter := range map[string]store.Filter{
		"app": {App: "x"}, "purpose": {Purpose: "x", Before: &store.Cursor{}}, "channel": {Channel: "sms", After: &store.Cursor{}},
		"all": {App: "x", Channel: "email", Purpose: "x", Status: store.Sent, From: time.Now()}, "refused": {App: "x", Status: store.Refused},
		"outcome": {Purpose: "x", Outcome: store.CodeEntered, From: time.Now(), To: time.Now()},
	} {
		filter.Limit = 10
		query, _ := db.SendsQuery(sqldb.SendFilter{Filter: filter})
		for line := range strings.Lines(sqlitePlan(t, db, query)) {
			line = strings.TrimSpace(line)
			reads := strings.HasPrefix(line, "SEARCH s ") || strings.HasPrefix(line, "SCAN s ")
			if reads && !strings.Contains(line, "_kind ") && !strings.HasPrefix(line, "SEARCH s USING COVERING INDEX") {
				t.Errorf("%s: %s", name, line)
			}
		}
		if plan := sqlitePlan(t, db, query); strings.Count(plan, kind+"=? AND ") < 1 {
			t.Errorf("%s: no kind is read up to a time: %s", name, plan)
		}
	}
}

// recordingEngine is an engine that records the statements and the number of its writes.
type recordingEngine struct {
	*DB
	statements []string
	writes     int
}

func (e *recordingEngine) Write(ctx context.Context, name string, precedence sqldb.Precedence, f func(sqldb.Tx) error) error {
	e.writes++
	return e.DB.Write(ctx, name, precedence, func(q sqldb.Tx) error {
		q.Conn = recordingConn{q.Conn, e}
		return f(q)
	})
}

type recordingConn struct {
	sqldb.Conn
	*recordingEngine
}

func (c recordingConn) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	c.statements = append(c.statements, statement)
	return c.Conn.Run(statement, args, each)
}

// Erasing and forgetting people, and deleting old rows, read no large table as a whole. The only
// writer is free between two people who are forgotten.
func TestSQLiteErasesBesideSends(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	recorder := &recordingEngine{DB: db}
	db.Engine = recorder
	for n := range 3 {
		storetest.OK(t, f.Erase(t.Context(), recipient.Hash{15: byte(n + 1)}, time.Hour, f.Act()))
	}
	f.Pass(time.Hour)
	recorder.writes = 0
	storetest.Equal(t, "forgotten", storetest.Must(f.ForgetDueErased(t.Context()))(t), 3)
	storetest.Equal(t, "writes, of which the last finds none", recorder.writes, 4)
	f.Ended(t, f.Intent(1), storetest.Sent)
	f.Pass(time.Hour + store.MaxCodeLife + time.Second)
	storetest.Equal(t, "deleted", storetest.Must(f.DeleteAged(t.Context(), time.Hour, 10))(t).Rows, 1)
	inFlight := regexp.MustCompile("SCAN (json_each|f|r) ") // f: outbox, r: refunds
	for _, statement := range recorder.statements {
		if strings.Contains(statement, "carrier_holds") {
			continue // only the numbers that carriers hold now have a row, so there are few
		}
		if plan := sqlitePlan(t, db, statement); strings.Contains(inFlight.ReplaceAllString(plan, ""), "SCAN ") {
			t.Errorf("%s: %s", statement, plan)
		}
	}
}

func sqlitePlan(t *testing.T, db *DB, query string) string {
	t.Helper()
	var args []any
	for _, name := range regexp.MustCompile(`@\w+`).FindAllString(query, -1) {
		args = append(args, sql.Named(name[1:], nil))
	}
	rows := storetest.Must(db.writer.Query("EXPLAIN QUERY PLAN "+query, args...))(t)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		storetest.OK(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	return strings.Join(plan, "; ")
}

func TestSQLiteAuditLogIsAppendOnly(t *testing.T) {
	f := newSQLiteFixture(t)
	db := f.Engine.(*DB)
	a := f.Act()
	storetest.OK(t, f.AddAuditEntry(t.Context(), a))
	before := storetest.Show(f.ListActs(t, store.AuditFilter{}))
	replace := `REPLACE INTO audit_entries SELECT id, at, 'other', role, network, action, app, channel, purpose, target, reason, outcome, detail, completes FROM audit_entries`
	for _, statement := range append([]string{
		replace, `UPDATE OR REPLACE audit_entries SET actor = 'other'`,
		`INSERT OR REPLACE INTO audit_recipients SELECT entry, recipient, 'x' FROM audit_recipients`,
	}, storetest.OnActs...) {
		statement = strings.ReplaceAll(statement, `decode(repeat('02', 16), 'hex')`, `x'02020202020202020202020202020202'`)
		if strings.Contains(statement, "ON CONFLICT") {
			// without WHERE, SQLite parses ON CONFLICT as the condition of a join
			statement = strings.Replace(statement, " ON CONFLICT", " WHERE true ON CONFLICT", 1)
		}
		_, err := db.writer.Exec(statement)
		t.Logf("%s: %v", statement, err)
		storetest.Equal(t, "acts after "+statement, storetest.Show(f.ListActs(t, store.AuditFilter{})), before)
	}
	storetest.Must(db.writer.Exec(`UPDATE audit_recipients SET masked = '•••', recipient = NULL`))(t)
	storetest.Equal(t, "masked", f.ListActs(t, store.AuditFilter{})[0].To, store.ErasedMask)
}

// After an erasure, neither the file nor the files beside it have a trace of the recipient. The
// test searches their bytes, not only the rows.
func TestSQLiteKeepsNoTrace(t *testing.T) {
	const who = 250 // the hash ends in this byte; the file has fewer pages, so no page number looks like the hash
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	f := storetest.NewFixture(openSQLite(t, path, clock)).Clocked(storetest.Epoch, clock.Step)
	for n := range 40 {
		f.Admit(t, f.Intent(n)) // other sends, before and after, so that rows move on their pages
		if n == 20 {
			storetest.WriteTraces(t, f, who)
		}
	}
	files := func() []byte {
		var all []byte
		for _, suffix := range []string{"", "-wal", "-journal"} {
			content, err := os.ReadFile(path + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all = append(all, content...)
		}
		return all
	}
	storetest.Equal(t, "before", len(storetest.FoundIn(files())), len(storetest.Traces))
	storetest.OK(t, f.Erase(t.Context(), recipient.Hash{15: who}, time.Hour, f.Act()))
	storetest.Equal(t, "traces", storetest.FoundIn(files()), nil)
	hash := append(make([]byte, 15), who)
	storetest.Equal(t, "the hash counts on", bytes.Contains(files(), hash), true)
	f.Pass(time.Hour)
	storetest.Equal(t, "forgotten", storetest.Must(f.ForgetDueErased(t.Context()))(t), 1)
	storetest.Equal(t, "the hash", bytes.Contains(files(), hash), false)
}

// A backup, which reads for a long time, delays no erasure, and so no send behind it. The next
// ForgetDueErased empties the log that the backup kept.
func TestSQLiteErasesBesideABackup(t *testing.T) {
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	db := openSQLite(t, path, clock)
	f := storetest.NewFixture(db).Clocked(storetest.Epoch, clock.Step)
	storetest.WriteTraces(t, f, 77)
	backup := storetest.Must(db.readers.Begin())(t)
	storetest.Must(backup.Exec(`SELECT count(*) FROM sends`))(t)
	storetest.Must(db.writer.Exec(`PRAGMA busy_timeout = 600000`))(t)
	storetest.OK(t, f.Erase(t.Context(), recipient.Hash{15: 77}, time.Hour, f.Act()))
	var waits int
	storetest.OK(t, db.writer.QueryRow(`PRAGMA busy_timeout`).Scan(&waits))
	storetest.Equal(t, "busy_timeout of what comes next", waits, 5000)
	log := func() []byte { return storetest.Must(os.ReadFile(path + "-wal"))(t) }
	storetest.Equal(t, "in the log that the backup reads", len(storetest.FoundIn(log())) > 0, true)
	storetest.OK(t, backup.Rollback())
	storetest.Equal(t, "forgotten", storetest.Must(f.ForgetDueErased(t.Context()))(t), 0)
	storetest.Equal(t, "log", len(log()), 0)
}

// A write that panics fails alone, both in a transaction of its own and among other writes, which
// are committed.
func TestSQLiteWriteThatPanics(t *testing.T) {
	db := newSQLiteFixture(t).Engine.(*DB)
	write := func(f func(sqldb.Tx) error) *queuedWrite { return batch.NewCall[write, struct{}](write{f, 0}, 0) }
	broken := func(sqldb.Tx) error { panic("planted") }
	good := func(q sqldb.Tx) error { return q.ExecAll(nil, "CREATE TABLE made (x int)") }
	alone, one, other := write(broken), write(broken), write(good)
	db.writeBatch([]*queuedWrite{alone})
	db.writeBatch([]*queuedWrite{one, other})
	for _, x := range []*queuedWrite{alone, one} {
		storetest.Equal(t, "surely not written", [2]bool{errors.Is(x.Err, fault.Unavailable), errors.Is(x.Err, fault.Uncertain)},
			[2]bool{true, false})
	}
	storetest.OK(t, other.Err)
	storetest.OK(t, db.Write(t.Context(), "Test", sqldb.InOrder, func(q sqldb.Tx) error { return q.ExecAll(nil, "DROP TABLE made") }))
}
