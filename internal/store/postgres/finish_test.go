package postgres

import (
	"context"
	"testing"

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
