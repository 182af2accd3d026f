package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execSQL(t *testing.T, url, sql string) {
	t.Helper()
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	var value string
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

const tables = "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"

func TestPostgresKeepsWhatIsCommitted(t *testing.T) {
	s := Postgres(t)
	url := s.URL()
	execSQL(t, url, "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('yes')")
	for name, again := range map[string]func() error{
		"restart":        s.Restart,
		"stop and start": func() error { s.Stop(); s.Stop(); return s.Start() },
		"stop in a pause": func() error {
			do(t, s.Pause)
			s.Stop()
			return s.Start()
		},
		"start": s.Start,
	} {
		if err := again(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.URL() != url {
			t.Fatalf("%s: URL %s, then %s", name, url, s.URL())
		}
		if got := query(t, url, "SELECT v FROM kept"); got != "yes" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestStoppedPostgresIsGone(t *testing.T) {
	s := Postgres(t)
	conn := connect(t, s.URL())
	family, err := children(s.PID())
	if err != nil || len(family) == 0 {
		t.Fatalf("children %v, %v", family, err)
	}
	parent := s.PID()
	s.Stop()
	for _, pid := range append(family, parent) {
		awaitGone(t, pid)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the stopped server answers")
	}
}

func TestPostgresRoleIsNoSuperuser(t *testing.T) {
	s := Postgres(t)
	const super = "SELECT current_setting('is_superuser')"
	if got := query(t, s.URL(), super); got != "off" {
		t.Errorf("URL: superuser %s", got)
	}
	if got := query(t, s.AdminURL(), super); got != "on" {
		t.Errorf("AdminURL: superuser %s", got)
	}
}

func TestPostgresSettings(t *testing.T) {
	s := Postgres(t)
	for setting, want := range map[string]string{
		"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off", "max_connections": "200",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8",
	} {
		if got := query(t, s.AdminURL(), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

func TestDatabasesAreApart(t *testing.T) {
	s, other := Postgres(t), Postgres(t)
	second, third := s.NewDatabase(t), s.NewDatabase(t)
	execSQL(t, s.URL(), "CREATE TABLE mine ()")
	execSQL(t, second, "CREATE TABLE mine (); CREATE TABLE yours ()")
	copied := s.Copy(t, second)
	execSQL(t, copied, "CREATE TABLE hers ()")
	for url, want := range map[string]string{s.URL(): "1", second: "2", third: "0", other.URL(): "0", copied: "3"} {
		if got := query(t, url, tables); got != want {
			t.Errorf("%s has %s tables, want %s", url, got, want)
		}
	}
}

func TestDumpHoldsEveryRow(t *testing.T) {
	s := Postgres(t)
	second := s.NewDatabase(t)
	execSQL(t, s.URL(), "CREATE TABLE a AS SELECT 'canary-1'::text AS v")
	execSQL(t, second, "CREATE TABLE b AS SELECT 'canary-2'::text AS v")
	if dump := s.Dump(t); !strings.Contains(dump, "canary-1") || strings.Contains(dump, "canary-2") {
		t.Error("the dump is not of the first database alone")
	}
	if dump := s.Dump(t, s.URL(), second); !strings.Contains(dump, "canary-1") || !strings.Contains(dump, "canary-2") {
		t.Error("the dump lacks one of two databases")
	}
}

func TestPostgresPauses(t *testing.T) {
	s := Postgres(t)
	silent, patient := connect(t, s.URL()), connect(t, s.URL())
	do(t, s.Pause, s.Pause)
	family, err := children(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(family, s.PID()) {
		awaitStopped(t, pid)
	}
	for name, ping := range map[string]func(context.Context) error{"an open connection": silent.Ping, "a new one": s.ping} {
		if err := shortly(t, ping); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want silence", name, err)
		}
	}
	do(t, s.Resume, s.Resume)
	if err := patient.Ping(t.Context()); err != nil {
		t.Errorf("a connection after the pause: %v", err)
	}
}

// A developer's shell may say where another Postgres is, and how to talk to it.
func TestPostgresVariablesOfTheCallerDoNotMatter(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "none", "PGSSLMODE": "verify-full",
		"PGDATA": "/nowhere", "PGCLIENTENCODING": "none",
	} {
		t.Setenv(name, value)
	}
	s := Postgres(t)
	if dump := s.Dump(t); !strings.Contains(dump, "PostgreSQL database dump complete") {
		t.Errorf("the dump is cut short:\n%s", dump)
	}
}

// The cache is read by every test that runs at the same time, so this damages a
// cache of its own.
func TestDamagedClusterIsMadeAnew(t *testing.T) {
	s := Postgres(t) // skips where there is none
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	cache, err := newClusterCache(s.bin, s.owner)
	if err != nil {
		t.Fatal(err)
	}
	use := func(damage string) {
		t.Helper()
		fresh, err := StartPostgres(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		if got := query(t, fresh.URL(), tables); got != "0" {
			t.Errorf("%s: %s tables", damage, got)
		}
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	}
	control := filepath.Join(cache.dataPath(), "global", "pg_control")
	use("absent")
	if err := os.WriteFile(control, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	use("a file overwritten, the size kept")
	if err := os.Remove(cache.sumPath()); err != nil {
		t.Fatal(err)
	}
	use("a rebuild cut short")
}

func TestPostgresInADirectory(t *testing.T) {
	parent := t.TempDir()
	if err := os.Chmod(filepath.Dir(parent), 0o755); err != nil { // the user that Postgres runs as has to reach it
		t.Fatal(err)
	}
	s, err := StartPostgresIn(t.Context(), parent)
	need(t, err)
	defer func() { closed(t, s.Close()) }()
	if !strings.HasPrefix(s.data(), parent) || query(t, s.AdminURL(), "SELECT current_setting('data_directory')") != s.data() {
		t.Errorf("the cluster is in %s", s.data())
	}
}
