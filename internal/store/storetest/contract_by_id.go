package storetest

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

func sendsByID(t *testing.T, f *Fixture) {
	var ids []uuid.UUID
	var want []store.Send
	for n := range 3 {
		s := f.Admit(t, f.Intent(n)).Send
		f.MustFinish(t, store.Outcome{Held: store.Held{ID: s.ID, Attempt: 1}, Status: store.Sent}, true)
		if n > 0 {
			ids, want = append(ids, s.ID), append(want, f.Row(t, s.ID))
		}
	}
	got, err := f.SendsByID(t.Context(), append(ids, uuid.UUID{1}))
	OK(t, err)
	slices.SortFunc(got, store.ByLogged)
	Equal(t, "rows", got, want)
	for n, fine := range map[int]bool{0: true, 1000: true, 1001: false} {
		got, err := f.SendsByID(t.Context(), make([]uuid.UUID, n))
		if !fine {
			Is(t, err, store.ErrBadRequest)
			continue
		}
		OK(t, err)
		Equal(t, "rows that there are not", len(got), 0)
	}
}
