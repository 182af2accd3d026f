package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

func TestSQLiteMemory(t *testing.T) { storetest.Run(t, newSQLiteMemory) }

func newSQLiteMemory(t *testing.T) *storetest.Fixture {
	clock := &storetest.TestClock{At: storetest.Epoch}
	log := storetest.Must(OpenMemory(clock.Now))(t)
	t.Cleanup(func() { storetest.OK(t, log.Close()) })
	return storetest.NewFixture(log).Beside(log).Clocked(storetest.Epoch, clock.Step)
}

func TestFaults(t *testing.T) {
	f := newSQLiteMemory(t)
	log := f.DB.(*DB)
	fault := None
	var asked []string
	log.SetFault(func(method string) Fault { asked = append(asked, method); return fault })

	fault = Down
	in := f.Intent(1)
	_, err := f.Begin(t.Context(), in)
	storetest.Is(t, err, store.ErrUnavailable)
	if errors.Is(err, store.ErrUncertain) {
		t.Errorf("down, but %v", err)
	}
	_, err = f.Sends(t.Context(), store.Filter{Limit: 1})
	storetest.Is(t, err, store.ErrUnavailable)
	fault = None
	storetest.Equal(t, "rows while down", len(f.All(t)), 0)

	fault = Lost
	begun, err := f.Begin(t.Context(), in)
	storetest.Is(t, err, store.ErrUnavailable)
	storetest.Is(t, err, store.ErrUncertain)
	storetest.Equal(t, "answer", begun, store.Begun{})
	fault = None
	storetest.Equal(t, "rows written all the same", len(f.All(t)), 1)
	storetest.Equal(t, "repeated", f.MustBegin(t, in).Admitted, true)
	_, err = f.Cancel(t.Context(), "none") // through several functions of the log's own
	storetest.OK(t, err)
	storetest.Equal(t, "calls", asked, []string{"Begin", "Sends", "Sends", "Begin", "Sends", "Begin", "Cancel"})

	log.SetFault(nil)
	fault = Down
	storetest.OK(t, f.Ping(t.Context()))
}

// Two logs in memory are apart, and an interrupted read does not end one, though its connection is the database.
func TestSQLiteMemoryStays(t *testing.T) {
	f, other := newSQLiteMemory(t), newSQLiteMemory(t)
	f.Admit(t, f.Intent(1))
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		_, err := f.Sends(ctx, store.Filter{Limit: 1})
		cancel()
		if i == 0 {
			storetest.Is(t, err, store.ErrUnavailable)
		}
	}
	storetest.Equal(t, "rows", len(f.All(t)), 1)
	storetest.Equal(t, "rows of another log", len(other.All(t)), 0)
}

// In a bubble time is the bubble's, and with Close everything ends that the log started: the bubble would wait for it.
func TestSQLiteMemoryInABubble(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		log := storetest.Must(OpenMemory(time.Now))(t)
		began := time.Now()
		storetest.Must(log.AcquireLease(t.Context(), "turn", time.Hour))(t)
		time.Sleep(time.Hour)
		storetest.Equal(t, "an hour later", storetest.Must(log.AcquireLease(t.Context(), "turn", time.Hour))(t), true)
		storetest.Equal(t, "the log's clock", storetest.Must(log.StorageStatus(t.Context(), 0))(t).Now.Sub(began), time.Hour)
		storetest.OK(t, log.Close())
		storetest.Is(t, log.Ping(t.Context()), store.ErrUnavailable)
	})
}
