//go:build nightly

package outages

import (
	"context"
	"errors"
	"io"
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

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/app/doctor"
	"sendcode/internal/run/commands"
	"sendcode/tools/ensure/locate"
)

const deploy = "../../../../deploy"

// asComposed returns a stack on the parts that compose.postgres.yaml starts: Redis with its script,
// and Postgres with two roles, migrated by the owner.
func asComposed(t *testing.T) *apptest.Stack {
	t.Helper()
	s := apptest.OnOwnPostgres(t)
	// This directory would be below a file, so as little can be written as in a read-only
	// container.
	s.Env["SENDCODE_DATA_DIR"] = "compose_test.go/data"
	template := strings.Replace(s.Postgres.AdminURL(), "/sendcode?", "/template1?", 1)
	admin, err := pgx.Connect(t.Context(), template)
	apptest.Must(t, err)
	_, err = admin.Exec(t.Context(), `DROP DATABASE IF EXISTS sendcode`) // roles.sql makes this database
	apptest.Must(t, errors.Join(err, admin.Close(t.Context())))
	bin, err := locate.Postgres.Find()
	apptest.Must(t, err)
	cmd := exec.Command(filepath.Join(bin, "psql"), "--no-psqlrc", "--dbname", template, "--file",
		filepath.Join(deploy, "postgres", "roles.sql"))
	cmd.Env = append(os.Environ(), "DATABASE_OWNER_PASSWORD_FILE="+inFile(t, "owner1"), "DATABASE_APP_PASSWORD_FILE="+inFile(t, "app1"))
	if out, err := cmd.CombinedOutput(); err != nil { // the image of Postgres runs roles.sql at the first start, too
		t.Fatalf("%v\n%s", err, out)
	}
	s.Env["SENDCODE_REDIS_URL"] = redisByScript(s, "redis1")
	s.Env["SENDCODE_DATABASE_ROLE"] = "sendcode_app"
	s.Env["SENDCODE_DATABASE_URL"] = loginURL(t, s.Postgres.URL(), "sendcode_owner", "owner1")
	apptest.Must(t, commands.Migrate(t.Context(), s.Config(), io.Discard))
	s.Env["SENDCODE_DATABASE_URL"] = loginURL(t, s.Postgres.URL(), "sendcode_app", "app1")
	return s
}

// inFile returns the name of a file that holds a secret.
func inFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	apptest.Must(t, os.WriteFile(name, []byte(secret+"\n"), 0o600))
	return name
}

func loginURL(t *testing.T, raw, user, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	apptest.Must(t, err)
	u.User, u.Path = url.UserPassword(user, password), "/sendcode"
	return u.String()
}

// redisByScript runs deploy/redis/start.sh and returns the URL of the user that it makes.
func redisByScript(s *apptest.Stack, password string) string {
	s.Helper()
	port := strconv.Itoa(servertest.FreePort(s))
	cmd := exec.Command("sh", filepath.Join(deploy, "redis", "start.sh"), "--bind", "127.0.0.1", "--port", port, "--dir", s.TempDir())
	cmd.Env = append(os.Environ(), "REDIS_PASSWORD_FILE="+inFile(s.T, password))
	p, err := servertest.Run(cmd)
	apptest.Must(s.T, err)
	s.Cleanup(p.Kill)
	address := "redis://sendcode:" + password + "@127.0.0.1:" + port + "/0"
	options, err := redis.ParseURL(address)
	apptest.Must(s.T, err)
	c := redis.NewClient(options)
	defer c.Close()
	s.Await("Redis", func() bool { return c.Ping(s.Context()).Err() == nil })
	return address
}

// The parts that compose.postgres.yaml starts suffice for the service. Neither role of Postgres
// that the scripts make is a superuser, and Redis requires a password.
func TestComposedPartsCarryTheService(t *testing.T) {
	t.Parallel()
	s := asComposed(t).Start(2)
	a := s.Ask(0, apptest.Ana)
	s.Is("a send", a, http.StatusAccepted)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	s.Is("a second one", s.Ask(1, apptest.Ana), http.StatusTooManyRequests)
	s.Approves(1, a.ID, code)
	s.AwaitReady(0, 200, "ok")
	for _, what := range []string{
		`"level":"WARN","msg":"Redis`, `"level":"WARN","msg":"refused_by_database`,
		`"level":"WARN","msg":"permission`, "NOPERM",
	} {
		if s.Logged(what) {
			t.Errorf("the log speaks of %s", what)
		}
	}
	var out strings.Builder
	if err := doctor.Examine(t.Context(), s.Config(), &out); err != nil || strings.Contains(out.String(), "! acts") ||
		strings.Contains(out.String(), "! redis") {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
	admin, err := pgx.Connect(t.Context(), s.Postgres.AdminURL())
	apptest.Must(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	var roles, privileged, open int // open counts users without a password
	err = admin.QueryRow(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls), count(*) FILTER (WHERE rolpassword IS NULL)
FROM pg_authid WHERE rolname IN ('sendcode_owner', 'sendcode_app')`).Scan(&roles, &privileged, &open)
	if err != nil || roles != 2 || privileged != 0 || open != 0 {
		t.Errorf("%d roles, %d of them mighty, %d without a password, %v", roles, privileged, open, err)
	}
	options, err := redis.ParseURL(s.Env["SENDCODE_REDIS_URL"])
	apptest.Must(t, err)
	closed := func(user, password string, args ...any) {
		options := *options
		options.Username, options.Password = user, password
		c := redis.NewClient(&options)
		defer c.Close()
		if err := c.Do(t.Context(), args...).Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("%q may %v", user, args)
		}
	}
	closed("", "", "PING")
	closed("sendcode", "wrong", "PING")
	for _, command := range [][]any{
		{"FLUSHALL"},
		{"CONFIG", "SET", "dir", "/"},
		{"KEYS", "*"},
		{"ZADD", "another", 1, "x"},
		{"SET", "sendcode", 1},
		{"ACL", "LIST"},
	} {
		closed("sendcode", "redis1", command...)
	}
}
