package sqlgen

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// List is a list of named columns of rows that a statement on Postgres takes. The list yields both:
// what the statement says of them, and an array for each column. The arrays' parameters are named
// after the list and the column, as @u_app.
type List[R any] struct {
	name    string
	columns []listColumn
	values  func(R, *Row)
}

// NewList returns the list name. values writes a row's values, and is called with a sample now.
func NewList[R any](name string, sample R, values func(R, *Row)) List[R] {
	var row Row
	values(sample, &row)
	for i := range row.columns {
		c := &row.columns[i]
		c.parameter = name + "_" + c.name
	}
	return List[R]{name, row.columns, values}
}

// SQL returns the rows as a table, for FROM. It is called by the list's name.
func (l List[R]) SQL() string { return l.table("", "") }

// NumberedSQL is SQL with a further column i, the numbers of the rows, from 1.
func (l List[R]) NumberedSQL() string { return l.table(" WITH ORDINALITY", ", i") }

func (l List[R]) table(with, more string) string {
	return "unnest(" + l.join("@%[2]s::%[3]s[]") + ")" + with + " AS " + l.name + "(" + l.join("%[1]s") + more + ")"
}

// SelectSQL returns the columns as items of a SELECT list, which returns row by row. In FROM,
// Postgres would first copy each array into a table of its own.
func (l List[R]) SelectSQL() string { return l.join("unnest(@%[2]s::%[3]s[]) AS %[1]s") }

// InsertSQL returns the INSERT of the rows into the table of the list's name.
func (l List[R]) InsertSQL() string {
	return "INSERT INTO " + l.name + " (" + l.join("%[1]s") + ")\nSELECT " + l.SelectSQL()
}

// join returns an item for each column, of its name, its parameter and its type.
func (l List[R]) join(item string) string {
	return strings.Join(MapSlice(l.columns, func(c listColumn) string { return fmt.Sprintf(item, c.name, c.parameter, c.of) }), ", ")
}

// Args returns the parameters of a statement that takes these rows.
func (l List[R]) Args(rows []R) map[string]any {
	to := Row{columns: make([]listColumn, len(l.columns))}
	args := make(map[string]any, len(l.columns))
	for i, c := range l.columns {
		c.array = c.array.empty(len(rows))
		to.columns[i], args[c.parameter] = c, c.array
	}
	for _, row := range rows {
		to.next = 0
		l.values(row, &to)
	}
	return args
}

// Row takes the values of a row in the order of the list's columns, each with the column's name.
type Row struct {
	columns []listColumn
	next    int // of columns
}

// listColumn is a column of a list; of is its type in SQL.
type listColumn struct {
	name, parameter, of string
	array               columnArray
}

// Text adds a text.
func (r *Row) Text(name, v string) { add(r, name, "text", pgtype.Text{String: v, Valid: true}) }

// Integer adds an integer.
func (r *Row) Integer(name string, v int) {
	add(r, name, "integer", pgtype.Int8{Int64: int64(v), Valid: true})
}

// Duration adds a bigint, a number of µs.
func (r *Row) Duration(name string, v time.Duration) {
	add(r, name, "bigint", pgtype.Int8{Int64: v.Microseconds(), Valid: true})
}

// Bool adds a boolean.
func (r *Row) Bool(name string, v bool) { add(r, name, "boolean", pgtype.Bool{Bool: v, Valid: true}) }

// Time adds a timestamptz, NULL for the zero time.
func (r *Row) Time(name string, v time.Time) {
	add(r, name, "timestamptz", pgtype.Timestamptz{Time: v, Valid: !v.IsZero()})
}

// UUID adds a uuid.
func (r *Row) UUID(name string, v uuid.UUID) {
	add(r, name, "uuid", pgtype.UUID{Bytes: v, Valid: true})
}

// Bytes adds a bytea, NULL for nil.
func (r *Row) Bytes(name string, v []byte) { add(r, name, "bytea", byteSlice(v)) }

// add adds a value. The first row makes the columns.
func add[T any](r *Row, name, of string, v T) {
	if r.next == len(r.columns) {
		r.columns = append(r.columns, listColumn{name: name, of: of, array: &array[T]{}})
	}
	a := r.columns[r.next].array.(*array[T])
	a.values = append(a.values, v)
	r.next++
}

// column adds a field of a table's row, as parameterValue returns it.
func (r *Row) column(c store.Column) {
	switch x := c.Field.(type) {
	case *string:
		r.Text(c.Name, *x)
	case *[]string:
		r.Text(c.Name, strings.Join(*x, store.RuleSeparator))
	case *int:
		r.Integer(c.Name, *x)
	case *time.Duration:
		r.Duration(c.Name, *x)
	case *bool:
		r.Bool(c.Name, *x)
	case *time.Time:
		r.Time(c.Name, *x)
	case *uuid.UUID:
		add(r, c.Name, "uuid", pgtype.UUID{Bytes: *x, Valid: c.Flags&store.NullableColumn == 0 || *x != uuid.Nil})
	case *recipient.Hash:
		r.Bytes(c.Name, x[:])
	case *[32]byte:
		r.Bytes(c.Name, x[:])
	case *[]byte:
		if *x == nil && c.Flags&store.NullableColumn == 0 {
			r.Bytes(c.Name, []byte{})
		} else {
			r.Bytes(c.Name, *x)
		}
	default:
		panic("store: " + c.Name + " has a type that no column has")
	}
}

// array has the values of a column, as pgx takes an array: by pointers, since pgx would copy each
// element of a []T to the heap.
type array[T any] struct {
	values    []T
	dimension [1]pgtype.ArrayDimension
}

type columnArray interface {
	pgtype.ArrayGetter
	empty(length int) columnArray // an array of this type
}

func (*array[T]) empty(length int) columnArray { return &array[T]{values: make([]T, 0, length)} }

// Dimensions implements pgtype.ArrayGetter.
func (a *array[T]) Dimensions() []pgtype.ArrayDimension {
	a.dimension[0] = pgtype.ArrayDimension{Length: int32(len(a.values)), LowerBound: 1}
	return a.dimension[:]
}

// Index implements pgtype.ArrayGetter.
func (a *array[T]) Index(i int) any { return &a.values[i] }

// IndexType implements pgtype.ArrayGetter.
func (*array[T]) IndexType() any { return new(T) }

// byteSlice is a bytea.
type byteSlice []byte

// BytesValue implements pgtype.BytesValuer.
func (b byteSlice) BytesValue() ([]byte, error) { return b, nil }
