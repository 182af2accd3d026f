package audit

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// certainlyFull holds err against what a write on a full disk answers: nothing was written, and why.
func certainlyFull(t *testing.T, err error) {
	t.Helper()
	is(t, err, ErrUnavailable)
	is(t, err, ErrFull)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("nothing was written, yet %v", err)
	}
}

// fillWithSends admits sends until the log takes no more, and says how many it took.
func fillWithSends(t *testing.T, f *fixture, from, most int) (taken int) {
	t.Helper()
	for n := range most {
		if _, err := f.Begin(t.Context(), f.intent(from+n)); err != nil {
			certainlyFull(t, err)
			return n
		}
	}
	t.Fatalf("%d sends fit", most)
	return most
}

// holds says that the log takes writes again and has so many rows, none of a Begin that failed.
func holds(t *testing.T, f *fixture, want int) {
	t.Helper()
	ok(t, f.Ping(t.Context()))
	equal(t, "rows", len(f.all(t)), want)
}

// A database that may not grow refuses at a statement, long before the commit.
func TestSQLiteMayNotGrow(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	f := newFixture(log).clocked(epoch, nil)
	f.admit(t, f.intent(1))
	var pages int
	ok(t, log.writer.QueryRow(`PRAGMA page_count`).Scan(&pages))
	_, err := log.writer.Exec(`PRAGMA max_page_count = 1`) // no less than there are
	ok(t, err)
	certainlyFull(t, f.Ping(t.Context()))
	taken := fillWithSends(t, f, 2, 1000)
	_, err = log.writer.Exec(`PRAGMA max_page_count = 1000000`)
	ok(t, err)
	holds(t, f, 1+taken)
	f.admit(t, f.intent(5000))
}

// An error after which the commit may be in the file is not certain: a sync, or anything that came after it.
func TestSQLiteUndone(t *testing.T) {
	for code, want := range map[int]bool{
		13: true, 7: true, 8: true, 14: true, 5: true, 19: true, 787: true, 10 | 3<<8: true, // FULL … IOERR_WRITE
		10: false, 10 | 4<<8: false, 10 | 5<<8: false, 10 | 19<<8: false, 11: false, // IOERR_FSYNC, _DIR_FSYNC, _SHMSIZE, CORRUPT
	} {
		if undoneCode(code) != want {
			t.Errorf("code %d: %v", code, !want)
		}
	}
}

// On a disk without room the commit itself fails, and is known to have failed.
func TestSQLiteDiskIsFull(t *testing.T) {
	disk := parts.SmallDisk(t, 6<<20)
	path, clock := filepath.Join(disk.Dir, "sendcode.db"), &testClock{at: epoch}
	log := openSQLite(t, path, clock)
	f := newFixture(log).clocked(epoch, nil)
	f.admit(t, f.intent(1))
	rows := 1
	for round := range 8 { // the commit fails at another byte each time
		ok(t, disk.Fill())
		ok(t, disk.Leave(int64(round)*5000))
		rows += fillWithSends(t, f, 100*(round+1), 90)
		certainlyFull(t, f.Ping(t.Context()))
		ok(t, disk.MakeRoom())
		holds(t, f, rows)
	}
	f.admit(t, f.intent(5000))
	ok(t, log.Close())
	again := openSQLite(t, path, clock)
	holds(t, newFixture(again).clocked(epoch, nil), rows+1)
}

// newDatabaseIn is newDatabase whose tables are in a tablespace.
func newDatabaseIn(t *testing.T, server *parts.PostgresServer, admin *pgx.Conn, space string) string {
	t.Helper()
	address := server.NewDatabase(t)
	u, err := url.Parse(address)
	ok(t, err)
	_, err = admin.Exec(t.Context(), `ALTER DATABASE `+u.Path[1:]+` SET default_tablespace = `+space)
	ok(t, err)
	ok(t, MigratePostgres(t.Context(), address))
	return address
}

// A tablespace without room fails at a statement; an error of the COMMIT itself is as certain.
func TestPostgresDiskIsFull(t *testing.T) {
	server := parts.Postgres(t)
	disk := parts.SmallDisk(t, 24<<20)
	space := filepath.Join(disk.Dir, "space")
	ok(t, server.GiveTo(space))
	admin, err := pgx.Connect(t.Context(), server.AdminURL())
	ok(t, err)
	defer admin.Close(context.Background())
	_, err = admin.Exec(t.Context(), `CREATE TABLESPACE small LOCATION '`+space+`'`)
	ok(t, err)
	_, err = admin.Exec(t.Context(), `GRANT CREATE ON TABLESPACE small TO PUBLIC`)
	ok(t, err)
	log := openTest(t, newDatabaseIn(t, server, admin, "small"), serverClock)
	f := newFixture(log)
	f.admit(t, f.intent(1))
	ok(t, f.Ping(t.Context()))

	ok(t, disk.Fill())
	certainlyFull(t, f.Ping(t.Context()))
	taken := fillWithSends(t, f, 2, 2000)
	certainlyFull(t, f.Ping(t.Context()))
	ok(t, disk.MakeRoom())
	holds(t, f, 1+taken)
	f.admit(t, f.intent(5000))
}

// An error that the server reports of the COMMIT says that it was undone.
func TestPostgresCommitOnAFullDisk(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := newFixture(log)
	_, err := log.pool.Exec(t.Context(), `
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT ON verifications DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_disk()`, pgx.QueryExecModeSimpleProtocol)
	ok(t, err)
	_, err = f.Begin(t.Context(), f.intent(1))
	certainlyFull(t, err)
	_, err = log.pool.Exec(t.Context(), `DROP TRIGGER full_disk ON verifications`)
	ok(t, err)
	holds(t, f, 0)
	f.admit(t, f.intent(1))
}

// A look whether rows can be written waits for no reader of its table and for no other look.
func TestPostgresPingBesideABackup(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := newFixture(log)
	tx, err := log.pool.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE writable IN ACCESS SHARE MODE`) // as pg_dump does, for as long as it takes
	ok(t, err)
	ok(t, f.Ping(t.Context()))
	ok(t, tx.Rollback(t.Context()))
	tx, err = log.pool.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `TRUNCATE writable`)
	ok(t, err)
	ok(t, f.Ping(t.Context()))
	ok(t, tx.Rollback(t.Context()))
	together(20, func(int) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := f.Ping(ctx); err != nil {
			t.Error(err)
		}
	})
	var rows int
	ok(t, log.pool.QueryRow(t.Context(), `SELECT count(*) FROM writable`).Scan(&rows))
	if rows > 40 {
		t.Errorf("%d rows are left", rows)
	}
}
