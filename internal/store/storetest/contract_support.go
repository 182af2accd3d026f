package storetest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// findBySupportReference: sends and refusals of one second and reference are found, oldest first, and no others.
func findBySupportReference(t *testing.T, f *Fixture) {
	at := func(ms int64, tail byte) func(*store.Intent) {
		return func(in *store.Intent) {
			binary.BigEndian.PutUint64(in.Send.ID[:], uint64(ms)<<16|0x7000|uint64(tail)<<4)
			in.Send.ID[15] = tail
		}
	}
	second := (Epoch.Unix() + 1) * 1000
	f.Admit(t, f.Intent(1, at(second-1, 7)))
	one := f.Admit(t, f.Intent(2, at(second, 7)))
	f.Admit(t, f.Intent(3, at(second+1, 8)))
	two := f.Admit(t, f.Intent(4, at(second+999, 7)))
	f.Admit(t, f.Intent(5, at(second+1000, 7)))
	odd := f.Admit(t, f.Intent(7, func(in *store.Intent) {
		at(second+5, 7)(in)
		in.Send.ID[14] = 0x81
	}))
	refused := f.Refusal(6, func(s *store.Send) { s.ID = one.Send.ID; s.ID[5], s.ID[7] = s.ID[5]+9, 1 })
	OK(t, f.Refused(t.Context(), []store.Send{refused}))

	text := store.SupportReference(one.Send.ID)
	rows := Must(f.Referenced(t.Context(), text))(t)
	var got []uuid.UUID
	for _, s := range rows {
		got = append(got, s.ID)
	}
	Equal(t, text, got, []uuid.UUID{one.Send.ID, refused.ID, two.Send.ID})
	Equal(t, "row", rows[0], f.Row(t, one.Send.ID))
	for _, c := range []struct {
		filter store.Filter
		want   []uuid.UUID
	}{
		{store.Filter{Support: text}, []uuid.UUID{two.Send.ID, refused.ID, one.Send.ID}},
		{store.Filter{Support: strings.ToLower(text), Status: store.Refused}, []uuid.UUID{refused.ID}},
		{store.Filter{Support: text, App: "shop", Channel: "email"}, []uuid.UUID{two.Send.ID, refused.ID, one.Send.ID}},
		{store.Filter{Support: text, App: "unknown"}, nil},
		{store.Filter{Support: store.SupportReference(odd.Send.ID)}, []uuid.UUID{odd.Send.ID}},
		{store.Filter{Support: "S-0000-0000"}, nil},
		{store.Filter{Support: "order 7"}, nil},
	} {
		c.filter.Limit = 10
		Equal(t, fmt.Sprintf("%+v", c.filter), IDs(Must(f.Sends(t.Context(), c.filter))(t)), c.want)
	}
	for _, none := range []string{"", "order 7", "S-0000-0000"} {
		Equal(t, none, len(Must(f.Referenced(t.Context(), none))(t)), 0)
	}
}
