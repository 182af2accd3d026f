package sqldb

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// An array that writes itself is, to the byte, what pgx writes for a list of the same values.
func TestArraysAreWrittenAsPgxDoes(t *testing.T) {
	m := pgtype.NewMap()
	plain := pgtype.NewMap()
	RegisterArrays(m)
	ids := []uuid.UUID{uuid.Must(uuid.NewV7()), uuid.Nil}
	times := []time.Time{time.UnixMicro(1_700_000_000_123_456).UTC(), {}, time.UnixMicro(-1).UTC()}
	encoded := func(m *pgtype.Map, oid uint32, value any) []byte {
		buf, err := m.Encode(oid, m.FormatCodeForOID(oid), value, []byte("before"))
		if err != nil {
			t.Fatalf("%T: %v", value, err)
		}
		return buf
	}
	same := func(oid uint32, ours, theirs any) {
		t.Helper()
		if got, want := encoded(m, oid, ours), encoded(plain, oid, theirs); !bytes.Equal(got, want) {
			t.Errorf("%T\n%x, want\n%x", theirs, got, want)
		}
		if got, want := encoded(m, oid, theirs), encoded(plain, oid, theirs); !bytes.Equal(got, want) {
			t.Errorf("%T as pgx writes it is another", theirs)
		}
	}
	same(pgtype.TextArrayOID, one([]string{"a", "", "é"}, Text, func(buf []byte, s string) []byte { return append(buf, s...) }),
		[]string{"a", "", "é"})
	same(pgtype.TextArrayOID, one(nil, Text, func(buf []byte, s string) []byte { return append(buf, s...) }), []string{})
	same(pgtype.Int4ArrayOID, one([]int{1, -2}, Integer, AppendInteger), []int32{1, -2})
	same(pgtype.Int8ArrayOID, one([]int64{1 << 40, -2}, Bigint, AppendBigint), []int64{1 << 40, -2})
	same(pgtype.BoolArrayOID, one([]bool{true, false}, Flag, AppendFlag), []bool{true, false})
	same(pgtype.ByteaArrayOID, one([][]byte{{1}, {}, nil}, Bytes, func(buf, b []byte) []byte {
		if b == nil {
			return nil
		}
		return append(buf, b...)
	}), [][]byte{{1}, {}, nil})
	same(pgtype.UUIDArrayOID, one(ids, UUID, AppendMaybeID), []pgtype.UUID{{Bytes: ids[0], Valid: true}, {}})
	var stamps []pgtype.Timestamptz
	for _, at := range times {
		stamps = append(stamps, pgtype.Timestamptz{Time: at, Valid: !at.IsZero()})
	}
	same(pgtype.TimestamptzArrayOID, one(times, Instant, AppendInstant), stamps)
}

func one[R any](rows []R, of Element, write Write[R]) any {
	a := NewArrays(rows, 1)
	a.Add(of, write)
	return a.Args()[0]
}

// An array of one type is refused as one of another, before a byte of it is sent.
func TestArraysAreOfTheirType(t *testing.T) {
	m := pgtype.NewMap()
	RegisterArrays(m)
	if _, err := m.Encode(pgtype.Int8ArrayOID, pgtype.BinaryFormatCode, one([]int{1}, Integer, AppendInteger), nil); err == nil {
		t.Error("an array of integers was sent for one of bigints")
	}
}

// Every column's array is of the type that its statement says.
func TestColumnsAreOfTheirKind(t *testing.T) {
	kinds := map[string]Element{"text": Text, "uuid": UUID, "timestamptz": Instant, "integer": Integer, "bigint": Bigint, "boolean": Flag,
		"bytea": Bytes}
	var columns []string
	for _, c := range SendTable.columns {
		columns = append(columns, fmt.Sprint(c.name, kinds[c.kind] == c.of))
	}
	for _, c := range VerificationTable.columns {
		columns = append(columns, fmt.Sprint(c.name, kinds[c.kind] == c.of))
	}
	if i := slices.IndexFunc(columns, func(s string) bool { return len(s) > 5 && s[len(s)-5:] == "false" }); i >= 0 {
		t.Errorf("%s", columns[i])
	}
}
