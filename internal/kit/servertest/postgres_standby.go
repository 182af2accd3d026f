package servertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Standby starts a standby of the server for one test, and closes it afterwards. It returns when
// the server's commits wait for the standby. After the standby is promoted, its own commits wait
// for no standby.
func (s *PostgresServer) Standby(t testing.TB) *PostgresServer {
	t.Helper()
	standby, err := startPostgres(t.Context(), fastTempDir(), func(standby *PostgresServer, ctx context.Context) error {
		primary := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", s.place.port)
		return errors.Join(s.owner.give(standby.place.dir), finish(ctx, s.owner.command(standby.place.dir,
			filepath.Join(s.bin, "pg_basebackup"), "-D", standby.data(), "-d", primary, "-R", "-C", "-S", "standby", "-c", "fast")))
	}, []string{"wal_retrieve_retry_interval=200ms"})
	closeAfterTest(t, standby, err)
	mustOrSkip(t, execute(t.Context(), s.AdminURL(), "ALTER SYSTEM SET synchronous_standby_names = walreceiver"))
	mustOrSkip(t, execute(t.Context(), s.AdminURL(), "SELECT pg_reload_conf()"))
	Await(t, "the standby to be synchronous", func() bool {
		return execute(t.Context(), s.AdminURL(), "SELECT 1 / count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == nil
	})
	return standby
}

// Receiver returns the process that receives the primary's log, or 0.
func (s *PostgresServer) Receiver(ctx context.Context) (pid int) {
	conn, err := pgx.Connect(ctx, s.AdminURL())
	if err != nil {
		return 0
	}
	defer conn.Close(ctx)
	_ = conn.QueryRow(ctx, "SELECT pid FROM pg_stat_wal_receiver").Scan(&pid) // without a row, no process receives
	return pid
}

// Promote makes the standby a primary.
func (s *PostgresServer) Promote(ctx context.Context) error {
	return execute(ctx, s.AdminURL(), "SELECT pg_promote()")
}
