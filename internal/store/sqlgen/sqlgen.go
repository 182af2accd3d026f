// Package sqlgen makes SQL and parameters from the columns of a type. It makes SELECT lists with
// their scan destinations, and INSERTs. It also makes lists of rows as parameters of statements on
// Postgres.
package sqlgen

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// column is a column of a table.
type column struct {
	store.Column
	read string // SQL expression that reads it
}

// Table describes the columns of a table.
type Table[T any] struct {
	Name    string
	fields  func(*T) []store.Column
	columns []column // in the order of fields
}

// New returns the description of the table with the given name. The parameter alias is the table's
// alias in queries. The parameter fields is the method Columns of T. The parameter read maps column
// names to SQL expressions, for the columns that queries do not read as they are stored.
func New[T any](name, alias string, fields func(*T) []store.Column, read map[string]string) Table[T] {
	t := Table[T]{Name: name, fields: fields}
	for _, c := range fields(new(T)) {
		t.columns = append(t.columns, column{Column: c, read: cmp.Or(read[c.Name], alias+"."+c.Name)})
	}
	return t
}

// AsRefusals returns the table refusals with the columns of t, so that one query can read both
// tables. The parameter read maps column names to SQL expressions, for columns that the table
// refusals lacks. If such a column has no expression in the map, the query reads a zero value.
func (t Table[T]) AsRefusals(read map[string]string) Table[T] {
	t.Name, t.columns = "refusals", slices.Clone(t.columns)
	for i := range t.columns {
		c := &t.columns[i]
		c.read = cmp.Or(read[c.Name], zeroSQL(c.Field))
		if c.Flags&store.InsertedByRefusal != 0 {
			c.read = "s." + c.Name
		}
	}
	return t
}

// zeroSQL returns the zero value of a field in SQL, given its address.
func zeroSQL(field any) string {
	switch field.(type) {
	case *int, *time.Duration:
		return "0"
	case *bool:
		return "false"
	case *time.Time:
		return "CAST(NULL AS timestamptz)"
	case *uuid.UUID:
		return "CAST(NULL AS uuid)"
	}
	return "''"
}

// SelectList returns the columns as a SELECT list, in the order of Destinations.
func (t Table[T]) SelectList() string {
	var list []string
	for _, c := range t.columns {
		if c.Flags&store.WriteOnlyColumn == 0 {
			list = append(list, c.read+" AS "+c.Name)
		}
	}
	return strings.Join(list, ", ")
}

// Destinations returns the destinations to scan the columns of SelectList into.
func (t Table[T]) Destinations(x *T) []any {
	list := make([]any, 0, len(t.columns))
	for _, c := range t.fields(x) {
		if c.Flags&store.WriteOnlyColumn == 0 {
			list = append(list, scanDestination(c))
		}
	}
	return list
}

// List returns a list of the rows that a statement inserts into the table. The list has the columns
// that have at least one of the flags.
func (t Table[T]) List(flags store.ColumnFlags) List[*T] {
	return NewList(t.Name, new(T), func(row *T, to *Row) {
		for _, c := range t.fields(row) {
			if c.Flags&flags != 0 {
				to.column(c)
			}
		}
	})
}

// InsertSQL returns the INSERT of one row, and the parameters of the INSERT. It inserts the columns
// that have at least one of the flags.
func (t Table[T]) InsertSQL(flags store.ColumnFlags, row *T) (string, map[string]any) {
	var names []string
	args := map[string]any{}
	for _, c := range t.fields(row) {
		if c.Flags&flags != 0 {
			names = append(names, c.Name)
			args[c.Name] = parameterValue(c)
		}
	}
	return "INSERT INTO " + t.Name + " (" + strings.Join(names, ", ") + ") VALUES (@" + strings.Join(names,
		", @") + ")", args
}

// EraseSetList returns the SET list with which an erasure empties the personal columns that have
// one of the flags. Its parameter @empty is an empty byte string.
func (t Table[T]) EraseSetList(flags store.ColumnFlags) string {
	list := []string{"masked = '•••'"}
	for _, c := range t.columns {
		_, isBytes := c.Field.(*[]byte)
		switch {
		case c.Flags&store.PersonalColumn == 0 || c.Flags&flags == 0:
		case c.Flags&store.NullableColumn != 0:
			list = append(list, c.Name+" = NULL")
		case isBytes:
			list = append(list, c.Name+" = @empty")
		default:
			list = append(list, c.Name+" = ''")
		}
	}
	return strings.Join(list, ", ")
}

// MapSlice returns the result of convert for each element of rows.
func MapSlice[R, T any](rows []R, convert func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = convert(r)
	}
	return list
}

// scanDestination returns the destination to scan a field's column into.
func scanDestination(c store.Column) any {
	if _, isID := c.Field.(*uuid.UUID); isID && c.Flags&store.NullableColumn == 0 {
		return c.Field
	}
	return ScannerFor(c.Field)
}

// parameterValue returns the value of a field as a named parameter. It returns nil (NULL) for the
// zero time and, if the column is nullable, for the zero UUID and a nil byte slice.
func parameterValue(c store.Column) any {
	null := c.Flags&store.NullableColumn != 0
	switch x := c.Field.(type) {
	case *string:
		return *x
	case *int:
		return *x
	case *bool:
		return *x
	case *time.Time:
		return NullIfZero(*x)
	case *time.Duration:
		return x.Microseconds()
	case *[]string:
		return strings.Join(*x, store.RuleSeparator)
	case *recipient.Hash:
		return *x
	case *[32]byte:
		return *x
	case *uuid.UUID:
		if null {
			return NullIfZero(*x)
		}
		return *x
	case *[]byte:
		if *x == nil && null {
			return nil
		}
		return append([]byte{}, *x...)
	}
	panic("store: " + c.Name + " has a type that no column has")
}
