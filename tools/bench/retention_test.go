//go:build nightly

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// retentionSQL reads what tells of retention's work: rows of verifications deleted, dead ones that
// no vacuum has taken, vacuums of the table, WAL in bytes, and the share of all statements' time
// that deletions take.
const retentionSQL = `
SELECT v.n_tup_del, v.n_dead_tup, v.autovacuum_count, pg_current_wal_lsn() - '0/0'::pg_lsn,
  (SELECT coalesce(sum(total_exec_time) FILTER (WHERE query ILIKE '%DELETE FROM verifications%'), 0) / sum(total_exec_time) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database())
FROM pg_stat_user_tables v WHERE v.relname = 'verifications'`

// 2,000 sends a second while a ninth of the rows of 90 days (-perf.rows) is due, with autovacuum,
// and with none due. The job begins with the service and looks again at once while rows are due,
// else ten minutes later, so that phase is the first. The test prints what deletion does to the
// sends. It fails if there are rows and none was deleted.
func TestBenchRetention(t *testing.T) {
	b := openRig(t, "autovacuum=on", "checkpoint_timeout=5min")
	root, err := filepath.Abs("../..")
	b.must(err)
	b.run(root, "go", "build", "-buildvcs=false", "-o", b.dir, "./cmd/sendcode")
	settings := filepath.Join(b.dir, "sendcode.yaml")
	keep := func(retention string) { b.must(os.WriteFile(settings, []byte("retention: "+retention+"\n"), 0o600)) }
	keep("1920h")
	b.startService(ours, filepath.Join(b.dir, "sendcode"), "SENDCODE_CONFIG="+settings)
	c := b.contenders[0]
	at := b.admin.Config().Copy()
	at.Database = c.database
	conn, err := pgx.ConnectConfig(t.Context(), at)
	b.must(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
	b.must(err)
	deleted := int64(0)
	for _, phase := range []struct{ name, retention string }{{"a ninth is due", "1920h"}, {"no row is due", "87840h"}} {
		keep(phase.retention)
		b.must(c.process.Signal(syscall.SIGHUP))
		_, err = conn.Exec(t.Context(), "SELECT pg_stat_statements_reset()")
		b.must(err)
		var before, after struct {
			deleted, dead, vacuums int64
			wal, share             float64
		}
		b.must(conn.QueryRow(t.Context(), retentionSQL).Scan(&before.deleted, &before.dead, &before.vacuums, &before.wal, &before.share))
		var waits []float64
		began := time.Now()
		for _, s := range b.open(c, 2000, b.length) {
			waits = append(waits, float64(s.answered.Sub(s.asked))/float64(time.Millisecond))
		}
		took := time.Since(began).Seconds()
		b.must(conn.QueryRow(t.Context(), retentionSQL).Scan(&after.deleted, &after.dead, &after.vacuums, &after.wal, &after.share))
		t.Log(fmt.Sprintf("%s: %.0f sends a second, p50 %.1f ms, p99 %.1f ms", phase.name, float64(len(waits))/took, quantile(waits, .5),
			quantile(waits, .99)),
			fmt.Sprintf("verifications deleted %d, %.1f %% of the statements' time; dead rows %d to %d, %d vacuums; WAL %.1f MB a second",
				after.deleted-before.deleted, 100*after.share, before.dead, after.dead, after.vacuums-before.vacuums,
				(after.wal-before.wal)/took/1e6))
		deleted = max(deleted, after.deleted-before.deleted)
	}
	if deleted == 0 && *prefilled > 0 {
		t.Error("no verification was deleted")
	}
}
