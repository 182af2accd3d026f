package store

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// SupportRange is a parsed support reference, such as S-7K3M-Q2XP, which names a send and is short
// enough to read aloud. It isn't stored but computed from the send's ID, in Crockford's Base32: the
// ID's time in whole seconds since 2020 (31 bits) and its last 9 bits. It reveals nothing of the
// verification's ID, so it doesn't help to check codes. At 100 sends a second, one reference in
// five belongs to two sends, and a search finds both.
type SupportRange struct {
	second int64  // in seconds since 1970
	Tail   uint16 // last 9 bits of the ID
}

const (
	supportReferenceAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	supportReferencePrefix   = "S"
	supportReferenceLength   = 8 // characters of 5 bits, without the prefix
	supportReferenceTailBits = 9
	supportTailMask          = 1<<supportReferenceTailBits - 1
)

// supportEpoch begins the seconds of a reference. 31 bits last until 2088.
var supportEpoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// supportRangeOfID returns false if id can't be a send's.
func supportRangeOfID(id uuid.UUID) (SupportRange, bool) {
	ms := int64(binary.BigEndian.Uint64(id[:]) >> 16) // RFC 9562 section 5.7
	r := SupportRange{second: ms / 1000, Tail: binary.BigEndian.Uint16(id[14:]) & supportTailMask}
	since := r.second - supportEpoch
	return r, id.Version() == 7 && since >= 0 && since < 1<<(5*supportReferenceLength-supportReferenceTailBits)
}

// SupportReference returns the support reference of a send, or "" if id can't be a send's.
func SupportReference(id uuid.UUID) string {
	r, ok := supportRangeOfID(id)
	if !ok {
		return ""
	}
	bits := uint64(r.second-supportEpoch)<<supportReferenceTailBits | uint64(r.Tail)
	var text [supportReferenceLength]byte
	for i := range text {
		text[i] = supportReferenceAlphabet[bits>>(5*(supportReferenceLength-1-i))&31]
	}
	return supportReferencePrefix + "-" + string(text[:4]) + "-" + string(text[4:])
}

// ParseSupportReference accepts what people write: small letters, other dashes or none, O for 0, I
// and L for 1.
func ParseSupportReference(text string) (r SupportRange, ok bool) {
	text = strings.ToUpper(strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '‐', '–', '—', '\u00a0':
			return -1
		}
		return r
	}, text))
	text, ok = strings.CutPrefix(text, supportReferencePrefix)
	if !ok || len(text) != supportReferenceLength {
		return r, false
	}
	var bits uint64
	for _, c := range strings.NewReplacer("O", "0", "I", "1", "L", "1").Replace(text) {
		value := strings.IndexRune(supportReferenceAlphabet, c)
		if value < 0 {
			return r, false
		}
		bits = bits<<5 | uint64(value)
	}
	return SupportRange{second: int64(bits>>supportReferenceTailBits) + supportEpoch, Tail: uint16(bits & supportTailMask)}, true
}

func IsSupportReference(text string) bool {
	_, ok := ParseSupportReference(text)
	return ok
}

// IDRange returns the range of the IDs of all sends in the reference's second. to is exclusive. IDs
// in the range may belong to another reference, so compare Tail too.
func (r SupportRange) IDRange() (from, to uuid.UUID) {
	binary.BigEndian.PutUint64(from[:], uint64(r.second*1000)<<16)
	binary.BigEndian.PutUint64(to[:], uint64((r.second+1)*1000)<<16)
	return from, to
}

// MaxSupportSearchRows bounds the rows of a second that a search reads.
const MaxSupportSearchRows = 20_000

// FilterInPlace returns the rows with the reference. It changes rows.
func (r SupportRange) FilterInPlace(rows []SendOrRefusal) []SendOrRefusal {
	return slices.DeleteFunc(rows, func(s SendOrRefusal) bool {
		own, ok := supportRangeOfID(s.ID)
		return !ok || own != r
	})
}
