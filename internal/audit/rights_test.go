package audit

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// onActs is what somebody might try who wants an act not to have been: none may get through.
var onActs = []string{
	`UPDATE acts SET who = 'nobody'`, `UPDATE acts SET reason = '' WHERE false`, `DELETE FROM acts`, `DELETE FROM acts WHERE who = 'mei'`,
	`DELETE FROM act_people`, `UPDATE act_people SET masked = 'b•••@example.com'`,
	`UPDATE act_people SET recipient = decode(repeat('02', 16), 'hex'), masked = '•••'`,
	`UPDATE act_people SET act = '00000000-0000-7000-8000-000000000000', masked = '•••'`,
	`INSERT INTO acts SELECT * FROM acts ON CONFLICT (id) DO UPDATE SET who = 'nobody'`,
	`INSERT INTO act_people SELECT * FROM act_people ON CONFLICT (act) DO UPDATE SET masked = 'x'`,
}

// onPostgres are those that only Postgres understands, or only it can refuse.
var onPostgres = []string{
	`TRUNCATE acts`, `TRUNCATE sends, acts`, `TRUNCATE act_people CASCADE`,
	`WITH gone AS (DELETE FROM acts RETURNING *) SELECT count(*) FROM gone`,
	`MERGE INTO acts USING (SELECT 1) x ON true WHEN MATCHED THEN DELETE`,
}

// beyondTheRole is what the owner could do, and the service's role may not.
var beyondTheRole = []string{
	`DROP TABLE acts`, `DROP TABLE acts CASCADE`, `ALTER TABLE acts DISABLE TRIGGER ALL`, `ALTER TABLE acts DISABLE TRIGGER acts_only_added`,
	`DROP TRIGGER acts_only_added ON acts`, `CREATE TRIGGER mine BEFORE INSERT ON acts EXECUTE FUNCTION sendcode_only_added()`,
	`ALTER TABLE acts DROP COLUMN who`, `ALTER TABLE acts RENAME TO acts_old`, `ALTER TABLE acts OWNER TO CURRENT_USER`,
	`CREATE RULE r AS ON INSERT TO acts DO INSTEAD NOTHING`, `ALTER TABLE acts ENABLE ROW LEVEL SECURITY`,
	`CREATE OR REPLACE FUNCTION sendcode_only_added() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
	`SET session_replication_role = replica`,
	`SET ROLE postgres`, `SET SESSION AUTHORIZATION postgres`, `REINDEX TABLE acts`, `CREATE UNIQUE INDEX one ON acts ((true))`,
	`LOCK TABLE acts IN ACCESS EXCLUSIVE MODE`, `COPY acts TO PROGRAM 'true'`, `CREATE TABLE acts_too (LIKE acts)`,
	`UPDATE sendcode_schema SET is_applied = false`, `DELETE FROM sendcode_schema`,
}

// The role that the service works as, logged in as it does: no statement of those that anybody thought of changes an act.
func TestPostgresActsAreOnlyAdded(t *testing.T) {
	server := parts.Postgres(t)
	makeAppRole(t, server)
	address := server.NewDatabase(t)
	_, err := OpenPostgres(t.Context(), as(t, address, appRole), As(appRole))
	if err == nil {
		t.Fatal("opened before its owner migrated it")
	}
	ok(t, MigratePostgres(t.Context(), address, As(appRole)))
	ok(t, MigratePostgres(t.Context(), address, As(appRole)))                 // again: rights are given anew
	ok(t, MigratePostgres(t.Context(), as(t, address, appRole), As(appRole))) // the role itself leaves the schema alone
	for name, open := range map[string]string{"its own login": as(t, address, appRole), "the owner's login": address} {
		log, err := OpenPostgres(t.Context(), open, As(appRole))
		ok(t, err)
		f := newFixture(log).clocked(epoch, nil)
		f.serial = uint64(len(name)) * 100
		ok(t, f.RecordAct(t.Context(), f.act()))
		before := show(f.acts(t, ActFilter{}))
		for _, statement := range []string{`GRANT DELETE ON acts TO CURRENT_USER`, `GRANT ALL ON acts TO PUBLIC`} {
			_, _ = log.pool.Exec(t.Context(), statement) // a warning is all that comes of it; the right is tried below
		}
		for _, statement := range append(append(append([]string{}, onActs...), onPostgres...), beyondTheRole...) {
			refusedBy(t, log, name, statement)
		}
		equal(t, "acts afterwards, with "+name, show(f.acts(t, ActFilter{})), before)
		ok(t, f.RecordAct(t.Context(), f.act())) // and it can still add
		why, err := log.Guarded(t.Context())
		ok(t, err)
		equal(t, "guarded, with "+name, why == "", name == "its own login")
		ok(t, log.Close())
	}
}

// One login for everything: the trigger alone holds, whatever is tried but to take it away.
func TestPostgresActsAreOnlyAddedByTheOwner(t *testing.T) {
	log := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	f := newFixture(log).clocked(epoch, nil)
	ok(t, f.RecordAct(t.Context(), f.act()))
	before := show(f.acts(t, ActFilter{}))
	for _, statement := range append(append([]string{}, onActs...), onPostgres...) {
		refusedBy(t, log, "one login", statement)
	}
	equal(t, "acts afterwards", show(f.acts(t, ActFilter{})), before)
	why, err := log.Guarded(t.Context())
	ok(t, err)
	if !strings.Contains(why, "DELETE") {
		t.Errorf("the owner is told: %q", why)
	}
}

// A person can be forgotten by everybody.
func TestPostgresForgetsWhomAnActWasOn(t *testing.T) {
	server := parts.Postgres(t)
	makeAppRole(t, server)
	address := server.NewDatabase(t)
	ok(t, MigratePostgres(t.Context(), address, As(appRole)))
	log := openTest(t, as(t, address, appRole), serverClock, As(appRole))
	f := newFixture(log).clocked(epoch, nil)
	ok(t, f.RecordAct(t.Context(), f.act()))
	for _, statement := range []string{`UPDATE act_people SET masked = '•••'`, `UPDATE act_people SET masked = '•••', recipient = NULL`} {
		_, err := log.pool.Exec(t.Context(), statement)
		ok(t, err)
	}
	equal(t, "masked", f.acts(t, ActFilter{})[0].To, Erased)
	refusedBy(t, log, "the role", `UPDATE act_people SET masked = '•••', recipient = decode(repeat('01', 16), 'hex')`)
}

func TestSQLiteActsAreOnlyAdded(t *testing.T) {
	log := openSQLite(t, tempFile(t), &testClock{at: epoch})
	f := newFixture(log).clocked(epoch, nil)
	a := f.act()
	ok(t, f.RecordAct(t.Context(), a))
	before := show(f.acts(t, ActFilter{}))
	replace := `REPLACE INTO acts SELECT id, at, 'nobody', role, network, what, app, channel, purpose, target, reason, outcome, detail, ends FROM acts`
	for _, statement := range append([]string{
		replace, `UPDATE OR REPLACE acts SET who = 'nobody'`, `INSERT OR REPLACE INTO act_people SELECT act, recipient, 'x' FROM act_people`,
	}, onActs...) {
		statement = strings.ReplaceAll(statement, `decode(repeat('02', 16), 'hex')`, `x'02020202020202020202020202020202'`)
		if strings.Contains(statement, "ON CONFLICT") {
			statement = strings.Replace(statement, " ON CONFLICT", " WHERE true ON CONFLICT", 1) // else it is taken for a join
		}
		_, err := log.writer.Exec(statement)
		t.Logf("%s: %v", statement, err)
		equal(t, "acts after "+statement, show(f.acts(t, ActFilter{})), before)
	}
	_, err := log.writer.Exec(`UPDATE act_people SET masked = '•••', recipient = NULL`)
	ok(t, err)
	equal(t, "masked", f.acts(t, ActFilter{})[0].To, Erased)
}

func refusedBy(t *testing.T, log *Postgres, who, statement string) {
	t.Helper()
	conn, err := log.pool.Acquire(t.Context())
	ok(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	ok(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err = tx.Exec(t.Context(), statement); err == nil {
		t.Errorf("%s: allowed: %s", who, statement)
	} else if c := code(err); c != "42501" {
		t.Errorf("%s: %s: refused for another reason: %v", who, statement, err)
	}
}

// as is the URL with another login.
func as(t *testing.T, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	ok(t, err)
	u.User = url.User(user)
	return u.String()
}

// A role that nobody made, and the owner may not make: said in plain words, and the migration itself stands.
func TestMigrateWithoutTheRole(t *testing.T) {
	address := parts.Postgres(t).NewDatabase(t)
	err := MigratePostgres(t.Context(), address, As("nobody_made_it"))
	if err == nil || !strings.Contains(err.Error(), "there is no role nobody_made_it") {
		t.Fatalf("%v", err)
	}
	log := openTest(t, address, serverClock)
	f := newFixture(log)
	f.admit(t, f.intent(1))
	_, err = OpenPostgres(t.Context(), address, As("nobody_made_it"))
	is(t, err, ErrUnavailable)
}

// Whoever may make roles has the one that is asked for made, in PostgreSQL 15 and 16 alike.
func TestMigrateMakesTheRole(t *testing.T) {
	server := parts.Postgres(t)
	conn, err := pgx.Connect(t.Context(), server.AdminURL())
	ok(t, err)
	defer conn.Close(context.Background())
	maker := "maker_" + strings.ReplaceAll(uuid.NewString()[:8], "-", "")
	_, err = conn.Exec(t.Context(), `CREATE ROLE `+maker+` LOGIN CREATEROLE CREATEDB`)
	ok(t, err)
	_, err = conn.Exec(t.Context(), `CREATE DATABASE `+maker+` OWNER `+maker+` TEMPLATE template0`)
	ok(t, err)
	u, err := url.Parse(as(t, server.URL(), maker))
	ok(t, err)
	u.Path = "/" + maker
	role := maker + "_app"
	ok(t, MigratePostgres(t.Context(), u.String(), As(role)))
	log := openTest(t, u.String(), serverClock, As(role))
	f := newFixture(log)
	f.admit(t, f.intent(1))
	ok(t, f.RecordAct(t.Context(), f.act()))
	refusedBy(t, log, role, `DELETE FROM acts`)
}
