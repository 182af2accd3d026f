package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/servertest/locate"
)

// PgBouncerServer is a private PgBouncer in front of a private Postgres.
type PgBouncerServer struct {
	place   *place
	process *Process
}

// PgBouncer starts a private PgBouncer for one test, and closes it afterwards. All is as it comes but for settings, each
// name=value. It lets in the role of [PostgresServer.URL] and the superuser.
func PgBouncer(t testing.TB, postgres *PostgresServer, settings ...string) *PgBouncerServer {
	t.Helper()
	s, err := startPgBouncer(t.Context(), postgres, settings)
	need(t, err)
	t.Cleanup(func() { closed(t, s.close()) })
	return s
}

// Through is the URL of a database of the same Postgres, by way of PgBouncer.
func (s *PgBouncerServer) Through(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return ""
	}
	u.Host = s.place.addr()
	return u.String()
}

func startPgBouncer(ctx context.Context, postgres *PostgresServer, settings []string) (_ *PgBouncerServer, err error) {
	program, err := locate.PgBouncer().Find()
	if err != nil {
		return nil, err
	}
	place, err := claim()
	if err != nil {
		return nil, err
	}
	s := &PgBouncerServer{place: place}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.configure(postgres, settings); err != nil {
		return nil, err
	}
	cmd := postgres.owner.command(place.dir, program, s.file("pgbouncer.ini")) // which refuses root, as Postgres does
	s.process, err = place.launch(ctx, cmd, syscall.SIGKILL, func(ctx context.Context) error { return s.ping(ctx, postgres.URL()) })
	return s, err
}

func (s *PgBouncerServer) file(name string) string { return filepath.Join(s.place.dir, name) }

func (s *PgBouncerServer) configure(postgres *PostgresServer, settings []string) error {
	ini := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n%s\n",
		postgres.place.port, s.place.port, s.file("users.txt"), strings.Join(settings, "\n"))
	return errors.Join(
		os.WriteFile(s.file("users.txt"), []byte(`"`+role+"\" \"\"\n\"postgres\" \"\"\n"), 0o600),
		os.WriteFile(s.file("pgbouncer.ini"), []byte(ini), 0o600),
		postgres.owner.give(s.place.dir), postgres.owner.give(s.file("users.txt")), postgres.owner.give(s.file("pgbouncer.ini")))
}

func (s *PgBouncerServer) ping(ctx context.Context, databaseURL string) error {
	config, err := pgx.ParseConfig(s.Through(databaseURL))
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

func (s *PgBouncerServer) close() error {
	if s.process != nil {
		s.process.Kill()
	}
	return s.place.release()
}
