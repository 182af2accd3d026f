package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// owned is a database of the service's role, with the owner's connection beside it.
func owned(t *testing.T) (*fixture, *Postgres, *pgx.Conn) {
	t.Helper()
	server := parts.Postgres(t)
	makeAppRole(t, server)
	address := server.NewDatabase(t)
	ok(t, MigratePostgres(t.Context(), address, As(appRole)))
	owner, err := pgx.Connect(t.Context(), address)
	ok(t, err)
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	log := openTest(t, as(t, address, appRole), serverClock, As(appRole))
	return newFixture(log).beside(openTest(t, as(t, address, appRole), serverClock, As(appRole))), log, owner
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := conn.Exec(t.Context(), s)
		ok(t, err)
	}
}

func names(t *testing.T, log *Postgres) (list []string) {
	t.Helper()
	all, err := log.partitions(t.Context())
	ok(t, err)
	for i, p := range all {
		if i > 0 && !p.Begins.Equal(all[i-1].Ends) {
			t.Errorf("a gap before %s", p.Name)
		}
		list = append(list, p.Name)
	}
	return list
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	f, log, owner := owned(t)
	before := names(t, log)
	until, err := f.MakeRoom(t.Context())
	ok(t, err)
	if n := MonthsAhead(until, time.Now()); n < 2 || n > 4 {
		t.Errorf("%d months ahead, until %v", n, until)
	}
	equal(t, "nothing to do", names(t, log), before)
	for _, name := range before[1:] { // the first one reaches a month further from the end of a month on
		exec(t, owner, `DROP TABLE `+name)
	}
	together(6, func(i int) {
		if _, err := f.both(i).MakeRoom(t.Context()); err != nil {
			t.Error(err)
		}
	})
	equal(t, "made again", names(t, log), before)
	waitsForRoom(t, f, log, owner, before)
	var unlike int
	ok(t, owner.QueryRow(t.Context(), `
SELECT count(*) FROM sendcode_partitions p WHERE (SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indrelid = p.id AND i.indisvalid)
   <> (SELECT count(*) FROM pg_index i WHERE i.indrelid = 'sends'::regclass AND i.indisvalid)`).Scan(&unlike))
	equal(t, "partitions without all indexes", unlike, 0)
}

// waitsForRoom has somebody make a partition for longer than a lock is waited for: whoever else comes for it comes again.
func waitsForRoom(t *testing.T, f *fixture, log *Postgres, owner *pgx.Conn, partitions []string) {
	t.Helper()
	exec(t, owner, `DROP TABLE `+partitions[len(partitions)-1], `BEGIN`, `LOCK TABLE sends IN SHARE UPDATE EXCLUSIVE MODE`)
	made := make(chan error)
	go func() { _, err := f.MakeRoom(t.Context()); made <- err }()
	since := func() (at time.Time) {
		eventually(t, func() bool {
			err := log.pool.QueryRow(t.Context(), `
SELECT query_start FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%sendcode_make_partitions%' AND pid <> pg_backend_pid()`).Scan(&at)
			return err == nil
		})
		return at
	}
	first := since()
	eventually(t, func() bool { return since().After(first) })
	exec(t, owner, `ROLLBACK`)
	ok(t, <-made)
	equal(t, "made after another", names(t, log), partitions)
}

// Without a partition for now nothing is sent, everybody hears why, and it is made as soon as somebody looks.
func TestPartitionIsMissing(t *testing.T) {
	f, log, owner := owned(t)
	all := names(t, log)
	for _, name := range all[1:] {
		exec(t, owner, `DROP TABLE `+name)
	}
	exec(t, owner, `ALTER TABLE sends DETACH PARTITION `+all[0], `ALTER TABLE `+all[0]+` RENAME TO sends_old`)
	exec(t, owner, `ALTER TABLE sends ATTACH PARTITION sends_old FOR VALUES FROM (MINVALUE) TO ('`+lowestID(time.Now().AddDate(0, -2, 0)).String()+`')`)
	in, refusal := f.intent(1), f.refusal(1, nil)
	_, err := f.Begin(t.Context(), in)
	certain(t, err)
	is(t, err, ErrNoPartition)
	is(t, f.Refused(t.Context(), []Send{refusal}), ErrNoPartition)
	is(t, f.Ping(t.Context()), ErrNoPartition)
	_, err = f.MakeRoom(t.Context())
	ok(t, err)
	names(t, log)
	f.admit(t, in)
	ok(t, f.Refused(t.Context(), []Send{refusal}))
	ok(t, f.Ping(t.Context()))

	for _, name := range names(t, log) { // not one left
		exec(t, owner, `DROP TABLE `+name)
	}
	is(t, f.Ping(t.Context()), ErrNoPartition)
	_, err = f.MakeRoom(t.Context())
	ok(t, err)
	f.admit(t, f.intent(2, withID(&fixture{now: time.Now()}, time.Minute-maxDrift)))
}

const day = 24 * time.Hour

// backdated writes a send that was logged a while ago, and gives its ID and its verification's.
func backdated(t *testing.T, f *fixture, owner *pgx.Conn, age time.Duration) (uuid.UUID, string) {
	t.Helper()
	begun := f.admit(t, f.intent(1))
	old, new := begun.Send.ID, begun.Send.ID
	lowest := lowestID(time.Now().Add(-age))
	copy(new[:6], lowest[:6])
	_, err := owner.Exec(t.Context(), `UPDATE sends SET id = $2, logged_at = now() - $3 * interval '1 microsecond' WHERE id = $1`, old, new, age.Microseconds())
	ok(t, err)
	_, err = owner.Exec(t.Context(), `UPDATE flights SET id = $2 WHERE id = $1`, old, new)
	ok(t, err)
	_, err = owner.Exec(t.Context(), `UPDATE verifications SET created_at = now() - $2 * interval '1 microsecond' WHERE id = $1`, begun.Verification.ID, age.Microseconds())
	ok(t, err)
	_, err = owner.Exec(t.Context(), `INSERT INTO provider_events VALUES ($1, 'delivered', now(), now(), 'post', '')`, new)
	ok(t, err)
	return new, begun.Verification.ID
}

// A partition goes whole, with what belongs to its rows, once all of them are old and nothing waits for something.
func TestPartitionsExpire(t *testing.T) {
	f, log, owner := owned(t)
	now := time.Now()
	divide(t, owner, now.Add(-100*day), now.Add(-60*day), now.Add(-35*day))
	const keep = 50 * day
	_, first := backdated(t, f, owner, 120*day)
	flying, second := backdated(t, f, owner, 70*day)
	refund, third := backdated(t, f, owner, 65*day)
	_, fourth := backdated(t, f, owner, 55*day) // in a partition with younger ones
	young, _ := backdated(t, f, owner, 45*day)
	exec(t, owner, `UPDATE sends SET status = 'sent', finished_at = logged_at WHERE logged_at < now() - interval '100 days' OR logged_at > now() - interval '60 days'`,
		`DELETE FROM flights WHERE id IN (SELECT id FROM sends WHERE status = 'sent')`)
	f.finish(t, Outcome{Held: Held{refund, 1}, Status: Failed, Refund: true}, true)

	expire := func(want Expired) {
		t.Helper()
		got, err := f.Expire(t.Context(), keep, 10)
		ok(t, err)
		equal(t, "expired", got, want)
	}
	left := func(want ...string) {
		t.Helper()
		rows, err := owner.Query(t.Context(), `SELECT id FROM verifications WHERE id = ANY ($1)`, []string{first, second, third, fourth})
		ok(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		ok(t, err)
		slices.Sort(got)
		slices.Sort(want)
		equal(t, "verifications", got, want)
	}
	reader, err := owner.Begin(t.Context())
	ok(t, err)
	_, err = reader.Exec(t.Context(), `SELECT FROM sends LIMIT 1`)
	ok(t, err)
	expire(Expired{Rows: 2}) // somebody reads just now: the partition stays, its rows go one by one
	left(second, third)
	ok(t, reader.Rollback(t.Context()))
	equal(t, "partitions", names(t, log), []string{"sends_0", "sends_1", "sends_2", "sends_3"})
	expire(Expired{Partition: "sends_0", More: true})
	expire(Expired{}) // sends_1 has one in flight and a refund
	ok(t, f.Refunded(t.Context(), Held{refund, 1}))
	expire(Expired{Rows: 1})
	left(second)
	f.finish(t, Outcome{Held: Held{flying, 1}, Status: Sent}, true)
	exec(t, owner, `INSERT INTO refunds VALUES ('`+flying.String()+`', now(), 1)`)
	expire(Expired{})
	left(second)
	exec(t, owner, `DELETE FROM refunds`)
	expire(Expired{Partition: "sends_1", More: true}) // with its row
	left()
	equal(t, "partitions", names(t, log), []string{"sends_2", "sends_3"})
	equal(t, "rows", ids(f.all(t)), []uuid.UUID{young})
	var events int
	ok(t, owner.QueryRow(t.Context(), `SELECT count(*) FROM provider_events`).Scan(&events))
	equal(t, "events", events, 1)
}

// A row that was logged later than its ID says keeps its partition.
func TestPartitionWithAYoungRowStays(t *testing.T) {
	f, log, owner := owned(t)
	divide(t, owner, time.Now().Add(-60*day))
	id, _ := backdated(t, f, owner, 61*day)
	exec(t, owner, `UPDATE sends SET status = 'sent', finished_at = now(), logged_at = now() - interval '40 days' WHERE id = '`+id.String()+`'`, `DELETE FROM flights`)
	gone, err := f.Expire(t.Context(), 45*day, 10)
	ok(t, err)
	equal(t, "expired", gone, Expired{})
	equal(t, "partitions", len(names(t, log)), 2)
}

// The role can have made and dropped what is due, and nothing else.
func TestPartitionsAndTheRole(t *testing.T) {
	f, log, owner := owned(t)
	divide(t, owner, time.Now().Add(-31*day))
	before := names(t, log)
	for _, statement := range []string{
		`DROP TABLE sends_0`, `TRUNCATE sends`, `ALTER TABLE sends DETACH PARTITION sends_0`, `CREATE TABLE sends_9 PARTITION OF sends FOR VALUES FROM (MINVALUE) TO (MAXVALUE)`,
		`CREATE OR REPLACE FUNCTION sendcode_make_partitions() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'`, `ALTER FUNCTION sendcode_drop_partition(timestamptz) RESET search_path`,
		`SELECT FROM sends_0`, `DELETE FROM sends_1`, `DROP VIEW sendcode_partitions`,
	} {
		refusedBy(t, log, appRole, statement)
	}
	conn, err := log.pool.Acquire(t.Context())
	ok(t, err)
	defer conn.Release()
	for _, statement := range []string{
		`SET search_path = pg_temp, public`,
		`CREATE TEMP TABLE sendcode_partitions AS SELECT id, name, '2020-01-01'::timestamptz AS begins, '2020-02-01'::timestamptz AS ends FROM public.sendcode_partitions`,
		`CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2099-01-01'::timestamptz $$`,
	} {
		_, err := conn.Exec(t.Context(), statement)
		ok(t, err)
	}
	for _, before := range []string{`now()`, `'infinity'`, `'2099-01-01'`} {
		var dropped *string
		ok(t, conn.QueryRow(t.Context(), `SELECT public.sendcode_drop_partition(`+before+`)`).Scan(&dropped))
		if dropped != nil {
			t.Errorf("%s, which may still count, was dropped", *dropped)
		}
	}
	equal(t, "partitions", names(t, log), before)
	var stranger bool
	ok(t, owner.QueryRow(t.Context(), `
SELECT bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.proname IN ('sendcode_make_partitions', 'sendcode_drop_partition')`).Scan(&stranger))
	equal(t, "everybody may", stranger, false)
	f.admit(t, f.intent(1))
}

// What reads a time leaves the partitions of other times out.
func TestReadsLeavePartitionsOut(t *testing.T) {
	_, log, owner := owned(t)
	now := time.Now()
	divide(t, owner, now.Add(-60*day), now.Add(-20*day), now.Add(20*day)) // sends_1 has the month before
	from, to := now.Add(-50*day), now.Add(-30*day)
	stats := statsConditions(StatsQuery{From: from, To: to, Each: time.Hour}, postgresWords)
	type query struct {
		name string
		text string
		args []any
		only string
	}
	queries := []query{
		{"tallies", stats.tallies("1"), stats.args, "sends_1"}, {"approvals", stats.approvals("1"), stats.args, "sends_1"},
	}
	add := func(name, only string, text string, args []any) {
		queries = append(queries, query{name, text, args, only})
	}
	for name, filter := range map[string]Filter{"times": {From: from, To: to}, "kind": {From: from, To: to, App: "shop"}, "mark": {From: from, Before: &Mark{to, uuid.Max}, Status: Sent}, "refused": {From: from, To: to, Status: Refused}, "after": {After: &Mark{At: from}, To: to}} {
		filter.Limit = 10
		text, args := postgresFilter{sendFilter{filter}}.postgresQuery()
		if i := strings.Index(text, "SELECT s.* FROM kind"); i >= 0 { // the kinds themselves are looked for everywhere
			text = "WITH kind (app, channel, purpose) AS (VALUES ('shop', 'email', 'login')) " + text[i:]
		}
		add(name, "sends_1", text, args)
	}
	crowd, args := postgresWords.bind(postgresWords.crowdSQL(), Args{"purposes": []string{"login"}, "least": 1, "limit": 1, "after": now.Add(-2 * day)}, now)
	add("crowds", "sends_2 sends_3", crowd, args)
	for _, q := range queries {
		rows, err := log.pool.Query(t.Context(), "EXPLAIN "+q.text, q.args...)
		ok(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		ok(t, err)
		for n := range 4 {
			name := fmt.Sprintf("sends_%d", n)
			if read := strings.Contains(strings.Join(plan, "\n"), " on "+name); read != strings.Contains(q.only, name) {
				t.Errorf("%s: %s is read: %v\n%s", q.name, name, read, strings.Join(plan, "\n"))
			}
		}
	}
}
