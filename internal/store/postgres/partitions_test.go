package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// openAsRole returns a database that is opened as the service's role, with a connection of its
// owner.
func openAsRole(t *testing.T) (*storetest.Fixture, *DB, *pgx.Conn) {
	t.Helper()
	server := shared.Server(t)
	makeAppRole(t)
	address := server.NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	owner := connect(t, address)
	db := openTest(t, withLogin(t, address, appRole), serverClockSQL, appRole)
	return storetest.NewFixture(db).Beside(openTest(t, withLogin(t, address, appRole), serverClockSQL, appRole)), db, owner
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		storetest.Must(conn.Exec(t.Context(), s))(t)
	}
}

func partitionNames(t *testing.T, db *DB) (list []string) {
	t.Helper()
	all := storetest.Must(db.Partitions(t.Context()))(t)
	for i, p := range all {
		if i > 0 && !p.Begins.Equal(all[i-1].Ends) {
			t.Errorf("a gap before %s", p.Name)
		}
		list = append(list, p.Name)
	}
	return list
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	f, db, owner := openAsRole(t)
	before := partitionNames(t, db)
	until := storetest.Must(f.EnsurePartitions(t.Context()))(t)
	storetest.Equal(t, "weeks ahead", store.PartitionWeeksAhead(until, time.Now()), 4)
	storetest.Equal(t, "nothing to do", partitionNames(t, db), before)
	for _, name := range before[1:] {
		exec(t, owner, `DROP TABLE `+name)
	}
	storetest.Together(6, func(i int) {
		if _, err := f.Both(i).EnsurePartitions(t.Context()); err != nil {
			t.Error(err)
		}
	})
	storetest.Equal(t, "made again", partitionNames(t, db), before)
	ensureRetriesBehindALock(t, f, db, owner, before)
	unlike := queryValue[int](t, owner, `
SELECT count(*) FROM sendcode_partitions p WHERE (SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indrelid = p.id AND i.indisvalid)
   <> (SELECT count(*) FROM pg_index i WHERE i.indrelid = 'sends'::regclass AND i.indisvalid)`)
	storetest.Equal(t, "partitions without all indexes", unlike, 0)
}

// ensureRetriesBehindALock tests that EnsurePartitions tries again if another connection holds the
// lock for longer than lock_timeout, as a replica does that makes a partition.
func ensureRetriesBehindALock(t *testing.T, f *storetest.Fixture, db *DB, owner *pgx.Conn, partitions []string) {
	t.Helper()
	exec(t, owner, `DROP TABLE `+partitions[len(partitions)-1], `BEGIN`, `LOCK TABLE sends IN SHARE UPDATE EXCLUSIVE MODE`)
	made := make(chan error)
	go func() { _, err := f.EnsurePartitions(t.Context()); made <- err }()
	since := func() (at time.Time) {
		servertest.Await(t, "a wait for the lock", func() bool {
			err := db.pool.QueryRow(t.Context(), `
SELECT query_start FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%sendcode_make_partitions%' AND pid <> pg_backend_pid()`).Scan(&at)
			return err == nil
		})
		return at
	}
	first := since()
	servertest.Await(t, "the next wait", func() bool { return since().After(first) })
	exec(t, owner, `ROLLBACK`)
	storetest.OK(t, <-made)
	storetest.Equal(t, "made after another", partitionNames(t, db), partitions)
}

// The clock passes the end of a partition while sends come whose IDs are on both sides, and
// meanwhile another partition is attached. Each recipient gets as many sends as the rule admits in
// both partitions together.
func TestPartitionEndsUnderLoad(t *testing.T) {
	const recipients, each, limit, workers = 4, 50, 30, 8
	url := shared.Server(t).NewDatabase(t)
	makeTestSchema(t, url)
	f, owner := postgresFixture(t, url+unhurried), connect(t, url)
	end := storetest.Epoch.Add(time.Minute)
	exec(t, owner, `ALTER TABLE sends DETACH PARTITION sends_3`)
	f.Pass(end.Sub(f.Now) - recipients*each/2*time.Millisecond)
	intents := make(chan store.Intent)
	var admitted [recipients]atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for in := range intents {
				begun, err := f.Both(i).Begin(t.Context(), in)
				if err != nil {
					t.Error(err)
				} else if begun.Admitted {
					admitted[in.Send.Recipient[15]].Add(1)
				}
			}
		})
	}
	for n := range recipients * each {
		if n == recipients*each/2 {
			exec(t, owner, `ALTER TABLE sends ATTACH PARTITION sends_3 FOR VALUES FROM ('`+
				store.LowestID(storetest.Epoch.Add(40*day)).String()+`') TO (MAXVALUE)`)
		}
		f.Pass(time.Millisecond)
		drift := time.Duration(n%3-1) * 20 * time.Millisecond // a replica's clock is behind the database's, or ahead
		intents <- f.Intent(n%recipients, storetest.WithRules(storetest.Rule(limit, time.Hour)), storetest.WithID(f, drift))
	}
	close(intents)
	all.Wait()
	for i := range admitted {
		storetest.Equal(t, "admitted", admitted[i].Load(), limit)
	}
	rows := queryValue[[]int](t, owner, `SELECT ARRAY[(SELECT count(*) FROM sends_0), (SELECT count(*) FROM sends_1)]`)
	if rows[0]+rows[1] != recipients*limit || rows[0] == 0 || rows[1] == 0 {
		t.Errorf("rows on both sides: %v", rows)
	}
}

// Without a partition for the present time nothing is sent, and every caller gets the reason.
// EnsurePartitions makes the partition.
func TestPartitionIsMissing(t *testing.T) {
	f, db, owner := openAsRole(t)
	all := partitionNames(t, db)
	for _, name := range all[1:] {
		exec(t, owner, `DROP TABLE `+name)
	}
	exec(t, owner, `ALTER TABLE sends DETACH PARTITION `+all[0], `ALTER TABLE `+all[0]+` RENAME TO sends_old`)
	exec(t, owner, `ALTER TABLE sends ATTACH PARTITION sends_old FOR VALUES FROM (MINVALUE) TO ('`+
		store.LowestID(time.Now().AddDate(0, -2, 0)).String()+`')`)
	in := f.Intent(1)
	_, err := f.Begin(t.Context(), in)
	storetest.Certain(t, err)
	storetest.Is(t, err, store.ErrNoPartition)
	storetest.Is(t, f.Ping(t.Context()), store.ErrNoPartition)
	storetest.Must(f.EnsurePartitions(t.Context()))(t)
	partitionNames(t, db)
	f.Admit(t, in)
	storetest.OK(t, f.Ping(t.Context()))

	for _, name := range partitionNames(t, db) { // none is left
		exec(t, owner, `DROP TABLE `+name)
	}
	storetest.Is(t, f.Ping(t.Context()), store.ErrNoPartition)
	storetest.Must(f.EnsurePartitions(t.Context()))(t)
	f.Admit(t, f.Intent(2, storetest.WithID(&storetest.Fixture{Now: time.Now()}, time.Minute-store.MaxIDTimeDrift)))
}

const day = 24 * time.Hour

// backdated writes a send that was logged age ago. It returns the IDs of the send and of its
// verification.
func backdated(t *testing.T, f *storetest.Fixture, owner *pgx.Conn, age time.Duration) (uuid.UUID, string) {
	t.Helper()
	begun := f.Admit(t, f.Intent(1))
	old, new := begun.Send.ID, begun.Send.ID
	lowest := store.LowestID(time.Now().Add(-age))
	copy(new[:6], lowest[:6])
	storetest.Must(owner.Exec(t.Context(),
		`UPDATE sends SET id = $2, logged_at = now() - $3 * interval '1 microsecond' WHERE id = $1`, old, new,
		age.Microseconds()))(t)
	storetest.Must(owner.Exec(t.Context(), `UPDATE outbox SET id = $2 WHERE id = $1`, old, new))(t)
	storetest.Must(owner.Exec(t.Context(), `UPDATE verifications SET expires_at = now() - $2 * interval '1 microsecond' WHERE id = $1`,
		begun.Verification.ID, age.Microseconds()))(t)
	storetest.Must(owner.Exec(t.Context(), `INSERT INTO provider_events VALUES ($1, 'delivered', now(), now(), 'post', '')`, new))(t)
	return new, begun.Verification.ID
}

// A partition is dropped, with everything that belongs to its rows, once all rows are old and none
// is needed any more.
func TestPartitionsExpire(t *testing.T) {
	f, db, owner := openAsRole(t)
	now := time.Now()
	repartition(t, owner, now.Add(-100*day), now.Add(-60*day), now.Add(-35*day))
	const keep = 50 * day
	_, first := backdated(t, f, owner, 120*day)
	flying, second := backdated(t, f, owner, 70*day)
	refund, third := backdated(t, f, owner, 65*day)
	_, fourth := backdated(t, f, owner, 55*day) // in a partition with younger rows
	young, _ := backdated(t, f, owner, 45*day)
	exec(t, owner,
		`UPDATE sends SET status = 'sent', finished_at = logged_at WHERE logged_at < now() - interval '100 days' OR logged_at > now() - interval '60 days'`,
		`DELETE FROM outbox WHERE id IN (SELECT id FROM sends WHERE status = 'sent')`)
	f.End(t, refund, store.Outcome{Status: store.Failed, Refund: true})

	expire := func(want store.DeletedRows) {
		t.Helper()
		storetest.Equal(t, "expired", storetest.Must(f.DeleteAged(t.Context(), keep, 10))(t), want)
	}
	left := func(want ...string) {
		t.Helper()
		rows, err := owner.Query(t.Context(), `SELECT id FROM verifications WHERE id = ANY ($1)`, []string{first, second, third, fourth})
		storetest.OK(t, err)
		got := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
		slices.Sort(got)
		slices.Sort(want)
		storetest.Equal(t, "verifications", got, want)
	}
	reader := storetest.Must(owner.Begin(t.Context()))(t)
	storetest.Must(reader.Exec(t.Context(), `SELECT FROM sends LIMIT 1`))(t)
	expire(store.DeletedRows{Rows: 2}) // an open transaction has read the partition, so it stays, and old rows are deleted one by one
	left(second, third)
	storetest.OK(t, reader.Rollback(t.Context()))
	storetest.Equal(t, "partitions", partitionNames(t, db), []string{"sends_0", "sends_1", "sends_2", "sends_3"})
	expire(store.DeletedRows{Partition: "sends_0", More: true})
	expire(store.DeletedRows{}) // sends_1 has a send in flight and a refund that is due
	storetest.OK(t, f.ConfirmRefund(t.Context(), store.AttemptID{ID: refund, Attempt: 1}))
	expire(store.DeletedRows{Rows: 1})
	left(second)
	f.End(t, flying, store.Outcome{Status: store.Sent})
	exec(t, owner, `INSERT INTO refunds VALUES ('`+flying.String()+`', now(), 1)`)
	expire(store.DeletedRows{})
	left(second)
	exec(t, owner, `DELETE FROM refunds`)
	expire(store.DeletedRows{Partition: "sends_1", More: true}) // the partition is dropped with its row
	left()
	storetest.Equal(t, "partitions", partitionNames(t, db), []string{"sends_2", "sends_3"})
	storetest.Equal(t, "rows", storetest.IDs(f.All(t)), []uuid.UUID{young})
	events := queryValue[int](t, owner, `SELECT count(*) FROM provider_events`)
	storetest.Equal(t, "events", events, 1)
}

// A row that was logged later than the time in its ID keeps its partition.
func TestPartitionWithAYoungRowStays(t *testing.T) {
	f, db, owner := openAsRole(t)
	repartition(t, owner, time.Now().Add(-60*day))
	id, _ := backdated(t, f, owner, 61*day)
	exec(t, owner, `UPDATE sends SET status = 'sent', finished_at = now(), logged_at = now() - interval '40 days' WHERE id = '`+
		id.String()+`'`, `DELETE FROM outbox`)
	storetest.Equal(t, "expired", storetest.Must(f.DeleteAged(t.Context(), 45*day, 10))(t), store.DeletedRows{})
	storetest.Equal(t, "partitions", len(partitionNames(t, db)), 2)
}

// A verification that expired long ago is due for deletion even if none of its sends is: their
// partition may have been dropped. It stays as long as one of its sends is in flight.
func TestVerificationsWithoutSendsAreDue(t *testing.T) {
	f, _, owner := openAsRole(t)
	f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent})
	waiting := f.Admit(t, f.Intent(2))
	exec(t, owner, `UPDATE verifications SET expires_at = now() - interval '60 days'`,
		`UPDATE sends SET logged_at = now() - interval '60 days' WHERE id = '`+waiting.Send.ID.String()+`'`)
	due := func() int { return storetest.Must(f.StorageStatus(t.Context(), 50*day))(t).Due }
	storetest.Equal(t, "due", due(), 1)
	storetest.Must(f.DeleteAged(t.Context(), 50*day, 10))(t)
	storetest.Equal(t, "due", due(), 0)
	storetest.Equal(t, "of the send in flight", queryValue[int](t, owner, `SELECT count(*) FROM verifications`), 1)
}

// Old rows of each of these tables are due by their own age, and one step deletes as many as its
// limit allows. Claims of Idempotency-Keys are deleted after a day, even if rows are kept for ever.
func TestRowsOfEachTableAreDue(t *testing.T) {
	f, _, owner := openAsRole(t)
	old := store.LowestID(time.Now().Add(-60 * day)).String()
	ids := `(left('` + old + `', 24) || lpad(to_hex(n), 12, '0'))::uuid`
	for i, insert := range []string{
		`failures SELECT 'failed', now() - interval '60 days', ` + ids + `, now(), true, 'shop', 'email', decode(md5(n::text), 'hex')`,
		`provider_events SELECT ` + ids + `, 'bounced', now(), now(), 'post', ''`,
		`suppressions (id, app, channel, address, recipient, masked, reason, detail, created_by, since, until, lifted_at) SELECT ` + ids +
			`, '', 'email',
  decode(md5(n::text), 'hex'), decode(md5(n::text), 'hex'), '', 'manual', '', 'mei', now() - interval '60 days', now() + interval '59 days',
  now() - interval '59 days'`,
		`minute_index SELECT 'provider', 'post', now() - interval '60 days' - n * interval '1 minute'`,
	} {
		exec(t, owner, fmt.Sprintf(`INSERT INTO %s FROM generate_series(1, %d) n`, insert, i+3))
		due := func() int { return storetest.Must(f.StorageStatus(t.Context(), 50*day))(t).Due }
		storetest.Equal(t, "due", due(), i+3)
		storetest.Equal(t, "more", storetest.Must(f.DeleteAged(t.Context(), 50*day, i+3))(t).More, true)
		storetest.Equal(t, "due", due(), 0)
	}
	exec(t, owner, `INSERT INTO idempotency_keys
SELECT sha256(n::text::bytea), sha256(''), gen_random_uuid(), now() - n * interval '23 hours', now() FROM generate_series(1, 2) n`)
	storetest.Must(f.DeleteAged(t.Context(), 0, 10))(t)
	storetest.Equal(t, "claims of the last day", queryValue[int](t, owner, `SELECT count(*) FROM idempotency_keys`), 1)
}

// The role may have partitions made and dropped when they are due, and may change them in no other
// way.
func TestPartitionsAndTheRole(t *testing.T) {
	f, db, owner := openAsRole(t)
	repartition(t, owner, time.Now().Add(-31*day))
	before := partitionNames(t, db)
	for _, statement := range []string{
		`DROP TABLE sends_0`, `TRUNCATE sends`, `ALTER TABLE sends DETACH PARTITION sends_0`,
		`CREATE TABLE sends_9 PARTITION OF sends FOR VALUES FROM (MINVALUE) TO (MAXVALUE)`,
		`CREATE OR REPLACE FUNCTION sendcode_make_partitions() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'`,
		`ALTER FUNCTION sendcode_drop_partition(timestamptz) RESET search_path`,
		`SELECT FROM sends_0`, `DELETE FROM sends_1`, `DROP VIEW sendcode_partitions`,
	} {
		refusedBy(t, db, appRole, statement)
	}
	conn := storetest.Must(db.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	for _, statement := range []string{
		`SET search_path = pg_temp, public`,
		`CREATE TEMP TABLE sendcode_partitions AS SELECT id, name, '2020-01-01'::timestamptz AS begins, '2020-02-01'::timestamptz AS ends FROM public.sendcode_partitions`,
		`CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2099-01-01'::timestamptz $$`,
	} {
		storetest.Must(conn.Exec(t.Context(), statement))(t)
	}
	for _, before := range []string{`now()`, `'infinity'`, `'2099-01-01'`} {
		var dropped *string
		storetest.OK(t, conn.QueryRow(t.Context(), `SELECT public.sendcode_drop_partition(`+before+`)`).Scan(&dropped))
		if dropped != nil {
			t.Errorf("%s, which may still count, was dropped", *dropped)
		}
	}
	storetest.Equal(t, "partitions", partitionNames(t, db), before)
	stranger := queryValue[bool](t, owner, `
SELECT bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.proname IN ('sendcode_make_partitions', 'sendcode_drop_partition')`)
	storetest.Equal(t, "everybody may", stranger, false)
	f.Admit(t, f.Intent(1))
}

// A read of a time range leaves out the partitions of other times.
func TestReadsLeavePartitionsOut(t *testing.T) {
	_, db, owner := openAsRole(t)
	now := time.Now()
	repartition(t, owner, now.Add(-60*day), now.Add(-20*day), now.Add(20*day)) // sends_1 has the range that is read
	from, to := now.Add(-50*day), now.Add(-30*day)
	stats := sqldb.StatsConditions(store.StatsQuery{From: from, To: to, IntervalLength: time.Hour}, sqldb.Postgres, nil)
	type query struct {
		name string
		text string
		args sqldb.Args
		only string
	}
	queries := []query{{"statistics", "SELECT count(*) FROM sends s" + stats.Where(), stats.Args, "sends_1"}}
	for name, filter := range map[string]store.Filter{
		"times": {From: from, To: to},
		"kind":  {From: from, To: to, App: "shop", Status: store.Sent},
		"mark":  {From: from, Before: &store.Cursor{At: to, ID: uuid.Max}, Status: store.Sent},
		"after": {After: &store.Cursor{At: from}, To: to},
	} {
		filter.Limit = 10
		text, args := postgresFilter{sqldb.SendFilter{Filter: filter}}.postgresQuery()
		if i := strings.Index(text, "SELECT s.* FROM kind"); i >= 0 { // the combinations themselves are searched in all partitions
			text = "WITH kind (app, channel, purpose) AS (VALUES ('shop', 'email', 'login')) " + text[i:]
		}
		queries = append(queries, query{name, text, args, "sends_1"})
	}
	for _, q := range queries {
		rows := storetest.Must(db.pool.Query(t.Context(), "EXPLAIN "+q.text, toNamedArgs(q.args)))(t)
		plan := storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
		for n := range 4 {
			name := fmt.Sprintf("sends_%d", n)
			if read := strings.Contains(strings.Join(plan, "\n"), " on "+name); read != strings.Contains(q.only, name) {
				t.Errorf("%s: %s is read: %v\n%s", q.name, name, read, strings.Join(plan, "\n"))
			}
		}
	}
}
