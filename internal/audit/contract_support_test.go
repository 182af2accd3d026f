package audit

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
)

// referenced: sends and refusals of one second and reference are found, oldest first, and no others.
func referenced(t *testing.T, f *fixture) {
	at := func(ms int64, tail byte) func(*Intent) {
		return func(in *Intent) {
			binary.BigEndian.PutUint64(in.Send.ID[:], uint64(ms)<<16|0x7000|uint64(tail)<<4)
			in.Send.ID[15] = tail
		}
	}
	second := (epoch.Unix() + 1) * 1000
	f.admit(t, f.intent(1, at(second-1, 7)))
	one := f.admit(t, f.intent(2, at(second, 7)))
	f.admit(t, f.intent(3, at(second+1, 8)))
	two := f.admit(t, f.intent(4, at(second+999, 7)))
	f.admit(t, f.intent(5, at(second+1000, 7)))
	refused := f.refusal(6, func(s *Send) { s.ID = one.Send.ID; s.ID[5], s.ID[7] = s.ID[5]+9, 1 })
	ok(t, f.Refused(t.Context(), []Send{refused}))

	text := SupportReference(one.Send.ID)
	rows, err := f.Referenced(t.Context(), text)
	ok(t, err)
	var got []uuid.UUID
	for _, s := range rows {
		got = append(got, s.ID)
	}
	equal(t, text, got, []uuid.UUID{one.Send.ID, refused.ID, two.Send.ID})
	equal(t, "row", rows[0], f.row(t, one.Send.ID))
	for _, none := range []string{"", "order 7", "S-0000-0000"} {
		rows, err := f.Referenced(t.Context(), none)
		ok(t, err)
		equal(t, none, len(rows), 0)
	}
}
