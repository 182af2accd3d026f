package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// Plans that were made while the partitions were empty, as on a new database and at the start of each month, read a handful of
// blocks of each index once the partitions are full. A plan lives as long as its connection and nothing renews it before the
// statistics come, so the server's own counts are asked per index: a whole one has hundreds of blocks.
func TestPostgresPlansMadeOnEmptyPartitions(t *testing.T) {
	for name, prepare := range map[string]string{"never analyzed": `SELECT`, "analyzed": `ANALYZE`} {
		t.Run(name, func(t *testing.T) {
			address := newDatabase(t, parts.Postgres(t))
			admin, err := pgx.Connect(t.Context(), address)
			storetest.OK(t, err)
			defer admin.Close(context.Background())
			_, err = admin.Exec(t.Context(), `DO $$ DECLARE name regclass; BEGIN
FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'sends'::regclass LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name); END LOOP; END $$`)
			storetest.OK(t, err)
			_, err = admin.Exec(t.Context(), prepare)
			storetest.OK(t, err)
			log, err := Open(t.Context(), address)
			storetest.OK(t, err)
			f := storetest.NewFixture(log)
			finish := func(in store.Intent, status store.Status) {
				t.Helper()
				held := store.Held{ID: f.Admit(t, in).Send.ID, Attempt: 1}
				_, err := f.Postpone(t.Context(), store.Postponement{Held: held})
				storetest.OK(t, err)
				f.MustFinish(t, store.Outcome{Held: held, Status: status}, true)
			}
			none := store.Held{ID: uuid.Must(uuid.NewV7()), Attempt: 1} // plans without a row
			f.MustFinish(t, store.Outcome{Held: none, Status: store.Sent}, false)
			f.MustFinish(t, store.Outcome{Held: none, Status: store.Sent, Event: f.Telling("send.sent")}, false)
			_, err = f.Postpone(t.Context(), store.Postponement{Held: none})
			storetest.OK(t, err)
			in := f.Intent(1)
			finish(in, store.Sent)
			_, err = admin.Exec(t.Context(), `
INSERT INTO sends (id, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, status, reason, attempt, in_doubt, counts, taken_at, clock, logged_at)
SELECT `+randomID+`, verification_id, 0, app, channel, purpose, recipient, masked, domain, country, prefix, locale, 'order 7', ip, 'refused', '', 0, false, false, logged_at, clock, logged_at
FROM sends, generate_series(1, 15000)`)
			storetest.OK(t, err)
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
	_, err := admin.Exec(t.Context(), `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`)
	storetest.OK(t, err)
	rows, err := admin.Query(t.Context(), `
SELECT s.indexrelname, (s.idx_blks_hit + s.idx_blks_read)::bigint FROM pg_statio_user_indexes s JOIN pg_inherits h ON h.inhrelid = s.relid WHERE h.inhparent = 'sends'::regclass`)
	storetest.OK(t, err)
	defer rows.Close()
	n := map[string]int64{}
	for rows.Next() {
		var name string
		var blocks int64
		storetest.OK(t, rows.Scan(&name, &blocks))
		n[name] = blocks
	}
	return n
}
