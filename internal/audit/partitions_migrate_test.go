package audit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sendcode/internal/parts"
	"sendcode/migrations"
)

// beforePartitions is the last schema in which sends was one table.
const beforePartitions = 20

// unpartitioned is a database as a version of before left it, with so many rows of the last 100 days.
func unpartitioned(t *testing.T, rows int) (address string, conn *pgx.Conn) {
	t.Helper()
	server := parts.Postgres(t)
	makeAppRole(t, server)
	address = server.NewDatabase(t)
	config, err := pgx.ParseConfig(address)
	ok(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	provider, err := newProvider(goose.DialectPostgres, db, migrations.Postgres, "postgres")
	ok(t, err)
	_, err = provider.UpTo(t.Context(), beforePartitions)
	ok(t, err)
	conn, err = pgx.Connect(t.Context(), address)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec(t, conn, `GRANT SELECT, INSERT, UPDATE, DELETE ON sends TO `+appRole)
	_, err = conn.Exec(t.Context(), strings.ReplaceAll(insertOld, "{{at}}", "now() - n * interval '100 days' / "+"$1::int")+` FROM generate_series(1, $1::int) n) x`, rows)
	ok(t, err)
	return address, conn
}

// insertOld writes a row as a version of before did.
const insertOld = `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip, status, attempt, counts, taken_at, clock, logged_at, finished_at)
SELECT (substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7' || substr(md5(random()::text), 1, 3) || '-8' || substr(md5(random()::text), 1, 3) || '-' || substr(md5(random()::text), 1, 12))::uuid,
       '', 1, 'shop', 'email', 'login', decode(md5(h), 'hex'), 'a•••@example.com', 'en', '', '', 'sent', 1, true, {{at}}, 'log', {{at}}, {{at}}
FROM (SELECT n, lpad(to_hex((extract(epoch FROM {{at}}) * 1000)::bigint), 12, '0') AS h`

// Processes of a version before write and read while the table becomes a partition: they lose nothing and are refused nothing; and it
// may be killed whenever.
func TestSendsBecomePartitions(t *testing.T) {
	const rows = 20_000
	address, conn := unpartitioned(t, rows)
	definitions := func(table string) (list []string) {
		rows, err := conn.Query(t.Context(), `
SELECT regexp_replace(regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX \S+ ON (ONLY )?\S+', 'INDEX'), 'sends_before', 'sends') AS d
FROM pg_index i WHERE i.indrelid = $1::text::regclass AND i.indisvalid ORDER BY d`, table)
		ok(t, err)
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		ok(t, err)
		return list
	}
	indexes := definitions("sends")

	ctx, stop := context.WithCancel(t.Context())
	var written, writers atomic.Int64
	done := make(chan error, 4)
	for range cap(done) {
		go func() { done <- writeAsBefore(ctx, address, &written, &writers) }()
	}
	eventually(t, func() bool { return written.Load() > 20 })
	for patience := 20 * time.Millisecond; ; patience += 40 * time.Millisecond {
		short, cancel := context.WithTimeout(t.Context(), patience) // killed, again and again, a little later each time
		err := MigratePostgres(short, address, As(appRole))
		cancel()
		if err == nil {
			break
		}
		if patience > 20*time.Second {
			t.Fatal(err)
		}
	}
	after := written.Load()
	eventually(t, func() bool { return written.Load() > after+20 })
	stop()
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var n int64
	ok(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM sends WHERE requests = 2`).Scan(&n))
	equal(t, "rows of the writers", n, written.Load())
	ok(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM sends_before`).Scan(&n))
	equal(t, "rows in the first partition", n, written.Load()+rows)
	equal(t, "indexes", definitions("sends"), indexes)
	equal(t, "indexes of the first partition", definitions("sends_before"), indexes)
	equal(t, "indexes of one that was made", definitions("sends_"+lastMonth(t, conn)), indexes)
	var kept, left bool
	ok(t, conn.QueryRow(t.Context(), `SELECT has_table_privilege($1, 'sends', 'SELECT, INSERT, UPDATE, DELETE'), EXISTS (SELECT FROM pg_constraint WHERE conname = 'sends_before')`, appRole).Scan(&kept, &left))
	equal(t, "rights", kept, true)
	equal(t, "constraint left behind", left, false)

	log := openTest(t, as(t, address, appRole), serverClock, As(appRole))
	f := &fixture{Log: log}
	f.admit(t, f.intent(1))
	ok(t, MigratePostgres(t.Context(), address, As(appRole)))
}

func lastMonth(t *testing.T, conn *pgx.Conn) (month string) {
	t.Helper()
	ok(t, conn.QueryRow(t.Context(), `SELECT to_char(max(begins) AT TIME ZONE 'UTC', 'YYYY_MM') FROM sendcode_partitions`).Scan(&month))
	return month
}

// writeAsBefore does what a version of before did, with its rights alone and statements that it prepared once.
func writeAsBefore(ctx context.Context, address string, written, writers *atomic.Int64) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, `SET ROLE `+appRole); err != nil {
		return err
	}
	from := writers.Add(1) << 40
	for i := from; ctx.Err() == nil; i++ {
		work := context.WithoutCancel(ctx)
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		tag, err := conn.Exec(work, `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, locale, reference, ip, status, attempt, counts, taken_at, clock, logged_at, due_at)
VALUES ($1, '', 1, 'shop', 'email', 'login', decode(md5($2::bigint::text), 'hex'), 'a•••@example.com', 'en', '', '', 'sending', 1, true, now(), 'log', now(), now())
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + 1`, id, i)
		if err != nil {
			return err
		}
		if _, err := conn.Exec(work, `UPDATE sends SET status = 'sent', due_at = NULL, requests = 2 WHERE id = ANY ($1::uuid[])`, [][16]byte{id}); err != nil {
			return err
		}
		var found int
		if err := conn.QueryRow(work, `SELECT count(*) FROM sends WHERE counts AND recipient = decode(md5($1::bigint::text), 'hex')`, i).Scan(&found); err != nil {
			return err
		}
		if tag.RowsAffected() != 1 || found != 1 {
			return errors.New("a row that was just written is not there")
		}
		written.Add(1)
	}
	return nil
}

// An ID that is no time is said in plain words, and nothing is changed; one that is ahead by some months has its place.
func TestSendsWithStrangeIDsBecomePartitions(t *testing.T) {
	address, conn := unpartitioned(t, 10)
	exec(t, conn, `UPDATE sends SET id = 'ffffffff-0000-4000-8000-000000000000' WHERE id = (SELECT min(id::text)::uuid FROM sends)`)
	err := MigratePostgres(t.Context(), address)
	if err == nil || !strings.Contains(err.Error(), "has an ID of the year") {
		t.Fatal(err)
	}
	ahead := lowestID(time.Now().AddDate(0, 5, 0)).String()
	exec(t, conn, `UPDATE sends SET id = '`+ahead+`' WHERE id::text LIKE 'ffff%'`)
	ok(t, MigratePostgres(t.Context(), address))
	log := openTest(t, address, serverClock)
	f := &fixture{Log: log}
	f.admit(t, f.intent(1))
	names(t, log)
	equal(t, "rows", len(f.all(t)), 11)
}
