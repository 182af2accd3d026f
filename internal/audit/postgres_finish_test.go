package audit

import (
	"context"
	"strings"
	"testing"

	"sendcode/internal/parts"
)

// One send whose row somebody holds for too long fails alone, and certainly: those that share its round trip are closed.
func TestPostgresOneStuckOutcome(t *testing.T) {
	f, _ := faultFixture(t, parts.Postgres(t), shortWait)
	log := f.db.(*Postgres)
	var batch []*ending
	for n := range 5 {
		o := Outcome{Held: Held{f.admit(t, f.intent(n)).Send.ID, 1}, Status: Sent}
		batch = append(batch, newWaiting[Outcome, bool](o, sendKey(o.Held)))
	}
	tx, err := log.pool.Begin(t.Context())
	ok(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM sends WHERE id = $1 FOR UPDATE`, batch[2].in.ID)
	ok(t, err)
	log.finish(batch)
	for n, x := range batch {
		if n == 2 {
			certain(t, x.err)
			continue
		}
		ok(t, x.err)
		equal(t, "finished", x.answer, true)
	}
	ok(t, tx.Rollback(t.Context()))
	f.finish(t, batch[2].in, true)
}

// Outcomes share round trips: while one waits for a row, those that come meanwhile go together in the next.
func TestPostgresOutcomesShareRoundTrips(t *testing.T) {
	f, _ := faultFixture(t, parts.Postgres(t))
	log := f.db.(*Postgres)
	sizes := make(chan int, 100)
	log.endings.run = func(batch []*ending) { sizes <- len(batch); log.finish(batch) }
	tx, err := log.pool.Begin(t.Context())
	ok(t, err)
	first := f.admit(t, f.intent(0)).Send.ID
	_, err = tx.Exec(t.Context(), `SELECT FROM sends WHERE id = $1 FOR UPDATE`, first)
	ok(t, err)
	var others []Held
	for n := range 20 {
		others = append(others, Held{f.admit(t, f.intent(1+n)).Send.ID, 1})
	}
	done := make(chan struct{})
	go func() { defer close(done); f.finish(t, Outcome{Held: Held{first, 1}, Status: Sent}, true) }()
	equal(t, "first batch", <-sizes, 1)
	go func() {
		eventually(t, func() bool {
			log.endings.mu.Lock()
			defer log.endings.mu.Unlock()
			return len(log.endings.queued) == len(others)
		})
		ok(t, tx.Rollback(context.Background()))
	}()
	together(len(others), func(i int) { f.finish(t, Outcome{Held: others[i], Status: Sent}, true) })
	<-done
	equal(t, "second batch", <-sizes, len(others))
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
