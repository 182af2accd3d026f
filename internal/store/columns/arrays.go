package columns

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Array parameters for Postgres are encoded in this file, since pgx would allocate a slice for each
// array and an interface value for each element. The format is described in
// https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES and by
// array_send in the server's source.

// elementType is the type of an array's elements, by its OID.
type elementType uint32

// The element types that arrays can have.
const (
	Text    elementType = pgtype.TextOID
	UUID    elementType = pgtype.UUIDOID
	Instant elementType = pgtype.TimestamptzOID
	Integer elementType = pgtype.Int4OID
	Bigint  elementType = pgtype.Int8OID
	Boolean elementType = pgtype.BoolOID
	Bytes   elementType = pgtype.ByteaOID
)

// elementTypes has the SQL name of each element type, and the OID of its array type.
var elementTypes = map[elementType]struct {
	name  string
	array uint32
}{
	Text: {"text", pgtype.TextArrayOID}, UUID: {"uuid", pgtype.UUIDArrayOID},
	Instant: {"timestamptz", pgtype.TimestamptzArrayOID},
	Integer: {"integer", pgtype.Int4ArrayOID}, Bigint: {"bigint", pgtype.Int8ArrayOID},
	Boolean: {"boolean", pgtype.BoolArrayOID},
	Bytes:   {"bytea", pgtype.ByteaArrayOID},
}

// elementAppender appends one row's element in Postgres's binary form. It returns nil for NULL.
type elementAppender[R any] func(buf []byte, row R) []byte

// ArrayParameters are the array parameters of a statement: each array has one column of all rows.
type ArrayParameters[R any] struct {
	rows  []R
	lists []arrayParameter[R]
	args  []any
}

// arrayParameter is one array: one element for each row.
type arrayParameter[R any] struct {
	rows    []R
	element elementType
	write   elementAppender[R]
}

// NewArrayParameters returns ArrayParameters for rows, without columns; see Add. It allocates space
// for capacity columns.
func NewArrayParameters[R any](rows []R, capacity int) *ArrayParameters[R] {
	return &ArrayParameters[R]{rows: rows, lists: make([]arrayParameter[R], 0, capacity), args: make([]any, 0, capacity)}
}

// Add adds an array with one element for each row. write appends the elements.
func (a *ArrayParameters[R]) Add(of elementType, write elementAppender[R]) {
	a.lists = append(a.lists, arrayParameter[R]{a.rows, of, write})
	a.args = append(a.args, &a.lists[len(a.lists)-1])
}

// Args returns the arrays as parameters, followed by more.
func (a *ArrayParameters[R]) Args(more ...any) []any { return append(a.args, more...) }

// AppendArray appends the array in Postgres's binary form: one dimension, lower bound 1.
func (l *arrayParameter[R]) AppendArray(buf []byte, element elementType) ([]byte, error) {
	if element != l.element {
		return nil, fmt.Errorf("store: an array of type %d for one of type %d", l.element, element)
	}
	if likely := 20 * (1 + len(l.rows)); cap(buf)-len(buf) < likely {
		buf = slices.Grow(buf, max(likely, cap(buf))) // append alone adds only a quarter to a large buffer
	}
	nulls := len(buf) + 4
	buf = appendInt32(buf, 1, 0, int32(element), int32(len(l.rows)), 1)
	for _, row := range l.rows {
		at := len(buf)
		written := l.write(appendInt32(buf, -1), row)
		if written == nil {
			binary.BigEndian.PutUint32(buf[nulls:], 1)
			buf = appendInt32(buf, -1)
			continue
		}
		buf = written
		binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	}
	return buf, nil
}

func appendInt32(buf []byte, values ...int32) []byte {
	for _, v := range values {
		buf = binary.BigEndian.AppendUint32(buf, uint32(v))
	}
	return buf
}

// AppendInteger appends an integer.
func AppendInteger(buf []byte, v int) []byte { return appendInt32(buf, int32(v)) }

// AppendBigint appends a bigint.
func AppendBigint(buf []byte, v int64) []byte { return binary.BigEndian.AppendUint64(buf, uint64(v)) }

// AppendBoolean appends a boolean.
func AppendBoolean(buf []byte, v bool) []byte {
	if v {
		return append(buf, 1)
	}
	return append(buf, 0)
}

// AppendInstant appends a timestamptz, in µs since 2000. For the zero time it returns nil: NULL.
func AppendInstant(buf []byte, t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	const from = 946_684_800_000_000 // 2000 in µs since 1970
	return AppendBigint(buf, t.UnixMicro()-from)
}

// RegisterArrayCodecs lets connections with this type map accept ArrayParameters as parameters.
func RegisterArrayCodecs(m *pgtype.Map) {
	for element, is := range elementTypes {
		known, ok := m.TypeForOID(is.array)
		codec, isArray := known.Codec.(*pgtype.ArrayCodec)
		if ok && isArray {
			m.RegisterType(&pgtype.Type{Name: known.Name, OID: is.array, Codec: arrayCodec{codec, element}})
		}
	}
}

// arrayCodec is pgx's codec for arrays, except that a value that is an arrayAppender encodes
// itself.
type arrayCodec struct {
	*pgtype.ArrayCodec
	element elementType
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(arrayAppender); ok && format == pgtype.BinaryFormatCode {
		return arrayAppenderPlan{c.element}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type arrayAppender interface {
	AppendArray(buf []byte, element elementType) ([]byte, error)
}

type arrayAppenderPlan struct{ element elementType }

// Encode implements pgtype.EncodePlan.
func (p arrayAppenderPlan) Encode(value any, buf []byte) ([]byte, error) {
	return value.(arrayAppender).AppendArray(buf, p.element)
}
