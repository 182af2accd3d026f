package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/tools/ensure/locate"
)

// PgBouncerServer is a private PgBouncer in front of a private Postgres.
type PgBouncerServer struct{ server }

// PgBouncer starts a private PgBouncer for one test, and closes it afterwards. All is as it comes
// but for settings, each name=value. It lets in the role of [PostgresServer.URL] and the superuser.
func PgBouncer(t testing.TB, postgres *PostgresServer, settings ...string) *PgBouncerServer {
	t.Helper()
	program := found(t, locate.PgBouncer)
	place, err := claim()
	need(t, err)
	ini, users := filepath.Join(place.dir, "pgbouncer.ini"), filepath.Join(place.dir, "users.txt")
	text := fmt.Sprintf(
		"[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n%s\n",
		postgres.place.port, place.port, users, strings.Join(settings, "\n"))
	need(t, errors.Join(
		os.WriteFile(users, []byte(`"`+role+"\" \"\"\n\"postgres\" \"\"\n"), 0o600),
		os.WriteFile(ini, []byte(text), 0o600),
		postgres.owner.give(place.dir), postgres.owner.give(users), postgres.owner.give(ini)))
	s := &PgBouncerServer{server{place: place, last: syscall.SIGKILL}}
	// it refuses root, as Postgres does
	s.command = func() *exec.Cmd { return postgres.owner.command(place.dir, program, ini) }
	s.probe = func(ctx context.Context) error {
		config, err := pgx.ParseConfig(s.Through(postgres.URL()))
		if err != nil {
			return err
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "SELECT 1")
		return errors.Join(err, conn.Close(ctx))
	}
	return kept(t, s, s.first(t.Context()))
}

// Through is the URL of a database of the same Postgres, by way of PgBouncer.
func (s *PgBouncerServer) Through(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return ""
	}
	u.Host = s.Addr()
	return u.String()
}
