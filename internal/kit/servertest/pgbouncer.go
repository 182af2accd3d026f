package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sendcode/tools/ensure/locate"
)

// PgBouncerServer is a private PgBouncer in front of a private Postgres.
type PgBouncerServer struct {
	*server
	config func(*PostgresServer) string // writes the file of settings, and returns its name
}

// PgBouncer starts a private PgBouncer for one test, and closes it afterwards. settings, each
// name=value, change the defaults of PgBouncer, which admits the role of [PostgresServer.URL] and
// the superuser.
func PgBouncer(t testing.TB, postgres *PostgresServer, settings ...string) *PgBouncerServer {
	t.Helper()
	own, program := newServer(t, locate.PgBouncer, syscall.SIGKILL)
	users := own.place.write(t, "users.txt", `"`+role+"\" \"\"\n\"postgres\" \"\"\n")
	s := &PgBouncerServer{own, func(postgres *PostgresServer) string {
		return own.place.write(t, "pgbouncer.ini", fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n"+
			"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n%s\n",
			postgres.place.port, own.place.port, users, strings.Join(settings, "\n")))
	}}
	ini := s.config(postgres)
	mustOrSkip(t, errors.Join(postgres.owner.give(s.place.dir), postgres.owner.give(users), postgres.owner.give(ini)))
	// PgBouncer refuses to run as root, as Postgres does.
	s.command = func() *exec.Cmd { return postgres.owner.command(s.place.dir, program, ini) }
	s.probe = func(ctx context.Context) error { return execute(ctx, s.Through(postgres.URL()), "SELECT 1") }
	return closeAfterTest(t, s, s.startOrClose(t.Context()))
}

// LeadTo makes PgBouncer connect to another Postgres.
func (s *PgBouncerServer) LeadTo(postgres *PostgresServer) error {
	s.config(postgres)
	return s.signal(syscall.SIGHUP)
}

// Through returns the URL with PgBouncer's address in place of that of Postgres.
func (s *PgBouncerServer) Through(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return ""
	}
	u.Host = s.Addr()
	return u.String()
}
