package postgres

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// onPostgres are statements that only Postgres understands, or that only Postgres can refuse.
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

// No statement changes an entry of the audit log: neither as the service's role, logged in directly
// or through the owner, nor with one login for everything, except statements that remove the
// trigger. Each of them can forget a person.
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
	if err == nil || !strings.Contains(err.Error(), "the role missing_role is missing") {
		t.Fatalf("%v", err)
	}
	f, _ := fixtureOn(t, address)
	f.Admit(t, f.Intent(1))
	storetest.Is(t, storetest.Err(Open(t.Context(), address, "missing_role")), fault.Unavailable)
}

// If the owner may make roles, Migrate makes the configured role, in PostgreSQL 15 as in 16.
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

// A Ping and a start name what keeps a send from its rows.
func TestPostgresNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	owner, url := connect(t, as(t, address, "postgres")), as(t, address, appRole)
	each := func(change string) string {
		return `DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
			AND relkind IN ('r', 'p') AND NOT relispartition LOOP EXECUTE format('` + change + `', t); END LOOP; END $$`
	}
	for name, c := range map[string]struct {
		breaks, mends string
		cause         error // nil: nothing is wrong
		says          string
		running       bool // a process that runs meets it, too
	}{
		"a right of sends":        {`REVOKE INSERT ON sends FROM sendcode_app`, `GRANT INSERT ON sends TO sendcode_app`, store.ErrNoPermission, "INSERT sends: run sendcode migrate", true},
		"a right of a table more": {`REVOKE DELETE ON spending FROM sendcode_app`, `GRANT DELETE ON spending TO sendcode_app`, store.ErrNoPermission, "DELETE spending", true},
		"a right of the probe":    {`REVOKE INSERT ON leases FROM sendcode_app`, `GRANT INSERT ON leases TO sendcode_app`, store.ErrNoPermission, "INSERT leases", true},
		"row level security": {
			each(`ALTER TABLE %I ENABLE ROW LEVEL SECURITY`), each(`ALTER TABLE %I DISABLE ROW LEVEL SECURITY`),
			store.ErrNoPermission, "accounts, app_events, audit_entries, audit_recipients from sendcode_app: ALTER ROLE sendcode_app BYPASSRLS", true,
		},
		"row level security with policies": {
			each(`ALTER TABLE %I ENABLE ROW LEVEL SECURITY; CREATE POLICY ours ON %1$I TO sendcode_app USING (true)`),
			each(`ALTER TABLE %I DISABLE ROW LEVEL SECURITY; DROP POLICY ours ON %1$I`), nil, "", true,
		},
		"another default schema": {
			`ALTER ROLE sendcode_app IN DATABASE "` + owner.Config().Database + `" SET search_path = theirs`,
			`ALTER ROLE sendcode_app IN DATABASE "` + owner.Config().Database + `" RESET search_path`,
			store.ErrSchema, "ALTER ROLE sendcode_app SET search_path = public", false,
		},
		"no use of the schema": {
			`REVOKE USAGE ON SCHEMA public FROM PUBLIC, sendcode_app`, `GRANT USAGE ON SCHEMA public TO PUBLIC, sendcode_app`,
			store.ErrSchema, "give it USAGE on the schema", false,
		},
	} {
		f, db := fixtureOn(t, url, appRole)
		storetest.OK(t, db.Ping(t.Context()))
		exec(t, owner, c.breaks)
		started, err := Open(t.Context(), url, appRole)
		if err == nil {
			storetest.OK(t, started.Close())
		}
		ping := db.Ping(t.Context())
		if name == "a right of sends" || name == "row level security" {
			storetest.Is(t, storetest.Err(f.Begin(t.Context(), f.Intent(1))), store.ErrNoPermission)
		}
		exec(t, owner, c.mends)
		for what, err := range map[string]error{"a start": err, "a ping": ping} {
			if what == "a ping" && !c.running {
				continue
			}
			if !errors.Is(err, c.cause) || c.cause != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s says %v", name, what, err)
			}
		}
		storetest.OK(t, db.Ping(t.Context()))
	}
}

// If a send waits in vain for a synchronous standby, a start and a Ping report the standby that is
// away.
func TestPostgresNamesTheStandby(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "synchronous_standby_names=absent", "synchronous_commit=local")
	admin := connect(t, server.AdminURL())
	exec(t, admin, `CREATE ROLE `+appRole)
	storetest.OK(t, Migrate(t.Context(), server.URL(), appRole))
	storetest.OK(t, openTest(t, server.URL(), serverClockSQL).Ping(t.Context())) // it waits for no standby
	url := server.URL() + "&synchronous_commit=on&pool_max_conns=1"
	f, db := fixtureOn(t, url)
	sent := make(chan error, 1)
	go func() { sent <- storetest.Err(f.Begin(t.Context(), f.Intent(1))) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	storetest.Is(t, Migrate(ctx, url, appRole), store.ErrStandbyAway) // it gives the role its rights
	other := storetest.Must(db.pool.Acquire(t.Context()))(t)          // so that Ping waits no longer than ctx
	told := db.Ping(ctx)
	other.Release()
	storetest.Is(t, told, store.ErrStandbyAway)
	servertest.Await(t, "the send to end", func() bool {
		exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		return len(sent) == 1
	})
	storetest.Is(t, <-sent, fault.Unavailable)
}
