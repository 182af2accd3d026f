package storetest

import (
	"errors"
	"testing"

	"sendcode/internal/store"
)

// IsFull holds err against what a write on a full disk answers: nothing was written, and why.
func IsFull(t *testing.T, err error) {
	t.Helper()
	Is(t, err, store.ErrUnavailable)
	Is(t, err, store.ErrFull)
	if errors.Is(err, store.ErrUncertain) {
		t.Errorf("nothing was written, yet %v", err)
	}
}

// FillWithSends admits sends until the log takes no more, and says how many it took.
func FillWithSends(t *testing.T, f *Fixture, from, most int) (taken int) {
	t.Helper()
	for n := range most {
		if _, err := f.Begin(t.Context(), f.Intent(from+n)); err != nil {
			IsFull(t, err)
			return n
		}
	}
	t.Fatalf("%d sends fit", most)
	return most
}

// WritableWithRows says that the log takes writes again and has so many rows, none of a Begin that failed.
func WritableWithRows(t *testing.T, f *Fixture, want int) {
	t.Helper()
	OK(t, f.Ping(t.Context()))
	Equal(t, "rows", len(f.All(t)), want)
}
