package store

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"sendcode/internal/kit/servertest"
)

func TestSupportReferenceVector(t *testing.T) {
	id := uuid.MustParse("019a9f3e-5c00-7abc-8def-0123456789ff") // second 1763608255 since 1970, Tail 0x1ff
	servertest.Same(t, "reference", SupportReference(id), "S-2RJM-PZZZ")
	for _, spelt := range []string{"S-2RJM-PZZZ", "s-2rjm-pzzz", "S2RJMPZZZ", " S – 2RJM PZZZ "} {
		want, _ := supportRangeOfID(id)
		got, ok := ParseSupportReference(spelt)
		servertest.Same(t, spelt, ok && got == want, true)
	}
	for _, bad := range []string{"", "S", "S-2RJM-PZZ", "S-2RJM-PZZZZ", "2RJM-PZZZ", "S-2RJM-PZZU", "S-2RJM-PZZé", "order S-2RJM-PZZZ"} {
		servertest.Same(t, bad, IsSupportReference(bad), false)
	}
	for typed, meant := range map[string]string{"S-O1IL-0000": "S-0111-0000", "s-ilo0-oooo": "S-1100-0000"} {
		got, ok := ParseSupportReference(typed)
		want, _ := ParseSupportReference(meant)
		servertest.Same(t, typed, ok && got == want, true)
	}
	for _, none := range []uuid.UUID{
		uuid.Nil, uuid.Max, uuid.MustParse("019a9f3e-5c00-4abc-8def-0123456789ff"),
		uuid.MustParse("01000000-0000-7abc-8def-0123456789ff"),
	} {
		servertest.Same(t, none.String(), SupportReference(none), "")
	}
}

// The reference of every send is parsed back to its second, and the range of IDs contains the
// send's.
func TestSupportReferencesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id uuid.UUID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		copy(id[:6], []byte{0x01, rapid.ByteRange(0x70, 0xff).Draw(t, "years")}) // from 2020 on
		id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
		text := SupportReference(id)
		r, ok := ParseSupportReference(text)
		if !ok || len(text) != 11 {
			t.Fatalf("%s gives %q", id, text)
		}
		from, to := r.IDRange()
		if id.String() < from.String() || id.String() >= to.String() || len(r.FilterInPlace([]SendOrRefusal{{Send: Send{ID: id}}})) != 1 {
			t.Fatalf("%s, %q, is not between %s and %s", id, text, from, to)
		}
		id[15] ^= 1
		if SupportReference(id) == text || len(r.FilterInPlace([]SendOrRefusal{{Send: Send{ID: id}}})) != 0 {
			t.Fatalf("%s has the reference of its neighbour", id)
		}
	})
}
