package sqlgen

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// Values are the values of a row: the name of a column and its value, each.
type Values [][2]any

// List is a list of named columns of rows that a statement on Postgres takes. The list yields both:
// what the statement says of them, and an array for each column. The arrays' parameters are named
// after the list and the column, as @u_app.
type List[R any] struct {
	name    string
	columns []string // names
	arrays  []string // in SQL
	values  func(R) Values
}

// NewList returns the list name, whose values are of the types that they have in a sample of a row.
func NewList[R any](name string, sample R, values func(R) Values) List[R] {
	l := List[R]{name: name, values: values}
	for _, v := range values(sample) {
		l.columns = append(l.columns, v[0].(string))
		l.arrays = append(l.arrays, arrayParameter(name, v[0].(string), sqlType(v[1])))
	}
	return l
}

// SQL returns the rows as a table, for FROM. It is called by the list's name.
func (l List[R]) SQL() string { return l.table("", "") }

// NumberedSQL is SQL with a further column i, the numbers of the rows, from 1.
func (l List[R]) NumberedSQL() string { return l.table(" WITH ORDINALITY", ", i") }

func (l List[R]) table(with, more string) string {
	return "unnest(" + strings.Join(l.arrays, ", ") + ")" + with + " AS " + l.name + "(" + strings.Join(l.columns, ", ") + more + ")"
}

// SelectSQL returns the columns as items of a SELECT list, which returns row by row. In FROM,
// Postgres would first copy each array into a table of its own.
func (l List[R]) SelectSQL() string { return selectArrays(l.arrays, l.columns) }

// Args returns the parameters of a statement that takes these rows.
func (l List[R]) Args(rows []R) map[string]any {
	arrays := make([][]any, len(l.columns))
	for _, row := range rows {
		for i, v := range l.values(row) {
			arrays[i] = append(arrays[i], parameter(v[1]))
		}
	}
	args := map[string]any{}
	for i, name := range l.columns {
		args[l.name+"_"+name] = arrays[i]
	}
	return args
}

func arrayParameter(list, column, of string) string {
	return "@" + list + "_" + column + "::" + of + "[]"
}

func selectArrays(arrays, names []string) string {
	items := make([]string, len(arrays))
	for i := range arrays {
		items[i] = fmt.Sprintf("unnest(%s) AS %s", arrays[i], names[i])
	}
	return strings.Join(items, ", ")
}

// sqlType returns the Postgres type of a value.
func sqlType(value any) string {
	switch value.(type) {
	case time.Time:
		return "timestamptz"
	case time.Duration, int64:
		return "bigint"
	case int:
		return "integer"
	case bool:
		return "boolean"
	case uuid.UUID:
		return "uuid"
	case []byte, [32]byte, recipient.Hash:
		return "bytea"
	}
	return "text"
}

// parameter returns a value as pgx takes it: NULL for nil, a nil byte slice and the zero time, and
// µs for a duration.
func parameter(value any) any {
	switch x := value.(type) {
	case time.Time:
		return NullIfZero(x)
	case time.Duration:
		return x.Microseconds()
	case uuid.UUID:
		return [16]byte(x)
	case recipient.Hash:
		return x[:]
	case [32]byte:
		return x[:]
	}
	if s := reflect.ValueOf(value); s.Kind() == reflect.String {
		return s.String()
	}
	return value
}
