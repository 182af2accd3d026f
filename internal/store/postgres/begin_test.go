package postgres

import (
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// A send takes two round trips, one for each half of its transaction. A resend of a holder takes
// three.
func TestPostgresTripsOfBegin(t *testing.T) {
	p, through := newProxy(t, borrowMigrated(t))
	f, _ := fixtureOn(t, through)
	held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	once, twice := storetest.WithRules(storetest.Rule(1, time.Hour)), storetest.WithRules(storetest.Rule(2, time.Hour))
	f.Admit(t, f.Intent(100)) // opens the connections and prepares the statements
	for _, c := range []struct {
		name          string
		trips, number int
		in            store.Intent
	}{
		{"a first send", 2, 1, f.Intent(1, once)},
		{"a second send", 2, 1, f.Intent(1, twice)},
		{"a first send of a holder", 2, 1, f.Intent(2, held, twice)},
		{"a resend of a holder", 3, 2, f.Intent(2, held, twice)},
	} {
		before := p.turns.Load()
		begun := f.MustBegin(t, c.in)
		storetest.Equal(t, "trips of "+c.name, int(p.turns.Load()-before), c.trips)
		storetest.Equal(t, "number of "+c.name, begun.Send.Number, c.number)
	}
}

// If 600 callers send at once through three replicas, each of 40 recipients gets exactly as many
// sends as the rule admits.
func TestPostgresConcurrentBeginsAdmitTheLimit(t *testing.T) {
	const recipients, limit, callers, processes = 40, 7, 600, 3
	url := borrowMigrated(t) + unhurried
	var replicas []*storetest.Fixture
	for n := range processes {
		f, _ := fixtureOn(t, url)
		replicas = append(replicas, f.Numbered(uint64(n+1)<<24))
	}
	var intents []store.Intent
	for i := range callers {
		intents = append(intents, replicas[i%processes].Intent(i%recipients, storetest.WithRules(storetest.Rule(limit, time.Hour))))
	}
	var admitted [recipients]atomic.Int64
	storetest.Together(callers, func(i int) {
		begun, err := replicas[i%processes].Begin(t.Context(), intents[i])
		switch {
		case err != nil:
			t.Error(err)
		case begun.Admitted:
			admitted[i%recipients].Add(1)
		case len(begun.History) != limit:
			t.Errorf("refused after %d", len(begun.History))
		}
	})
	for n := range recipients {
		storetest.Equal(t, "admitted", admitted[n].Load(), limit)
	}
}
