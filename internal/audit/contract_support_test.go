package audit

import (
	"encoding/binary"
	"fmt"
	"strings"
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
	odd := f.admit(t, f.intent(7, func(in *Intent) {
		at(second+5, 7)(in)
		in.Send.ID[14] = 0x81
	}))
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
	for _, c := range []struct {
		filter Filter
		want   []uuid.UUID
	}{
		{Filter{Support: text}, []uuid.UUID{two.Send.ID, refused.ID, one.Send.ID}},
		{Filter{Support: strings.ToLower(text), Status: Refused}, []uuid.UUID{refused.ID}},
		{Filter{Support: text, App: "shop", Channel: "email"}, []uuid.UUID{two.Send.ID, refused.ID, one.Send.ID}},
		{Filter{Support: text, App: "nobody"}, nil},
		{Filter{Support: SupportReference(odd.Send.ID)}, []uuid.UUID{odd.Send.ID}},
		{Filter{Support: "S-0000-0000"}, nil},
		{Filter{Support: "order 7"}, nil},
	} {
		c.filter.Limit = 10
		list, err := f.Sends(t.Context(), c.filter)
		ok(t, err)
		equal(t, fmt.Sprintf("%+v", c.filter), ids(list), c.want)
	}
	for _, none := range []string{"", "order 7", "S-0000-0000"} {
		rows, err := f.Referenced(t.Context(), none)
		ok(t, err)
		equal(t, none, len(rows), 0)
	}
}
