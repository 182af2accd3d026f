package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// One send whose row is locked for too long fails alone, and certainly: those that share its round trip are closed.
func TestPostgresOneStuckOutcome(t *testing.T) {
	f, _ := faultFixture(t, shortWait)
	log := f.DB.(*DB)
	var batch []*ending
	for n := range 5 {
		o := store.Outcome{Held: store.Held{ID: f.Admit(t, f.Intent(n)).Send.ID, Attempt: 1}, Status: store.Sent}
		batch = append(batch, newWaiting[store.Outcome, bool](o, sendKey(o.Held)))
	}
	tx := storetest.Must(log.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	storetest.Must(tx.Exec(t.Context(), `SELECT FROM sends WHERE id = $1 FOR UPDATE`, batch[2].in.ID))(t)
	log.finish(batch)
	for n, x := range batch {
		if n == 2 {
			certain(t, x.err)
			continue
		}
		storetest.OK(t, x.err)
		storetest.Equal(t, "finished", x.answer, true)
	}
	storetest.OK(t, tx.Rollback(t.Context()))
	f.MustFinish(t, batch[2].in, true)
}

// Outcomes share round trips: while one waits for a row, those that come meanwhile go together in the next.
func TestPostgresOutcomesShareRoundTrips(t *testing.T) {
	f, _ := faultFixture(t)
	log := f.DB.(*DB)
	sizes := make(chan int, 100)
	log.endings.Run = func(batch []*ending) { sizes <- len(batch); log.finish(batch) }
	tx := storetest.Must(log.pool.Begin(t.Context()))(t)
	first := f.Admit(t, f.Intent(0)).Send.ID
	storetest.Must(tx.Exec(t.Context(), `SELECT FROM sends WHERE id = $1 FOR UPDATE`, first))(t)
	var others []store.Held
	for n := range 20 {
		others = append(others, store.Held{ID: f.Admit(t, f.Intent(1+n)).Send.ID, Attempt: 1})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.End(t, first, store.Outcome{Status: store.Sent})
	}()
	storetest.Equal(t, "first batch", <-sizes, 1)
	go func() {
		eventually(t, func() bool {
			log.endings.mu.Lock()
			defer log.endings.mu.Unlock()
			return len(log.endings.queued) == len(others)
		})
		storetest.OK(t, tx.Rollback(context.Background()))
	}()
	storetest.Together(len(others), func(i int) { f.MustFinish(t, store.Outcome{Held: others[i], Status: store.Sent}, true) })
	<-done
	storetest.Equal(t, "second batch", <-sizes, len(others))
}

// A batch that was just sent runs a statement with no word of failures, refunds or events.
func TestFinishInFullOnlyWhereNeeded(t *testing.T) {
	for sql, full := range map[string]bool{finishSQL: false, finishFullySQL: true} {
		for _, table := range []string{"app_events", "failures", "refunds", "suppressions"} {
			if strings.Contains(sql, table) != full || strings.Contains(sql, "{{more") {
				t.Errorf("%s in the full statement: %v\n%s", table, full, sql)
			}
		}
	}
}

// Plans that were made while the partitions were empty, as on a new database and at the start of each month, read a handful of
// blocks of each index once the partitions are full. A plan lives as long as its connection and nothing renews it before the
// statistics come, so the server's own counts are asked per index: a whole one has hundreds of blocks.
func TestPostgresPlansMadeOnEmptyPartitions(t *testing.T) {
	for name, prepare := range map[string]string{"never analyzed": `SELECT`, "analyzed": `ANALYZE`} {
		t.Run(name, func(t *testing.T) {
			address := newDatabase(t)
			admin := storetest.Must(pgx.Connect(t.Context(), address))(t)
			defer admin.Close(context.Background())
			_, err := admin.Exec(t.Context(), `DO $$ DECLARE name regclass; BEGIN
FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'sends'::regclass LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name); END LOOP; END $$`)
			storetest.OK(t, err)
			storetest.Must(admin.Exec(t.Context(), prepare))(t)
			log := storetest.Must(Open(t.Context(), address, ""))(t)
			f := storetest.NewFixture(log)
			finish := func(in store.Intent, status store.Status) {
				t.Helper()
				held := store.Held{ID: f.Admit(t, in).Send.ID, Attempt: 1}
				storetest.Must(f.Postpone(t.Context(), store.Postponement{Held: held}))(t)
				f.MustFinish(t, store.Outcome{Held: held, Status: status}, true)
			}
			none := store.Held{ID: uuid.Must(uuid.NewV7()), Attempt: 1} // plans without a row
			f.MustFinish(t, store.Outcome{Held: none, Status: store.Sent}, false)
			f.MustFinish(t, store.Outcome{Held: none, Status: store.Sent, Event: f.Telling("send.sent")}, false)
			storetest.Must(f.Postpone(t.Context(), store.Postponement{Held: none}))(t)
			in := f.Intent(1)
			finish(in, store.Sent)
			storetest.Must(admin.Exec(t.Context(), `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, status, reason, attempt, in_doubt, counts, taken_at, clock, logged_at)
SELECT `+randomID+`, verification_id, 0, app, channel, purpose, recipient, masked, domain, country, prefix, locale, 'order 7', ip, 'refused', '', 0, false, false, logged_at, clock, logged_at
FROM sends, generate_series(1, 15000)`))(t)
			before := indexBlocks(t, admin)
			const calls = 20
			for range calls {
				finish(f.Intent(1, storetest.WithRules(storetest.Rule(1000, time.Hour))), store.Sent)
				told := store.Held{ID: f.Admit(t, f.Intent(1, storetest.WithRules(storetest.Rule(1000, time.Hour)))).Send.ID, Attempt: 1}
				f.MustFinish(t, store.Outcome{Held: told, Status: store.Sent, Event: f.Telling("send.sent")}, true)
			}
			storetest.OK(t, log.Close())
			scans(t, admin) // waits until the log's connections have ended and reported
			for index, blocks := range indexBlocks(t, admin) {
				if per := (blocks - before[index]) / calls; per > 60 {
					t.Errorf("%s: %d blocks for each send", index, per)
				}
			}
		})
	}
}

// indexBlocks are the blocks of each index of sends that were read.
func indexBlocks(t *testing.T, admin *pgx.Conn) map[string]int64 {
	t.Helper()
	storetest.Must(admin.Exec(t.Context(), `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`))(t)
	return countsByName(t, admin, `
SELECT s.indexrelname, (s.idx_blks_hit + s.idx_blks_read)::bigint FROM pg_statio_user_indexes s JOIN pg_inherits h ON h.inhrelid = s.relid WHERE h.inhparent = 'sends'::regclass`)
}
