package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// What is asked of one recipient reads its rows and not those of the others, however little the planner knows of the month: where it is
// new, where it was analysed empty, and where its statistics are from a time when there was one recipient; on connections from before it
// grew, and on others. Each entry of an index that was read is counted by the server.
func TestPostgresReadsOneRecipientsRows(t *testing.T) {
	address := newDatabase(t)
	admin := connect(t, address)
	for round, prepare := range []string{`SELECT`, `ANALYZE`, `SELECT`, `ANALYZE`} {
		exec(t, admin, prepare)
		log := storetest.Must(Open(t.Context(), address, ""))(t)
		f := storetest.NewFixture(log).Numbered(uint64(round) << 16)
		in := f.Intent(round+1, storetest.WithRules(storetest.Rule(1000, time.Hour)))
		in.Verification.Holder = "s:1"
		begun := f.Admit(t, in)
		askOfRecipient(t, f, begun, 12) // connections choose their plans here
		exec(t, admin, `
INSERT INTO sends (id, status, logged_at, verification_id, number, app, channel, purpose, recipient, masked, domain, country, prefix, locale, reference, ip, attempt, counts, taken_at, clock)
SELECT `+randomID+`, 'sent', logged_at, verification_id, number, app, channel, purpose, decode(md5(n::text), 'hex'), masked, domain, country, prefix, locale, reference, ip, attempt, counts, taken_at, clock
FROM (SELECT * FROM sends LIMIT 1) s, generate_series(1, 5000) n`)
		later := storetest.Must(Open(t.Context(), address, ""))(t)
		for name, log := range map[string]*DB{"before": log, "after": later} {
			before := entriesRead(t, admin, log)
			const rounds = 12
			askOfRecipient(t, storetest.NewFixture(log), begun, rounds)
			if read := entriesRead(t, admin, log) - before; read < rounds || read > 30*rounds {
				t.Errorf("after %s, planned %s it grew: %d entries were read for %d rounds", prepare, name, read, rounds)
			}
			storetest.OK(t, log.Close())
		}
		exec(t, admin, `DELETE FROM sends`)
		exec(t, admin, `VACUUM sends`)
	}
}

// askOfRecipient makes each request that reads the sends of a recipient.
func askOfRecipient(t *testing.T, f *storetest.Fixture, begun store.Begun, rounds int) {
	t.Helper()
	s := begun.Send
	bucket := store.Bucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: []string{s.Purpose}}
	for range rounds {
		storetest.Must2(f.History(t.Context(), bucket, time.Hour))(t)
		_, err := f.Newest(t.Context(), store.HolderQuery{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purpose: s.Purpose, Holder: "s:1"})
		storetest.OK(t, err)
		storetest.Must3(f.Verification(t.Context(), begun.Verification.ID))(t)
		storetest.Must(f.Story(t.Context(), s.ID))(t)
		storetest.Must(f.Latest(t.Context(), []recipient.Hash{s.Recipient}, time.Hour))(t)
	}
}

// entriesRead is how many entries of the indexes of sends were read so far, once the connections of the log have reported theirs.
func entriesRead(t *testing.T, admin *pgx.Conn, log *DB) (n int64) {
	t.Helper()
	for _, c := range log.pool.AcquireAllIdle(t.Context()) {
		storetest.Must(c.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`))(t)
		c.Release()
	}
	exec(t, admin, `SELECT pg_stat_clear_snapshot()`)
	storetest.OK(t, admin.QueryRow(t.Context(), `SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname LIKE 'sends%'`).Scan(&n))
	return n
}
