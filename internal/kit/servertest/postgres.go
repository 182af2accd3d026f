package servertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/tools/ensure/locate"
)

// PostgresServer is a private Postgres with a cluster of its own.
type PostgresServer struct {
	server
	bin       string // directory of the programs
	owner     owner
	databases atomic.Int64
	shared    bool     // shared by tests, each of which removes its databases
	env       []string // in addition to the owner's environment
	keptDir   string   // directory of a cluster that stays; "": the cluster is in the place
}

// Postgres starts a private Postgres for one test, as [StartPostgres] does, and closes it
// afterwards.
func Postgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	return PostgresIn(t, fastTempDir(), settings...)
}

// PostgresIn is Postgres with the cluster in a new directory under parent. Every user must be able
// to reach parent.
func PostgresIn(t testing.TB, parent string, settings ...string) *PostgresServer {
	t.Helper()
	s, err := startPostgres(t.Context(), parent, (*PostgresServer).makeCluster, settings)
	return closeAfterTest(t, s, err)
}

// StartPostgres starts a server with one empty database and returns when the server answers. The
// server does not wait for its disk, unless settings (each name=value) change that. ctx bounds the
// wait. If ctx has no deadline, making the cluster and starting the server may each take as long as
// [Patience]. The error is a *locate.Missing if Postgres is not installed. The caller must Close
// the server.
func StartPostgres(ctx context.Context, settings ...string) (*PostgresServer, error) {
	return startPostgres(ctx, fastTempDir(), (*PostgresServer).makeCluster, settings)
}

// KeepPostgres starts a server whose cluster is in the directory dir, and returns when the server
// answers. KeepPostgres makes the cluster if there is none. The cluster stays after Close, and the
// server runs with fsync. If this process runs as root, Postgres runs as another user, who must be
// able to reach dir.
func KeepPostgres(ctx context.Context, dir string) (*PostgresServer, error) {
	fill := func(s *PostgresServer, ctx context.Context) error {
		s.keptDir, s.stopSignal = dir, syscall.SIGINT // after SIGQUIT, the next start would be a recovery
		return s.makeKeptCluster(ctx)
	}
	return startPostgres(ctx, fastTempDir(), fill, []string{"fsync=on", "full_page_writes=on"})
}

// startPostgres starts a server in a new directory under parent. fill makes the server's cluster.
func startPostgres(ctx context.Context, parent string, fill func(*PostgresServer, context.Context) error,
	settings []string,
) (*PostgresServer, error) {
	bin, err := locate.Postgres.Find()
	if err != nil {
		return nil, err
	}
	o, err := postgresOwner()
	if err != nil {
		return nil, err
	}
	place, err := claimIn(parent)
	if err != nil {
		return nil, err
	}
	// SIGQUIT: the server forwards it to its children and waits for them. After SIGKILL, the
	// children would stay for a while, and the server could not start again.
	s := &PostgresServer{server: server{place: place, stopSignal: syscall.SIGQUIT}, bin: bin, owner: o}
	s.probe = func(ctx context.Context) error { return execute(ctx, s.URL(), "SELECT 1") }
	s.command = func() *exec.Cmd {
		cmd := o.command(place.dir, filepath.Join(bin, "postgres"), s.args(settings)...)
		cmd.Env = append(cmd.Env, s.env...)
		return cmd
	}
	if err := fill(s, ctx); err != nil {
		return nil, errors.Join(err, place.release())
	}
	return s, s.startOrClose(ctx)
}

func (s *PostgresServer) data() string {
	return cmp.Or(s.keptDir, filepath.Join(s.place.dir, "data"))
}

// URL returns the URL of a database that was empty at first, for a role that owns the database and
// is not a superuser. It stays the same through every stop and start.
func (s *PostgresServer) URL() string { return s.url(role, database) }

// AdminURL returns the URL of the same database for a superuser.
func (s *PostgresServer) AdminURL() string { return s.url("postgres", database) }

func (s *PostgresServer) url(user, name string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, s.Addr(), name)
}

// CreateDatabase makes another empty database, which stays until Close, and returns its URL.
func (s *PostgresServer) CreateDatabase(ctx context.Context) (url string, err error) {
	return s.createDatabase(ctx, "template0") // a template must have no connections, and template0 never has any
}

// NewDatabase makes another empty database on the same server and returns its URL. On a shared
// server the database is removed when the test ends.
func (s *PostgresServer) NewDatabase(t testing.TB) string {
	t.Helper()
	return s.createTestDatabase(t, "template0")
}

// Copy makes another database with the contents of the database at url, which must have no
// connection, and returns its URL. On a shared server the database is removed when the test ends.
func (s *PostgresServer) Copy(t testing.TB, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	mustOrSkip(t, err)
	return s.createTestDatabase(t, config.Database)
}

func (s *PostgresServer) createTestDatabase(t testing.TB, template string) string {
	t.Helper()
	url, err := s.createDatabase(t.Context(), template)
	mustOrSkip(t, err)
	if s.shared {
		t.Cleanup(func() { reportError(t, s.dropDatabase(context.Background(), url)) })
	}
	return url
}

func (s *PostgresServer) createDatabase(ctx context.Context, template string) (url string, err error) {
	name := database + strconv.FormatInt(s.databases.Add(1), 10)
	return s.url(role, name), execute(ctx, s.URL(),
		"CREATE DATABASE "+name+" TEMPLATE "+pgx.Identifier{template}.Sanitize()+" STRATEGY FILE_COPY")
}

// dropDatabase removes the database at url, and ends its connections.
func (s *PostgresServer) dropDatabase(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	return execute(ctx, s.AdminURL(), "DROP DATABASE "+pgx.Identifier{config.Database}.Sanitize()+" WITH (FORCE)")
}

// execute runs a statement on a connection of its own.
func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// args returns the server's arguments. By default nothing is synced, since the machine will not
// lose power in a test, and the kernel keeps what a killed process wrote. Shared memory is in the
// cluster's directory, not in /dev/shm, so that a kill leaves nothing there.
func (s *PostgresServer) args(settings []string) []string {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.place.port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=400",
		"fsync=off", "synchronous_commit=on", "full_page_writes=off",
		"max_wal_size=64MB", "dynamic_shared_memory_type=mmap", "log_timezone=UTC",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	return args
}

// Script runs a shell script in a directory, with Postgres's programs in its PATH and environ in
// its environment.
func (s *PostgresServer) Script(t testing.TB, dir, script string, environ ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + s.bin + ":" + os.Getenv("PATH")}, environ...)
	mustOrSkip(t, finish(t.Context(), cmd))
}

// Dump returns everything in the given databases, or in that of URL, as SQL. Note that pg_dump
// writes bytea as hex.
func (s *PostgresServer) Dump(t testing.TB, urls ...string) string {
	t.Helper()
	if len(urls) == 0 {
		urls = []string{s.URL()}
	}
	var all strings.Builder
	for _, url := range urls {
		cmd := s.owner.command(s.place.dir, filepath.Join(s.bin, "pg_dump"), "--dbname="+url)
		cmd.Stdout = &all
		mustOrSkip(t, finish(t.Context(), cmd))
	}
	return all.String()
}
