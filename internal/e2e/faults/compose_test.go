package faults

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/parts"
	"sendcode/internal/parts/locate"
)

const deploy = "../../../deploy"

// asComposed is a stack on what compose.yaml starts: Redis by its script, Postgres with its two roles, migrated by the owner.
func asComposed(t *testing.T) *apptest.Stack {
	t.Helper()
	s := apptest.OnRealParts(t)
	s.Env["SENDCODE_DATA_DIR"] = "compose_test.go/data" // below a file: as little can be written as in a read-only container
	withoutDatabase(t, s.Postgres)
	runSQL(t, s.Postgres, filepath.Join(deploy, "postgres", "roles.sql"), "DATABASE_OWNER_PASSWORD=owner1", "DATABASE_APP_PASSWORD=app1")
	s.Env["SENDCODE_REDIS_URL"] = redisByScript(t, "redis1")
	s.Env["SENDCODE_DATABASE_ROLE"] = "sendcode_app"
	s.Env["SENDCODE_DATABASE_URL"] = loginURL(t, s.Postgres.URL(), "sendcode_owner", "owner1")
	if err := app.Migrate(t.Context(), s.Config()); err != nil {
		t.Fatal(err)
	}
	s.Env["SENDCODE_DATABASE_URL"] = loginURL(t, s.Postgres.URL(), "sendcode_app", "app1")
	return s
}

// withoutDatabase makes room for the database that roles.sql makes.
func withoutDatabase(t *testing.T, s *parts.PostgresServer) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), strings.Replace(s.AdminURL(), "/sendcode?", "/template1?", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	if _, err := admin.Exec(t.Context(), `DROP DATABASE IF EXISTS sendcode`); err != nil {
		t.Fatal(err)
	}
}

func loginURL(t *testing.T, raw, user, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(user, password), "/sendcode"
	return u.String()
}

// runSQL runs a file as the image of Postgres does at its first start.
func runSQL(t *testing.T, s *parts.PostgresServer, file string, env ...string) {
	t.Helper()
	bin, err := locate.Postgres().Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "psql"), "--no-psqlrc", "--dbname", strings.Replace(s.AdminURL(), "/sendcode?", "/template1?", 1), "--file", file)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// redisByScript runs the script and returns the URL of its user.
func redisByScript(t *testing.T, password string) string {
	t.Helper()
	port := strconv.Itoa(parts.FreePort(t))
	cmd := exec.Command("sh", filepath.Join(deploy, "redis", "start.sh"), "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir())
	cmd.Env = append(os.Environ(), "REDIS_PASSWORD="+password)
	p, err := parts.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	address := "redis://sendcode:" + password + "@127.0.0.1:" + port + "/0"
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer func() { _ = c.Close() }()
	(&apptest.Stack{T: t}).Await("Redis", func() bool {
		select {
		case <-p.Done():
			t.Fatal("redis-server ended: ", p.Wait(t.Context()))
		default:
		}
		return c.Ping(t.Context()).Err() == nil
	})
	return address
}

// What compose.yaml starts carries the service, with no superuser and no open Redis in it.
func TestComposedPartsCarryTheService(t *testing.T) {
	t.Parallel()
	s := asComposed(t).Start(2)
	a := s.Ask(0, apptest.Ana)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	if refused := s.Ask(1, apptest.Ana); refused.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a second one: %d", refused.StatusCode)
	}
	if checked := s.Check(1, a.ID, code); !checked.Valid {
		t.Errorf("the code: %d %s", checked.StatusCode, checked.Raw)
	}
	if ready := s.Do(0, http.MethodGet, "/readyz", ""); string(ready.Raw) != "ok" {
		t.Errorf("/readyz says %s", ready.Raw)
	}
	for _, what := range []string{"redis", "refused_by_log", "permission"} {
		if strings.Contains(s.Printed.String(), `"level":"WARN","msg":"`+what) || strings.Contains(s.Printed.String(), "NOPERM") {
			t.Errorf("the log speaks of %s", what)
		}
	}
	var out strings.Builder
	if err := doctor.Examine(t.Context(), s.Config(), &out); err != nil || strings.Contains(out.String(), "! acts") || strings.Contains(out.String(), "! redis") {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
}

func TestComposedRolesAreNoSuperusers(t *testing.T) {
	t.Parallel()
	s := asComposed(t)
	admin, err := pgx.Connect(t.Context(), s.Postgres.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	var roles, mighty, open int
	err = admin.QueryRow(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls), count(*) FILTER (WHERE rolpassword IS NULL)
FROM pg_authid WHERE rolname IN ('sendcode_owner', 'sendcode_app')`).Scan(&roles, &mighty, &open)
	if err != nil || roles != 2 || mighty != 0 || open != 0 {
		t.Errorf("%d roles, %d of them mighty, %d without a password, %v", roles, mighty, open, err)
	}
	app, err := pgx.Connect(t.Context(), s.Env["SENDCODE_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close(t.Context()) }()
	for _, statement := range []string{`DELETE FROM acts`, `CREATE TABLE mine (id int)`, `ALTER TABLE acts DISABLE TRIGGER ALL`} {
		if _, err := app.Exec(t.Context(), statement); err == nil {
			t.Errorf("the service's role may %s", statement)
		}
	}
}

func TestComposedRedisIsClosed(t *testing.T) {
	t.Parallel()
	if _, err := locate.Redis().Find(); err != nil {
		var missing *locate.Missing
		if errors.As(err, &missing) {
			t.Skip(err)
		}
	}
	options, err := redis.ParseURL(redisByScript(t, "redis1"))
	if err != nil {
		t.Fatal(err)
	}
	closed := func(user, password string, args ...any) {
		options := *options
		options.Username, options.Password = user, password
		c := redis.NewClient(&options)
		defer func() { _ = c.Close() }()
		if err := c.Do(t.Context(), args...).Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("%q may %v", user, args)
		}
	}
	closed("", "", "PING")
	closed("sendcode", "wrong", "PING")
	for _, command := range [][]any{{"FLUSHALL"}, {"CONFIG", "SET", "dir", "/"}, {"KEYS", "*"}, {"ZADD", "another", 1, "x"}, {"SET", "sendcode", 1}, {"ACL", "LIST"}} {
		closed("sendcode", "redis1", command...)
	}
}
