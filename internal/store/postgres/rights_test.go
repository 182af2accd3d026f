package postgres

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// onPostgres are those that only Postgres understands, or only it can refuse.
var onPostgres = []string{
	`TRUNCATE audit_entries`, `TRUNCATE sends, audit_entries`, `TRUNCATE audit_recipients CASCADE`,
	`WITH gone AS (DELETE FROM audit_entries RETURNING *) SELECT count(*) FROM gone`,
	`MERGE INTO audit_entries USING (SELECT 1) x ON true WHEN MATCHED THEN DELETE`,
}

// beyondTheRole is what the owner could do, and the service's role may not.
var beyondTheRole = []string{
	`DROP TABLE audit_entries`, `DROP TABLE audit_entries CASCADE`, `ALTER TABLE audit_entries DISABLE TRIGGER ALL`,
	`ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_append_only`,
	`DROP TRIGGER audit_entries_append_only ON audit_entries`,
	`CREATE TRIGGER mine BEFORE INSERT ON audit_entries EXECUTE FUNCTION sendcode_append_only()`,
	`ALTER TABLE audit_entries DROP COLUMN actor`, `ALTER TABLE audit_entries RENAME TO audit_entries_old`,
	`ALTER TABLE audit_entries OWNER TO CURRENT_USER`,
	`CREATE RULE r AS ON INSERT TO audit_entries DO INSTEAD NOTHING`,
	`ALTER TABLE audit_entries ENABLE ROW LEVEL SECURITY`,
	`CREATE OR REPLACE FUNCTION sendcode_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
	`SET session_replication_role = replica`,
	`SET ROLE postgres`, `SET SESSION AUTHORIZATION postgres`, `REINDEX TABLE audit_entries`,
	`CREATE UNIQUE INDEX one ON audit_entries ((true))`,
	`LOCK TABLE audit_entries IN ACCESS EXCLUSIVE MODE`, `COPY audit_entries TO PROGRAM 'true'`,
	`CREATE TABLE audit_entries_too (LIKE audit_entries)`,
	`UPDATE sendcode_schema SET is_applied = false`, `DELETE FROM sendcode_schema`,
	`UPDATE key_checks SET value = value`, `DELETE FROM key_checks`, `TRUNCATE key_checks`,
}

// No statement changes an act: neither as the role that the service works as, logged in as it or as
// the owner, nor, but for what takes the trigger away, with one login for everything. A person can
// be forgotten by each.
func TestPostgresActsAreOnlyAdded(t *testing.T) {
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	if _, err := Open(t.Context(), as(t, address, appRole), appRole); err == nil {
		t.Fatal("opened before its owner migrated it")
	}
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	storetest.OK(t, Migrate(t.Context(), address, appRole))                 // again: rights are given anew
	storetest.OK(t, Migrate(t.Context(), as(t, address, appRole), appRole)) // the role itself leaves the schema alone
	theirs := slices.Concat(storetest.OnActs, onPostgres)
	for name, c := range map[string]struct {
		url, role  string
		statements []string
		guarded    bool
	}{
		"its own login":     {as(t, address, appRole), appRole, slices.Concat(theirs, beyondTheRole), true},
		"the owner's login": {address, appRole, slices.Concat(theirs, beyondTheRole), false},
		"one login":         {newDatabase(t), "", theirs, false},
	} {
		db := openTest(t, c.url, serverClockSQL, c.role)
		f := storetest.NewFixture(db).Clocked(storetest.Epoch, nil).Numbered(uint64(len(name)) * 100)
		storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act()))
		before := storetest.Show(f.ListActs(t, store.AuditFilter{}))
		if c.role != "" {
			for _, statement := range []string{`GRANT DELETE ON audit_entries TO CURRENT_USER`, `GRANT ALL ON audit_entries TO PUBLIC`} {
				// a warning is all that comes of it; the right is tried below
				_, _ = db.pool.Exec(t.Context(), statement)
			}
		}
		for _, statement := range append(c.statements,
			`UPDATE audit_recipients SET masked = '•••', recipient = decode(repeat('01', 16), 'hex')`) {
			refusedBy(t, db, name, statement)
		}
		storetest.Equal(t, "acts afterwards, with "+name, storetest.Show(f.ListActs(t, store.AuditFilter{})), before)
		storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act())) // and it can still add
		why := storetest.Must(db.AuditWeakness(t.Context()))(t)
		storetest.Equal(t, "guarded, with "+name, why == "", c.guarded)
		storetest.Equal(t, name+" is told of a right to delete", strings.Contains(why, "DELETE"), c.role == "")
		for _, statement := range []string{
			`UPDATE audit_recipients SET masked = '•••'`,
			`UPDATE audit_recipients SET masked = '•••', recipient = NULL`,
		} {
			storetest.Must(db.pool.Exec(t.Context(), statement))(t)
		}
		storetest.Equal(t, "masked", f.ListActs(t, store.AuditFilter{})[0].To, store.ErasedMask)
	}
}

func refusedBy(t *testing.T, db *DB, who, statement string) {
	t.Helper()
	conn := storetest.Must(db.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	tx := storetest.Must(conn.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), statement); err == nil {
		t.Errorf("%s: allowed: %s", who, statement)
	} else if c := sqlState(err); c != "42501" {
		t.Errorf("%s: %s: refused for another reason: %v", who, statement, err)
	}
}

// as is the URL with another login.
func as(t *testing.T, address, user string) string {
	t.Helper()
	u := storetest.Must(url.Parse(address))(t)
	u.User = url.User(user)
	return u.String()
}

// A role that does not exist, and the owner may not make: said in plain words, and the migration
// itself stands.
func TestMigrateWithoutTheRole(t *testing.T) {
	address := shared.Server(t).NewDatabase(t)
	err := Migrate(t.Context(), address, "missing_role")
	if err == nil || !strings.Contains(err.Error(), "there is no role missing_role") {
		t.Fatalf("%v", err)
	}
	f, _ := fixtureOn(t, address)
	f.Admit(t, f.Intent(1))
	storetest.Is(t, storetest.Err(Open(t.Context(), address, "missing_role")), fault.Unavailable)
}

// An owner that may make roles has the one that is asked for made, in PostgreSQL 15 and 16 alike.
func TestMigrateMakesTheRole(t *testing.T) {
	server := shared.Server(t)
	conn := connect(t, server.AdminURL())
	maker := "maker_" + strings.ReplaceAll(uuid.NewString()[:8], "-", "")
	storetest.Must(conn.Exec(t.Context(), `CREATE ROLE `+maker+` LOGIN CREATEROLE CREATEDB`))(t)
	storetest.Must(conn.Exec(t.Context(), `CREATE DATABASE `+maker+` OWNER `+maker+` TEMPLATE template0`))(t)
	u := storetest.Must(url.Parse(as(t, server.URL(), maker)))(t)
	u.Path = "/" + maker
	role := maker + "_app"
	storetest.OK(t, Migrate(t.Context(), u.String(), role))
	f, db := fixtureOn(t, u.String(), role)
	f.Admit(t, f.Intent(1))
	storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act()))
	refusedBy(t, db, role, `DELETE FROM audit_entries`)
}

// A Ping fails without a right that a send needs.
func TestPostgresPingNeedsTheRightsOfASend(t *testing.T) {
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	db, owner := openTest(t, as(t, address, appRole), serverClockSQL, appRole), connect(t, address)
	for _, table := range []string{
		"sends", "verifications", "outbox", "idempotency_keys", "app_events", "minute_index", "failures",
		"refunds",
	} {
		storetest.OK(t, db.Ping(t.Context()))
		exec(t, owner, `REVOKE INSERT ON `+table+` FROM `+appRole)
		if err := db.Ping(t.Context()); !IsPermissionDenied(err) || !strings.Contains(err.Error(), table) {
			t.Errorf("%s: %v", table, err)
		}
		exec(t, owner, `GRANT INSERT ON `+table+` TO `+appRole)
	}
}
