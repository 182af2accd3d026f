package sqlgen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// List makes rows parameters of a statement on Postgres: an array of values for each column, named
// by list and column, as @u_app.
type List[R any] struct {
	name    string
	columns []listColumn
	values  func(R, *Row)
}

// NewList calls values, which writes a row's values, with sample to find the columns.
func NewList[R any](name string, sample R, values func(R, *Row)) List[R] {
	var row Row
	values(sample, &row)
	for i := range row.columns {
		c := &row.columns[i]
		c.parameter = name + "_" + c.name
	}
	return List[R]{name, row.columns, values}
}

// SQL returns a table, for FROM, with the list's name.
func (l List[R]) SQL() string { return l.table("", "") }

// NumberedSQL is SQL with a further column i, the row's number, from 1.
func (l List[R]) NumberedSQL() string { return l.table(" WITH ORDINALITY", ", i") }

func (l List[R]) table(with, more string) string {
	return "unnest(" + l.join("@%[2]s::%[3]s[]") + ")" + with + " AS " + l.name + "(" + l.join("%[1]s") + more + ")"
}

// SelectSQL returns items of a SELECT list that yields the rows one after the other. In FROM,
// Postgres would first copy each array into a table.
func (l List[R]) SelectSQL() string { return l.join("unnest(@%[2]s::%[3]s[]) AS %[1]s") }

// InsertSQL inserts into the table with the list's name.
func (l List[R]) InsertSQL() string {
	return "INSERT INTO " + l.name + " (" + l.join("%[1]s") + ")\nSELECT " + l.SelectSQL()
}

// join formats each column by item, whose arguments are name, parameter and type.
func (l List[R]) join(item string) string {
	return strings.Join(MapSlice(l.columns, func(c listColumn) string { return fmt.Sprintf(item, c.name, c.parameter, c.sqlType) }), ", ")
}

// Args returns the parameters for these rows.
func (l List[R]) Args(rows []R) map[string]any {
	to := Row{columns: slices.Clone(l.columns)}
	args, n := make(map[string]any, len(l.columns)), len(rows)
	values := make([]value, n*len(l.columns))
	for i := range to.columns {
		c := &to.columns[i]
		c.array.values = values[i*n : i*n : (i+1)*n]
		args[c.parameter] = &c.array
	}
	for _, row := range rows {
		to.next = 0
		l.values(row, &to)
	}
	return args
}

// Row collects a row's values in the order of the columns.
type Row struct {
	columns []listColumn
	next    int // the index of the next column
}

// listColumn is a column of a list. of is its type in SQL.
type listColumn struct {
	name, parameter, sqlType string
	array                    array
}

func (r *Row) Text(name, v string) { r.add(name, "text", value{valid: true, text: v}) }

func (r *Row) Integer(name string, v int) {
	r.add(name, "integer", value{valid: true, number: int64(v)})
}

func (r *Row) Bigint(name string, v int64) { r.add(name, "bigint", value{valid: true, number: v}) }

// Duration adds a bigint of µs.
func (r *Row) Duration(name string, v time.Duration) { r.Bigint(name, v.Microseconds()) }

func (r *Row) Bool(name string, v bool) { r.add(name, "boolean", value{valid: true, bool: v}) }

// Time adds a timestamptz, NULL for the zero time.
func (r *Row) Time(name string, v time.Time) {
	r.add(name, "timestamptz", value{valid: !v.IsZero(), number: v.UnixMicro()})
}

// UUID adds a uuid, NULL for the zero UUID.
func (r *Row) UUID(name string, v uuid.UUID) { r.add(name, "uuid", value{valid: v != uuid.Nil, id: v}) }

// Bytes adds a bytea, NULL for nil.
func (r *Row) Bytes(name string, v []byte) { r.add(name, "bytea", value{bytes: v}) }

// add also appends the column if it is missing, as in the Row of NewList.
func (r *Row) add(name, sqlType string, v value) {
	if r.next == len(r.columns) {
		r.columns = append(r.columns, listColumn{name: name, sqlType: sqlType})
	}
	a := &r.columns[r.next].array
	a.values = append(a.values, v)
	r.next++
}

func (r *Row) column(c store.Column) {
	switch x := c.Field.(type) {
	case *string:
		r.Text(c.Name, *x)
	case *[]string:
		r.Text(c.Name, strings.Join(*x, store.ListSeparator))
	case *int:
		r.Integer(c.Name, *x)
	case *time.Duration:
		r.Duration(c.Name, *x)
	case *bool:
		r.Bool(c.Name, *x)
	case *time.Time:
		r.Time(c.Name, *x)
	case *uuid.UUID:
		r.UUID(c.Name, *x)
	case *recipient.Hash:
		r.Bytes(c.Name, x[:])
	case *[]byte:
		bytes := *x
		if bytes == nil && c.Flags&store.NullableColumn == 0 {
			bytes = []byte{}
		}
		r.Bytes(c.Name, bytes)
	default:
		panic("store: " + c.Name + " has a type that no column has")
	}
}

// array gives pgx pointers to the values. From a plain slice, pgx would copy each element to the
// heap.
type array struct {
	values    []value
	dimension [1]pgtype.ArrayDimension
}

// Dimensions implements pgtype.ArrayGetter.
func (a *array) Dimensions() []pgtype.ArrayDimension {
	a.dimension[0] = pgtype.ArrayDimension{Length: int32(len(a.values)), LowerBound: 1}
	return a.dimension[:]
}

// Index implements pgtype.ArrayGetter.
func (a *array) Index(i int) any { return &a.values[i] }

// IndexType implements pgtype.ArrayGetter.
func (*array) IndexType() any { return new(value) }

// value is one value of a column of any type, so that one block of memory holds all values of a
// list. pgx calls the method for the parameter's type.
type value struct {
	valid, bool bool
	number      int64 // or a time in µs since 1970
	id          uuid.UUID
	text        string
	bytes       []byte
}

// TextValue implements pgtype.TextValuer.
func (v *value) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: v.text, Valid: v.valid}, nil
}

// Int64Value implements pgtype.Int64Valuer.
func (v *value) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: v.number, Valid: v.valid}, nil
}

// BoolValue implements pgtype.BoolValuer.
func (v *value) BoolValue() (pgtype.Bool, error) {
	return pgtype.Bool{Bool: v.bool, Valid: v.valid}, nil
}

// TimestamptzValue implements pgtype.TimestamptzValuer.
func (v *value) TimestamptzValue() (pgtype.Timestamptz, error) {
	return pgtype.Timestamptz{Time: time.UnixMicro(v.number), Valid: v.valid}, nil
}

// UUIDValue implements pgtype.UUIDValuer.
func (v *value) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: v.id, Valid: v.valid}, nil
}

// BytesValue implements pgtype.BytesValuer.
func (v *value) BytesValue() ([]byte, error) { return v.bytes, nil }
