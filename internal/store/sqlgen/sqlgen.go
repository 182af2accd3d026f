// Package sqlgen makes SQL and parameters from the columns of a type: SELECT lists with their scan
// destinations, INSERTs, and lists of rows as parameters on Postgres.
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

type column struct {
	store.Column
	read string // SQL that reads it
}

type Table[T any] struct {
	Name    string
	fields  func(*T) []store.Column
	columns []column // in the order of fields
}

// New takes the alias of the table in queries, the method Columns of T and, by column, SQL for
// those that queries don't read as stored.
func New[T any](name, alias string, fields func(*T) []store.Column, read map[string]string) Table[T] {
	t := Table[T]{Name: name, fields: fields}
	for _, c := range fields(new(T)) {
		t.columns = append(t.columns, column{Column: c, read: cmp.Or(read[c.Name], alias+"."+c.Name)})
	}
	return t
}

// AsRefusals returns the table refusals with the columns of t, so that one query can read both.
// Columns that refusals lacks are read as read says, else as zero.
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

// zeroSQL takes a field's address.
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

// SelectList returns the columns in the order of Destinations.
func (t Table[T]) SelectList() string {
	var list []string
	for _, c := range t.columns {
		if c.Flags&store.WriteOnlyColumn == 0 {
			list = append(list, c.read+" AS "+c.Name)
		}
	}
	return strings.Join(list, ", ")
}

// Destinations returns where to scan the columns of SelectList.
func (t Table[T]) Destinations(x *T) []any {
	list := make([]any, 0, len(t.columns))
	for _, c := range t.fields(x) {
		if c.Flags&store.WriteOnlyColumn == 0 {
			list = append(list, scanDestination(c))
		}
	}
	return list
}

// List returns a list with the columns that have one of the flags.
func (t Table[T]) List(flags store.ColumnFlags) List[*T] {
	return NewList(t.Name, new(T), func(row *T, to *Row) {
		for _, c := range t.fields(row) {
			if c.Flags&flags != 0 {
				to.column(c)
			}
		}
	})
}

// InsertSQL returns the INSERT of the columns with one of the flags, and its parameters.
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

// EraseSetList returns assignments that replace masked by store.ErasedMask and empty the personal
// columns with one of the flags. @empty is an empty byte string.
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

func MapSlice[R, T any](rows []R, convert func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = convert(r)
	}
	return list
}

func scanDestination(c store.Column) any {
	if _, isID := c.Field.(*uuid.UUID); isID && c.Flags&store.NullableColumn == 0 {
		return c.Field
	}
	return ScannerFor(c.Field)
}

// parameterValue returns nil (NULL) for the zero time and, if the column is nullable, for the zero
// UUID and nil bytes.
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
		return strings.Join(*x, store.ListSeparator)
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
