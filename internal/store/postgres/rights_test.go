package postgres

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
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

// beyondTheRole are statements that the owner or a superuser may run, but the service's role may
// not.
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

// No statement of storetest.OnActs or onPostgres changes an entry of the audit log, with any of
// three logins. Those of beyondTheRole are tried only as the service's role, because the owner may
// run them. With each login, a person can be erased.
func TestPostgresAuditLogIsAppendOnly(t *testing.T) {
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	if _, err := Open(t.Context(), withLogin(t, address, appRole), appRole); err == nil {
		t.Fatal("opened before its owner migrated it")
	}
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	storetest.OK(t, Migrate(t.Context(), address, appRole))                        // again: rights are given anew
	storetest.OK(t, Migrate(t.Context(), withLogin(t, address, appRole), appRole)) // as the role, Migrate changes nothing
	theirs := slices.Concat(storetest.OnActs, onPostgres)
	for name, c := range map[string]struct {
		url, role  string
		statements []string
		guarded    bool
	}{
		"its own login":     {withLogin(t, address, appRole), appRole, slices.Concat(theirs, beyondTheRole), true},
		"the owner's login": {address, appRole, slices.Concat(theirs, beyondTheRole), false},
		"one login":         {newDatabase(t), "", theirs, false},
	} {
		db := openTest(t, c.url, serverClockSQL, c.role)
		f := storetest.NewFixture(db).Clocked(storetest.Epoch, nil).Numbered(uint64(len(name)) * 100)
		storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act()))
		before := storetest.Show(f.ListActs(t, store.AuditFilter{}))
		if c.role != "" {
			for _, statement := range []string{`GRANT DELETE ON audit_entries TO CURRENT_USER`, `GRANT ALL ON audit_entries TO PUBLIC`} {
				// such a statement causes a warning at most; the right is tested below
				_, _ = db.pool.Exec(t.Context(), statement)
			}
		}
		for _, statement := range append(c.statements,
			`UPDATE audit_recipients SET masked = '•••', recipient = decode(repeat('01', 16), 'hex')`) {
			refusedBy(t, db, name, statement)
		}
		storetest.Equal(t, "acts afterwards, with "+name, storetest.Show(f.ListActs(t, store.AuditFilter{})), before)
		storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act())) // an entry can still be added
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

// withLogin returns the URL with another login.
func withLogin(t *testing.T, address, user string) string {
	t.Helper()
	u := storetest.Must(url.Parse(address))(t)
	u.User = url.User(user)
	return u.String()
}

// If the role does not exist and the owner may not create it, the error says so, and the schema
// stays migrated.
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

// If the owner may make roles, Migrate makes the configured role.
func TestMigrateMakesTheRole(t *testing.T) {
	server := shared.Server(t)
	conn := connect(t, server.AdminURL())
	maker := "maker_" + strings.ReplaceAll(uuid.NewString()[:8], "-", "")
	storetest.Must(conn.Exec(t.Context(), `CREATE ROLE `+maker+` LOGIN CREATEROLE CREATEDB`))(t)
	storetest.Must(conn.Exec(t.Context(), `CREATE DATABASE `+maker+` OWNER `+maker+` TEMPLATE template0`))(t)
	u := storetest.Must(url.Parse(withLogin(t, server.URL(), maker)))(t)
	u.Path = "/" + maker
	role := maker + "_app"
	storetest.OK(t, Migrate(t.Context(), u.String(), role))
	f, db := fixtureOn(t, u.String(), role)
	f.Admit(t, f.Intent(1))
	storetest.OK(t, f.AddAuditEntry(t.Context(), f.Act()))
	refusedBy(t, db, role, `DELETE FROM audit_entries`)
}

// printedSQL finds the statements in an error of a start.
var printedSQL = regexp.MustCompile(`ALTER ROLE \S+ (IN DATABASE \S+ SET search_path = [^\s,]+|BYPASSRLS)|GRANT USAGE ON SCHEMA \S+ TO [^\s,]+|ALTER TABLE \S+ DISABLE ROW LEVEL SECURITY`)

// A Ping and a start name what prevents a send from reading or writing its rows. A start also names
// what prevents other work.
func TestPostgresPingAndOpenNameMissingRights(t *testing.T) {
	t.Parallel()
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	owner, url := connect(t, withLogin(t, address, "postgres")), withLogin(t, address, appRole)
	f, db := fixtureOn(t, url, appRole)
	each := func(change string) string {
		return `DO $$ DECLARE t text; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
			AND relkind IN ('r', 'p') AND NOT relispartition LOOP EXECUTE format('` + change + `', t); END LOOP; END $$`
	}
	for name, c := range map[string]struct {
		breakSQL, fixSQL string
		cause            error // nil: nothing is wrong
		message          string
		running          bool // a running process meets it, too
	}{
		"a right of sends":        {`REVOKE INSERT ON sends FROM sendcode_app`, `GRANT INSERT ON sends TO sendcode_app`, store.ErrNoPermission, "INSERT sends: run sendcode migrate", true},
		"a right of a table more": {`REVOKE DELETE ON spending FROM sendcode_app`, `GRANT DELETE ON spending TO sendcode_app`, store.ErrNoPermission, "DELETE spending", false},
		"a right of the probe":    {`REVOKE INSERT ON leases FROM sendcode_app`, `GRANT INSERT ON leases TO sendcode_app`, store.ErrNoPermission, "INSERT leases", false},
		"row level security": {
			each(`ALTER TABLE %I ENABLE ROW LEVEL SECURITY`), each(`ALTER TABLE %I DISABLE ROW LEVEL SECURITY`),
			store.ErrNoPermission, " from sendcode_app: run ALTER ROLE sendcode_app BYPASSRLS as", true,
		},
		"row level security with policies": {
			each(`ALTER TABLE %I ENABLE ROW LEVEL SECURITY; CREATE POLICY ours ON %1$I TO sendcode_app USING (true)`),
			each(`ALTER TABLE %I DISABLE ROW LEVEL SECURITY; DROP POLICY ours ON %1$I`), nil, "", true,
		},
		"row level security of one table": {
			`ALTER TABLE suppressions ENABLE ROW LEVEL SECURITY`, `ALTER TABLE suppressions DISABLE ROW LEVEL SECURITY`,
			store.ErrNoPermission, "rows of suppressions from", true,
		},
		"a policy that hides some rows": {
			`ALTER TABLE suppressions ENABLE ROW LEVEL SECURITY; CREATE POLICY ours ON suppressions USING (app = 'shop')`,
			`ALTER TABLE suppressions DISABLE ROW LEVEL SECURITY; DROP POLICY ours ON suppressions`,
			store.ErrNoPermission, "rows of suppressions from", true,
		},
		"a restrictive policy": {
			`ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY ours ON outbox USING (true);
			CREATE POLICY fewer ON outbox AS RESTRICTIVE FOR SELECT USING (channel = 'email')`,
			`ALTER TABLE outbox DISABLE ROW LEVEL SECURITY; DROP POLICY ours ON outbox; DROP POLICY fewer ON outbox`,
			store.ErrNoPermission, "rows of outbox from", true,
		},
		"policies of each statement": {
			`ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY s ON outbox FOR SELECT USING (true);
			CREATE POLICY i ON outbox FOR INSERT WITH CHECK (true); CREATE POLICY u ON outbox FOR UPDATE USING (true);
			CREATE POLICY d ON outbox FOR DELETE USING (true)`,
			`ALTER TABLE outbox DISABLE ROW LEVEL SECURITY; DROP POLICY s ON outbox; DROP POLICY i ON outbox; DROP POLICY u ON outbox; DROP POLICY d ON outbox`,
			nil, "", true,
		},
		"no policy for deletes": {
			`ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY s ON outbox FOR SELECT USING (true);
			CREATE POLICY i ON outbox FOR INSERT WITH CHECK (true); CREATE POLICY u ON outbox FOR UPDATE USING (true)`,
			`ALTER TABLE outbox DISABLE ROW LEVEL SECURITY; DROP POLICY s ON outbox; DROP POLICY i ON outbox; DROP POLICY u ON outbox`,
			store.ErrNoPermission, "rows of outbox from", true,
		},
		"row level security of a job's table": {
			`ALTER TABLE hour_tallies ENABLE ROW LEVEL SECURITY`, `ALTER TABLE hour_tallies DISABLE ROW LEVEL SECURITY`,
			store.ErrNoPermission, "rows of hour_tallies from", false,
		},
		"another default schema": {
			`ALTER ROLE sendcode_app IN DATABASE "` + owner.Config().Database + `" SET search_path = theirs`,
			`ALTER ROLE sendcode_app IN DATABASE "` + owner.Config().Database + `" RESET search_path`,
			store.ErrSchema, "run ALTER ROLE sendcode_app IN DATABASE", false,
		},
		"no use of the schema": {
			`REVOKE USAGE ON SCHEMA public FROM PUBLIC, sendcode_app`, `GRANT USAGE ON SCHEMA public TO PUBLIC, sendcode_app`,
			store.ErrSchema, "GRANT USAGE ON SCHEMA public TO sendcode_app", false,
		},
	} {
		storetest.OK(t, db.Ping(t.Context()))
		exec(t, owner, c.breakSQL)
		started, err := Open(t.Context(), url, appRole)
		if err == nil {
			storetest.OK(t, started.Close())
		}
		ping := db.Ping(t.Context())
		if name == "a right of sends" || name == "row level security" {
			storetest.Is(t, storetest.Err(f.Begin(t.Context(), f.Intent(1))), store.ErrNoPermission)
		}
		if err != nil { // the statements in the error repair it
			for _, statement := range printedSQL.FindAllString(err.Error(), -1) {
				exec(t, owner, statement)
			}
			if again, err := Open(t.Context(), url, appRole); strings.Contains(c.message, " ROLE ") || strings.Contains(c.message, " SCHEMA ") {
				storetest.OK(t, err)
				storetest.OK(t, again.Close())
			}
			exec(t, owner, "ALTER ROLE sendcode_app NOBYPASSRLS")
		}
		exec(t, owner, c.fixSQL)
		for what, err := range map[string]error{"a start": err, "a ping": ping} {
			if what == "a ping" && !c.running {
				continue
			}
			if !errors.Is(err, c.cause) || c.cause != nil && !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %s says %v", name, what, err)
			}
		}
		storetest.OK(t, db.Ping(t.Context()))
	}
}

// sendAndCheck returns a function that sends and checks one code, with all that the database does
// for it on the way, and one send that fails.
//
// The recipients' numbers begin at 2n+2.
func sendAndCheck(t *testing.T, f *storetest.Fixture, n int) func() error {
	return func() error {
		n++
		in, failing := f.Intent(2*n), f.Intent(2*n+1)
		key := store.IdempotencyClaim{Key: [32]byte{1, byte(n), byte(n >> 8)}, SendID: in.Send.ID}
		_, claimed := f.ClaimIdempotencyKey(t.Context(), key)
		began, err := f.Begin(t.Context(), in)
		second, failed := f.Begin(t.Context(), failing)
		if err = errors.Join(claimed, err, failed); err != nil {
			return err
		}
		held, heldSecond := storetest.Held(began.Send.ID, 1), storetest.Held(second.Send.ID, 1)
		renewed := f.RenewLeases(t.Context(), time.Minute, []store.AttemptID{held, heldSecond})
		_, finished := f.Finish(t.Context(), store.Outcome{AttemptID: held, Status: store.Sent})
		event := store.NewEvent{ID: uuid.Must(uuid.NewV7()), Type: "send.failed"}
		_, bounced := f.Finish(t.Context(), store.Outcome{
			AttemptID: heldSecond, Status: store.Failed, Reason: "bad_address", Refund: true, BadAddress: true, Event: event,
			Suppress: store.NewSuppression{Cause: store.CauseHardBounce, Address: failing.Send.Recipient, For: time.Minute},
		})
		_, taken := f.TakeOver(t.Context(), store.Queue{Channel: recipient.Email}, time.Second, 10)
		_, due := f.LeaseDueRefunds(t.Context(), time.Second, 10)
		refunded := f.ConfirmRefund(t.Context(), heldSecond)
		bucket := store.SendBucket{App: "shop", Channel: recipient.Email, Recipient: in.Send.Recipient, Purposes: in.Purposes}
		_, read := f.History(t.Context(), bucket, time.Hour)
		_, onHold := f.CarrierHold(t.Context(), recipient.SMS, in.Send.Recipient)
		_, checked := f.Check(t.Context(), storetest.Wrong(began.Verification.ID))
		released := f.ReleaseIdempotencyKey(t.Context(), key.Key, key.SendID, true)
		return errors.Join(renewed, finished, bounced, taken, due, refunded, read, onHold, checked, released)
	}
}

// A Ping fails for lack of a right if, and only if, a send or a check does.
func TestPostgresPingAsksForTheRightsOfASend(t *testing.T) {
	t.Parallel()
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	owner := connect(t, withLogin(t, address, "postgres"))
	f, db := fixtureOn(t, withLogin(t, address, appRole), appRole)
	work := sendAndCheck(t, f, 0)
	storetest.OK(t, work())
	for table, rights := range serviceRights() {
		for right := range strings.SplitSeq(rights, ", ") {
			exec(t, owner, `REVOKE `+right+` ON `+table+` FROM sendcode_app`)
			sent, ping := work(), db.Ping(t.Context())
			reads := table == "schema_fingerprints" && right == "SELECT" // a Ping compares the schema with this table
			if (sent == nil) != (ping == nil) && !reads {
				t.Errorf("%s of %s: a send says %v, a ping %v", right, table, sent, ping)
			}
			exec(t, owner, `GRANT `+right+` ON `+table+` TO sendcode_app`)
		}
	}
	storetest.OK(t, work())
	storetest.OK(t, db.Ping(t.Context()))
}

// A publication of all tables, for a copy in a warehouse or the move to another server, stops
// neither a send nor a Ping, and each table has a replica identity. If the outbox has none, or its
// publication filters rows by a column outside the identity, both fail.
func TestPostgresWithAPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "wal_level=logical")
	storetest.OK(t, Migrate(t.Context(), server.URL(), ""))
	f, db := fixtureOn(t, server.URL())
	work, admin := sendAndCheck(t, f, 0), connect(t, withLogin(t, server.URL(), "postgres"))
	for name, c := range map[string]struct {
		publication string
		before      string
		fails       bool
	}{
		"all tables":                     {"FOR ALL TABLES", "", false},
		"a schema":                       {"FOR TABLES IN SCHEMA public", "", false},
		"the tables that only lose rows": {"FOR TABLE write_probe, leases, refunds", "", false},
		"deletes alone":                  {"FOR ALL TABLES WITH (publish = 'delete')", "", false},
		"before the identity":            {"FOR ALL TABLES", "ALTER TABLE write_probe REPLICA IDENTITY DEFAULT", false},
		"no identity of the queue":       {"FOR ALL TABLES", "ALTER TABLE outbox REPLICA IDENTITY NOTHING", true},
		"some rows of the queue":         {"FOR TABLE outbox WHERE (channel = 'email')", "ALTER TABLE outbox REPLICA IDENTITY DEFAULT", true},
		"no identity of jobs' rows":      {"FOR ALL TABLES", "ALTER TABLE spending REPLICA IDENTITY NOTHING", false},
	} {
		if c.before != "" {
			exec(t, admin, c.before)
		}
		exec(t, admin, `CREATE PUBLICATION theirs `+c.publication)
		for range 2 { // a Ping after a failure also checks the free space
			sent, ping := work(), db.Ping(t.Context())
			if (sent != nil) != c.fails || (ping != nil) != c.fails {
				t.Errorf("%s: a send says %v, a ping %v", name, sent, ping)
			}
			db.noteFailure()
		}
		exec(t, admin, `DROP PUBLICATION theirs`, `ALTER TABLE write_probe REPLICA IDENTITY FULL`, `ALTER TABLE outbox REPLICA IDENTITY DEFAULT`)
		storetest.OK(t, work())
	}
	rows := storetest.Must(admin.Query(t.Context(), `SELECT c.relname::text FROM pg_class c WHERE relnamespace = 'public'::regnamespace
  AND relkind IN ('r', 'p') AND relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)`))(t)
	storetest.Equal(t, "tables whose rows have no identity", storetest.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), nil)
}

// foreignSettings are settings that a database or a login may have for its sessions.
var foreignSettings = []string{
	"standard_conforming_strings = off", "backslash_quote = on", "escape_string_warning = on", "bytea_output = escape",
	"datestyle = 'German, DMY'", "intervalstyle = iso_8601", "timezone = 'Asia/Kathmandu'", "extra_float_digits = -15",
	"default_transaction_isolation = serializable", "default_transaction_isolation = 'repeatable read'",
	"default_transaction_deferrable = on", "array_nulls = off", "transform_null_equals = on", "synchronous_commit = off",
	"plan_cache_mode = force_custom_plan", "enable_hashjoin = off", "enable_nestloop = off", "enable_indexscan = off",
	"statement_timeout = '30s'", "lock_timeout = 1", "idle_in_transaction_session_timeout = '30s'", "idle_session_timeout = '30s'",
	"client_encoding = 'LATIN1'", "xmloption = document", "quote_all_identifiers = on", "row_security = off", "jit = on",
	"lc_messages = 'C'", "application_name = x", "search_path = public, pg_catalog", "session_replication_role = replica",
}

// The service works with each of foreignSettings as a default of the database. Up to eight settings
// are tried at once; `make nightly` tries each alone.
func TestPostgresSessionIsOurs(t *testing.T) {
	t.Parallel()
	var lists [4][]string
	for i, setting := range foreignSettings {
		lists[i%len(lists)] = append(lists[i%len(lists)], setting)
	}
	worksWithSettings(t, lists[:]...)
}

// worksWithSettings tests that the service works in a database that has each of these lists of
// settings.
func worksWithSettings(t *testing.T, lists ...[]string) {
	t.Helper()
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, ""))
	admin := connect(t, withLogin(t, address, "postgres"))
	name := pgx.Identifier{admin.Config().Database}.Sanitize()
	for i, settings := range lists {
		for _, setting := range settings {
			exec(t, admin, `ALTER DATABASE `+name+` SET `+setting)
		}
		problem := func() error {
			if err := Migrate(t.Context(), address, ""); err != nil {
				return err
			}
			db, err := Open(t.Context(), address, "")
			if err != nil {
				return err
			}
			f := storetest.NewFixture(db).Beside(db).Numbered(uint64(1000 * i))
			return errors.Join(db.Ping(t.Context()), sendAndCheck(t, f, i+1)(), db.Ping(t.Context()), db.Close())
		}()
		if problem != nil {
			t.Errorf("%s: %v", strings.Join(settings, "; "), problem)
		}
		exec(t, admin, `ALTER DATABASE `+name+` RESET ALL`)
	}
}

// If a send waits in vain for a synchronous standby, Migrate and a Ping report that the standby is
// away.
func TestPostgresNamesTheStandby(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "synchronous_standby_names=absent", "synchronous_commit=local")
	admin := connect(t, server.AdminURL())
	exec(t, admin, `CREATE ROLE `+appRole)
	storetest.OK(t, Migrate(t.Context(), server.URL(), appRole))
	storetest.OK(t, openTest(t, server.URL(), serverClockSQL).Ping(t.Context())) // this Ping waits for no standby
	url := server.URL() + "&synchronous_commit=on&pool_max_conns=1"
	f, db := fixtureOn(t, url)
	sent := make(chan error, 1)
	go func() { sent <- storetest.Err(f.Begin(t.Context(), f.Intent(1))) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	storetest.Is(t, Migrate(ctx, url, appRole), store.ErrStandbyAway) // Migrate writes, because it gives the role its rights
	other := storetest.Must(db.pool.Acquire(t.Context()))(t)          // the pool's only connection: Ping's wait for it ends with ctx
	pingErr := db.Ping(ctx)
	other.Release()
	storetest.Is(t, pingErr, store.ErrStandbyAway)
	servertest.Await(t, "the send to end", func() bool {
		exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		return len(sent) == 1
	})
	storetest.Is(t, <-sent, fault.Unavailable)
}
