package apptest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// OnRealParts returns a service on Redis, Postgres and a mail server that requires STARTTLS and a
// password. If [Main] runs the tests, they share a Postgres, on which each test has a database of
// its own.
func OnRealParts(t *testing.T) *Stack {
	t.Helper()
	if !sharing {
		return OnOwnPostgres(t)
	}
	return onParts(t, shared.Server(t), shared.Copy(t, "migrated", func(url string) { migrate(t, url) }))
}

// OnOwnPostgres is OnRealParts for a test that stops Postgres, changes its settings or reads its
// log.
func OnOwnPostgres(t *testing.T) *Stack {
	t.Helper()
	postgres := servertest.Postgres(t)
	return onParts(t, postgres, postgres.URL())
}

// OnDatabase is OnRealParts on a database that the caller started. The Stack has only its URL.
func OnDatabase(t *testing.T, url string) *Stack { t.Helper(); return onParts(t, nil, url) }

var (
	shared  servertest.SharedPostgres
	sharing bool
)

func migrate(t *testing.T, database string) {
	t.Helper()
	cfg, err := config.Load([]string{"SENDCODE_DATABASE_URL=" + database}, os.ReadFile)
	Must(t, err)
	Must(t, commands.Migrate(t.Context(), cfg, io.Discard))
}

func onParts(t *testing.T, postgres *servertest.PostgresServer, database string) *Stack {
	t.Helper()
	s := newStack(t)
	s.Redis, s.Postgres = servertest.Redis(t), postgres
	s.SMTP = smtptest.StartAt(t, servertest.FreePort(t), mailScript())
	for name, value := range map[string]string{
		"DATA_DIR": filepath.Join(t.TempDir(), "data"), "REDIS_URL": s.Redis.URL() + onRedis(),
		"DATABASE_URL":   database + onPostgres(),
		"SMTP_URL":       s.SMTP.URL(),
		"SECRET_KEYS":    "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM=",
		"INDEX_KEY":      "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE=",
		"ADMIN_PASSWORD": "a password for the tests",
	} {
		s.Env["SENDCODE_"+name] = value
	}
	return s
}

// PutOn puts the database, which is still empty, on a small disk: either the file with its keys, or
// the tables of a Postgres that belongs to the test.
func (s *Stack) PutOn(disk *servertest.Disk) *Stack {
	s.Helper()
	if s.Postgres == nil {
		s.Env["SENDCODE_DATA_DIR"] = filepath.Join(disk.Dir, "data")
		return s
	}
	space := filepath.Join(disk.Dir, "space")
	Must(s.T, s.Postgres.MakeDir(space))
	u, err := url.Parse(s.Postgres.URL())
	Must(s.T, err)
	admin, err := pgx.Connect(s.Context(), s.Postgres.AdminURL())
	Must(s.T, err)
	defer admin.Close(context.Background())
	for _, statement := range []string{
		`CREATE TABLESPACE small LOCATION '` + space + `'`, `GRANT CREATE ON TABLESPACE small TO PUBLIC`,
		`ALTER DATABASE ` + pgx.Identifier{u.Path[1:]}.Sanitize() + ` SET default_tablespace = small`,
	} {
		_, err := admin.Exec(s.Context(), statement)
		Must(s.T, err)
	}
	return s
}

// Dump returns all that the database has, as SQL.
func (s *Stack) Dump() string {
	s.Helper()
	// pg_dump does not accept these parameters.
	return s.Postgres.Dump(s.T, strings.TrimSuffix(s.Env["SENDCODE_DATABASE_URL"], onPostgres()))
}

// mailScript returns the script of a mail server that requires STARTTLS and a password.
func mailScript(rules ...smtptest.Rule) smtptest.Script {
	return smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: rules}
}

// MailRules sets the rules by which the mail server answers mails.
func (s *Stack) MailRules(rules ...smtptest.Rule) { s.SMTP.SetScript(mailScript(rules...)) }

// NewCarrier starts a carrier of text messages on loopback. It accepts each message, and answers
// with an id and the status 0.
func NewCarrier(t *testing.T) *httptest.Server {
	t.Helper()
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id": "m1", "status": "0"}`)
	}))
	t.Cleanup(c.Close)
	return c
}
