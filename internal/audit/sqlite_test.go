package audit

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Migrating a file costs more than most of these tests do with it, so it is done once, and each has a copy.
func TestSQLite(t *testing.T) {
	path := tempFile(t)
	ok(t, openSQLite(t, path, &testClock{at: epoch}).Close())
	empty, err := os.ReadFile(path)
	ok(t, err)
	runContract(t, func(t *testing.T) *fixture {
		path := tempFile(t)
		ok(t, os.WriteFile(path, empty, 0o600))
		return sqliteFixture(t, path)
	})
}

func TestSQLiteGateOnManySteps(t *testing.T) { runGateSchedule(t, newSQLiteFixture(t)) }

func newSQLiteFixture(t *testing.T) *fixture { return sqliteFixture(t, tempFile(t)) }

func sqliteFixture(t *testing.T, path string) *fixture {
	clock := &testClock{at: epoch}
	log := openSQLite(t, path, clock)
	return newFixture(log).beside(log).clocked(epoch, clock.step)
}

// The data directory is locked against a second process; but if there were one, the gate would hold all the same.
func TestSQLiteTwice(t *testing.T) {
	clock, path := &testClock{at: epoch}, tempFile(t)
	f := newFixture(openSQLite(t, path, clock)).beside(openSQLite(t, path, clock)).clocked(epoch, nil)
	var intents []Intent
	for range 24 {
		intents = append(intents, f.intent(1, withRules(rule(7, time.Hour))))
	}
	together(len(intents), func(i int) {
		if _, err := f.both(i).Begin(t.Context(), intents[i]); err != nil {
			t.Error(err)
		}
	})
	equal(t, "rows", len(f.all(t)), 7)
}

func openSQLite(t *testing.T, path string, clock *testClock) *SQLite {
	t.Helper()
	log, err := OpenSQLite(t.Context(), path, clock.now)
	ok(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}

func TestSQLiteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?name=#1%41.db")
	ok(t, os.WriteFile(path, nil, 0o644))
	clock := &testClock{at: epoch}
	f := newFixture(openSQLite(t, path, clock)).clocked(epoch, nil)
	f.admit(t, f.intent(1))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	ok(t, err)
	equal(t, "files: the database, its -wal and -shm", len(files), 3)
	for _, file := range files {
		info, err := os.Stat(file)
		ok(t, err)
		equal(t, file, info.Mode().Perm(), os.FileMode(0o600))
	}
}

func TestSQLiteOpenErrors(t *testing.T) {
	if _, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "none", "log.db"), time.Now); err == nil {
		t.Error("opened in a directory that does not exist")
	}
	path := tempFile(t)
	ok(t, os.WriteFile(path, []byte(strings.Repeat("not a database, but long enough. ", 99)), 0o600))
	if _, err := OpenSQLite(t.Context(), path, time.Now); err == nil {
		t.Error("opened a file that is no database")
	}
}

// A process that is killed leaves its connections open; the next one finds all that was answered.
func TestSQLiteSurvivesReopening(t *testing.T) {
	clock, path := &testClock{at: epoch}, tempFile(t)
	f := newFixture(openSQLite(t, path, clock)).clocked(epoch, nil)
	begun := f.admit(t, f.intent(1, withRules(rule(1, time.Hour))))
	f.reopen(openSQLite(t, path, clock))
	equal(t, "row", f.row(t, begun.Send.ID), begun.Send)
	f.refuse(t, f.intent(1, withRules(rule(1, time.Hour))))
	ok(t, f.Close())
	f.reopen(openSQLite(t, path, clock))
	f.refuse(t, f.intent(1, withRules(rule(1, time.Hour))))
}

func TestSQLiteSettings(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	for _, c := range []struct {
		db           *sql.DB
		pragma, want string
	}{
		{log.writer, "journal_mode", "wal"}, {log.writer, "synchronous", "2"}, {log.writer, "foreign_keys", "1"},
		{log.writer, "busy_timeout", "5000"}, {log.readers.DB, "query_only", "1"}, {log.readers.DB, "busy_timeout", "5000"},
	} {
		var got string
		ok(t, c.db.QueryRow("PRAGMA "+c.pragma).Scan(&got))
		equal(t, c.pragma, got, c.want)
	}
}

// The wait for the one writer ends with the caller's patience, and then nothing was written.
func TestSQLiteWaitForTheWriter(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	f := newFixture(log).clocked(epoch, nil)
	in := f.intent(1)
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- log.write(context.Background(), func(context.Context, *sql.Tx, time.Time) error { close(entered); <-leave; return nil })
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { _, err := log.Begin(ctx, in); waiting <- err }()
	cancel()
	err := <-waiting
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("nothing was begun, yet %v", err)
	}
	equal(t, "rows", len(f.all(t)), 0) // readers do not wait
	close(leave)
	ok(t, <-done)
	f.admit(t, in)
}

// A commit that fails before it is written is known to have failed, and the writer works on. A deferred foreign key fails at
// the commit.
func TestSQLiteFailedCommit(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	f := newFixture(log).clocked(epoch, nil)
	err := log.write(t.Context(), func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `
CREATE TABLE a (id INTEGER PRIMARY KEY);
CREATE TABLE b (a INTEGER REFERENCES a DEFERRABLE INITIALLY DEFERRED);
INSERT INTO b VALUES (1)`)
		return err
	})
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("refused before it was written, yet %v", err)
	}
	f.admit(t, f.intent(1))

	err = log.write(t.Context(), func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sends`)
		return errors.Join(err, errors.New("no"))
	})
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("rolled back, yet %v", err)
	}
	equal(t, "rows", len(f.all(t)), 1)
}

// No query of the flow reads a whole table.
func TestSQLitePlans(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	f := newFixture(log).clocked(epoch, nil)
	in := f.intent(1)
	who := in.Send.Recipient
	filter := func(f Filter) string {
		f.Limit = 10
		query, _ := sendFilter{f}.query(sqliteWords)
		return query
	}
	sentOf, _ := sqliteWords.bind(`SELECT id FROM sends s WHERE `+sentOfSQL, Args{"its_recipient": who, "since": epoch, "id": "x"}, epoch)
	for name, c := range map[string]struct{ query, index string }{
		"gate":      {sqlitePastSQL + `(?)`, "sends_recipient"},
		"holder":    {sqliteHeldSQL, "sends_recipient"},
		"in flight": {`SELECT f.id FROM flights f CROSS JOIN sends s ON s.id = f.id WHERE f.due_at <= 5 AND f.channel = 'email' ORDER BY f.due_at, f.id LIMIT 3`, "flights_due"},
		"refunds":   {`SELECT r.id FROM refunds r CROSS JOIN sends s ON s.id = r.id WHERE r.since <= 5 ORDER BY r.since, r.id LIMIT 3`, "refunds_since"},
		"newest":    {sentOf, "sends_recipient"},
		"failed":    {filter(Filter{Status: Failed, Before: &Mark{}}), "sqlite_autoindex_failures_1"},
		"refused":   {filter(Filter{Status: Refused, Before: &Mark{}}), "sends_refused"},
		"rule":      {filter(Filter{BlockedBy: "x"}), "sends_blocked_by"},
		"domain":    {filter(Filter{Domain: "x"}), "sends_domain"},
		"delivered": {filter(Filter{Status: Delivered}), "sends_texts"},
		"all":       {filter(Filter{}), "sends_logged"},
		"page":      {filter(Filter{Before: &Mark{}}), "sends_logged"},
		"recipient": {filter(Filter{Recipient: &who, Before: &Mark{}}), "sends_recipient"},
		"reference": {filter(Filter{Reference: "x", Before: &Mark{}}), "sends_reference"},
		"counting":  {`SELECT id FROM sends s WHERE (s.logged_at, s.id) > ($1, $2) AND s.counts = 1 ORDER BY s.logged_at, s.id LIMIT 9`, "sends_logged"},
	} {
		plan := sqlitePlan(t, log, c.query)
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "TEMP B-TREE") && name != "recipient" { // that merges two
			t.Errorf("%s: %s", name, plan)
		}
	}
}

func sqlitePlan(t *testing.T, log *SQLite, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?")+strings.Count(query, "$"))
	for i := range args {
		args[i] = 0
	}
	rows, err := log.writer.Query("EXPLAIN QUERY PLAN "+query, args...)
	ok(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		ok(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	return strings.Join(plan, "; ")
}
