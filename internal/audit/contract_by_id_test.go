package audit

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

func sendsByID(t *testing.T, f *fixture) {
	var ids []uuid.UUID
	var want []Send
	for n := range 3 {
		s := f.admit(t, f.intent(n)).Send
		f.finish(t, Outcome{Held: Held{s.ID, 1}, Status: Sent}, true)
		if n > 0 {
			ids, want = append(ids, s.ID), append(want, f.row(t, s.ID))
		}
	}
	got, err := f.SendsByID(t.Context(), append(ids, uuid.UUID{1}))
	ok(t, err)
	slices.SortFunc(got, byLogged)
	equal(t, "rows", got, want)
	for n, fine := range map[int]bool{0: true, 1000: true, 1001: false} {
		got, err := f.SendsByID(t.Context(), make([]uuid.UUID, n))
		if !fine {
			is(t, err, ErrBadRequest)
			continue
		}
		ok(t, err)
		equal(t, "rows that there are not", len(got), 0)
	}
}
