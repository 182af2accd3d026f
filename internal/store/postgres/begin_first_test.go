package postgres

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/storetest"
)

// guessing is a database whose Begins are LikelyFirst, be that right or wrong. It reads the clock of
// tests first, which jumps, so that no guess comes too late.
type guessing struct {
	*DB
	always bool
}

func (g guessing) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	in.LikelyFirst = in.LikelyFirst || g.always
	now, err := g.Clock(ctx)
	if err != nil {
		return store.BeginAnswer{}, err
	}
	g.sawClock(now)
	return g.DB.Begin(ctx, in)
}

// guess makes the databases of a fixture guessing ones.
func guess(f *storetest.Fixture, always bool) *storetest.Fixture {
	for _, db := range []*sqldb.DB{f.DB, f.Replica} {
		db.PerDatabase = guessing{db.Engine.(*DB), always}
	}
	return f
}

// A guess changes no answer and no row, be it right or wrong.
func TestPostgresGuesses(t *testing.T) {
	runContract(t, func(f *storetest.Fixture) *storetest.Fixture { return guess(f, true) },
		"begin", "join", "check", "flight", "suppressed", "reset", "erase", "partitions")
}

func TestPostgresGuessesOnManySteps(t *testing.T) {
	storetest.RunGateSchedule(t, guess(newPostgresFixture(t), true))
}

// A right guess takes one trip, a refusal too; a wrong one costs its own call alone the trip.
func TestPostgresTripsOfGuesses(t *testing.T) {
	p, through := newProxy(t, lentDatabase(t))
	f, db := fixtureOn(t, through)
	likely := func(in *store.Intent) { in.LikelyFirst = true }
	held := func(in *store.Intent) { in.Verification.Holder = "s:1" }
	addressed := func(in *store.Intent) { in.Address = storetest.Address(5) }
	once, twice := storetest.WithRules(storetest.Rule(1, time.Hour)), storetest.WithRules(storetest.Rule(2, time.Hour))
	f.Admit(t, f.Intent(100)) // connected and prepared
	trips := func(name string, want int, in store.Intent) store.BeginAnswer {
		t.Helper()
		before := p.turns.Load()
		begun := f.MustBegin(t, in)
		storetest.Equal(t, "trips of "+name, int(p.turns.Load()-before), want)
		if begun.Admitted {
			storetest.Equal(t, name, f.Row(t, in.Send.ID), storetest.RowOf(begun.Send))
		}
		return begun
	}
	in := f.Intent(1, likely, once)
	first := trips("a first send", 1, in)
	trips("a first send of a holder", 1, f.Intent(2, likely, held, once))
	trips("a send that is not guessed", 2, f.Intent(3, once))
	storetest.Equal(t, "admitted", trips("a refusal", 1, f.Intent(1, likely, once)).Admitted, false)
	trips("a second send", 3, f.Intent(1, likely, twice))
	storetest.Equal(t, "number", trips("a resend of a holder", 4, f.Intent(2, likely, held, twice)).Send.Number, 2)
	trips("a resend by ID", 2, f.Intent(3, likely, storetest.Joining(f.Admit(t, f.Intent(3)).Verification.ID)))
	storetest.Equal(t, "repeated", f.MustBegin(t, in).Repeated, true)
	storetest.Equal(t, "the first send", f.Row(t, in.Send.ID), storetest.RowOf(first.Send))

	// A few failed checks change nothing, and a suppression only the row.
	tried := f.Admit(t, f.Intent(4))
	storetest.Must(f.Check(t.Context(), storetest.Wrong(tried.Verification.ID)))(t)
	f.Ended(t, f.Intent(5), store.Outcome{
		Status: store.Failed, Refund: true, Reason: store.ReasonRejected,
		Suppress: store.NewSuppression{Cause: store.CauseHardBounce, Address: storetest.Address(5), For: time.Hour},
	})
	storetest.Must(db.pool.Exec(t.Context(), `UPDATE sends SET counts = false WHERE id = $1`, tried.Send.ID))(t)
	trips("a send after a failed check", 1, f.Intent(4, likely, once))
	storetest.Equal(t, "suppressed", trips("a suppressed send", 1, f.Intent(5, likely, addressed, once)).Send.Suppression != uuid.Nil, true)

	// A guess that reaches the database when its caller has given up writes nothing, nor does one whose reads assumed
	// another time.
	for n, off := range []time.Duration{-beginTimeout(), beginTimeout() + time.Minute} {
		db.sawClock(time.Now().Add(off))
		trips("a guess at another time", 3, f.Intent(20+n, likely, once))
	}
	storetest.Equal(t, "groups", [2]int{groupOfBegin(f.Intent(8)), groupOfBegin(f.Intent(8, likely))}, [2]int{0, 1})

	batch := []*beginCall{called(t, f.Intent(1, likely, twice)), called(t, f.Intent(7, likely)), called(t, f.Intent(5, likely, twice, addressed))}
	batch[1].In.Verification.ID, batch[2].In.Verification.ID = "v-7", "v-5"
	before := p.turns.Load()
	db.beginBatch(batch)
	storetest.Equal(t, "trips of a batch", int(p.turns.Load()-before), 1)
	for i, want := range []error{nil, nil, errWrongGuess} {
		storetest.Equal(t, "error in a batch", batch[i].Err, want)
	}
	storetest.Equal(t, "admitted", [2]bool{batch[0].Answer.Admitted, batch[1].Answer.Admitted}, [2]bool{false, true})
	storetest.Equal(t, "row", f.Row(t, batch[1].In.Send.ID), storetest.RowOf(batch[1].Answer.Send))
}

// However many guess at once in several processes, no send is over the rules, and all places are given.
func TestPostgresGuessesAtOnce(t *testing.T) {
	const recipients, limit, callers, processes = 4, 7, 600, 3
	url := lentDatabase(t) + unhurried
	var replicas []*storetest.Fixture
	for n := range processes {
		f, _ := fixtureOn(t, url)
		replicas = append(replicas, f.Numbered(uint64(n+1)<<24))
	}
	var intents []store.Intent
	for i := range callers {
		intents = append(intents, replicas[i%processes].Intent(i%recipients, storetest.WithRules(storetest.Rule(limit, time.Hour)),
			func(in *store.Intent) { in.LikelyFirst = i%5 != 0 }))
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
