package audit

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/parts"
)

func TestSQLiteMemory(t *testing.T) { runContract(t, newSQLiteMemory) }

func newSQLiteMemory(t *testing.T) *fixture {
	clock := &testClock{at: epoch}
	log, err := OpenSQLiteMemory(clock.now)
	ok(t, err)
	t.Cleanup(func() { ok(t, log.Close()) })
	return newFixture(log).beside(log).clocked(epoch, clock.step)
}

func TestFaults(t *testing.T) {
	f := newSQLiteMemory(t)
	log := f.db.(*SQLite)
	fault := None
	var asked []string
	log.SetFault(func(method string) Fault { asked = append(asked, method); return fault })

	fault = Down
	in := f.intent(1)
	_, err := f.Begin(t.Context(), in)
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("down, but %v", err)
	}
	_, err = f.Sends(t.Context(), Filter{Limit: 1})
	is(t, err, ErrUnavailable)
	fault = None
	equal(t, "rows while down", len(f.all(t)), 0)

	fault = Lost
	begun, err := f.Begin(t.Context(), in)
	is(t, err, ErrUnavailable)
	is(t, err, ErrUncertain)
	equal(t, "answer", begun, Begun{})
	fault = None
	equal(t, "rows written all the same", len(f.all(t)), 1)
	equal(t, "repeated", f.begin(t, in).Admitted, true)
	_, err = f.Cancel(t.Context(), "none") // through several functions of the log's own
	ok(t, err)
	equal(t, "calls", asked, []string{"Begin", "Sends", "Sends", "Begin", "Sends", "Begin", "Cancel"})

	log.SetFault(nil)
	fault = Down
	ok(t, f.Ping(t.Context()))
}

// Two logs in memory are apart, and an interrupted read does not end one, though its connection is the database.
func TestSQLiteMemoryStays(t *testing.T) {
	f, other := newSQLiteMemory(t), newSQLiteMemory(t)
	f.admit(t, f.intent(1))
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		_, err := f.Sends(ctx, Filter{Limit: 1})
		cancel()
		if i == 0 {
			is(t, err, ErrUnavailable)
		}
	}
	equal(t, "rows", len(f.all(t)), 1)
	equal(t, "rows of another log", len(other.all(t)), 0)
}

// In a bubble time is the bubble's, and with Close everything ends that the log started: the bubble would wait for it.
func TestSQLiteMemoryInABubble(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		log, err := OpenSQLiteMemory(time.Now)
		ok(t, err)
		began := time.Now()
		_, err = log.Turn(t.Context(), "turn", time.Hour)
		ok(t, err)
		time.Sleep(time.Hour)
		took, err := log.Turn(t.Context(), "turn", time.Hour)
		ok(t, err)
		equal(t, "an hour later", took, true)
		e, err := log.Extent(t.Context(), 0)
		ok(t, err)
		equal(t, "the log's clock", e.Now.Sub(began), time.Hour)
		ok(t, log.Close())
		is(t, log.Ping(t.Context()), ErrUnavailable)
	})
}

func BenchmarkOpenSQLiteMemory(b *testing.B) {
	for b.Loop() {
		log, err := OpenSQLiteMemory(time.Now)
		if err == nil {
			err = errors.Join(log.Ping(b.Context()), log.Close())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
