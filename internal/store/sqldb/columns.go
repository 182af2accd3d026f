package sqldb

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// The tag of a field in package store and the field's type determine its column and how it is read and written in both databases. The
// SELECT lists, the INSERTs and their parameters are generated from the tags.

// inserted says which INSERTs write a column. A column that an INSERT does not write gets its default.
type inserted int

const (
	AsSend    inserted = 1 << iota // by Begin
	AsRefusal                      // by Refused
	asAdded                        // by the INSERTs of other tables
)

// column is the column of one field of T, or one whose text is computed from several fields; see derived.
type column[T any] struct {
	name  string
	field func(*T) any      // returns the field's address
	null  bool              // the zero value is NULL
	read  string            // SQL expression in the SELECT list; "": the column itself; "-": the column is not read
	of    Element           // type in Postgres
	write AppendElement[*T] // appends the value to an array parameter of Postgres
	when  inserted          // the INSERTs that write it
}

// table describes the columns of a table.
type table[T any] struct {
	name    string
	alias   string
	columns []column[T]
}

// tableOf returns the table of struct T, whose tags name the columns. read gives the SQL of columns that are not read as stored.
func tableOf[T any](name, alias string, read map[string]string) table[T] {
	t := table[T]{name: name, alias: alias}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		words := strings.Split(f.Tag.Get("column"), ",")
		c := column[T]{name: words[0], read: read[words[0]], null: slices.Contains(words, "null"), field: func(x *T) any {
			return reflect.ValueOf(x).Elem().Field(f.Index[0]).Addr().Interface()
		}}
		for word, by := range map[string]inserted{"send": AsSend, "refusal": AsRefusal, "add": asAdded} {
			if slices.Contains(words, word) {
				c.when |= by
			}
		}
		t.add(c)
	}
	return t
}

// derived adds a text column that is computed from other fields, written with each send and refusal for its index, and never read.
func (t table[T]) derived(name string, of func(*T) string) table[T] {
	t.add(column[T]{name: name, read: "-", when: AsSend | AsRefusal, field: func(x *T) any { text := of(x); return &text }})
	return t
}

// refusals returns the table of refusals, which are read as sends. A column that refusals do not have is read as by read, else as its zero
// value.
func (t table[T]) refusals(read map[string]string) table[T] {
	t.name, t.columns = "refusals", slices.Clone(t.columns)
	for i := range t.columns {
		switch c := &t.columns[i]; {
		case c.read == "-":
		case c.when&AsRefusal != 0:
			c.read = ""
		default:
			c.read = cmp.Or(read[c.name], zeros[c.of])
		}
	}
	return t
}

// zeros has the zero value of each type as SQL.
var zeros = map[Element]string{Text: "''", Integer: "0", Bigint: "0", Flag: "false", Instant: "CAST(NULL AS timestamptz)",
	UUID: "CAST(NULL AS uuid)"}

func (t *table[T]) add(c column[T]) {
	c.of = elementOf(c.field(new(T)))
	c.write = func(buf []byte, x *T) []byte { return appendField(buf, c.field(x), c.null) }
	t.columns = append(t.columns, c)
}

// selectList returns the columns as a SELECT list, in the order of destinations.
func (t table[T]) selectList() string {
	var list []string
	for _, c := range t.columns {
		switch c.read {
		case "-":
		case "":
			list = append(list, t.alias+"."+c.name)
		default:
			list = append(list, c.read+" AS "+c.name)
		}
	}
	return strings.Join(list, ", ")
}

// destinations returns the destinations to scan the columns of selectList into.
func (t table[T]) destinations(x *T) []any {
	list := make([]any, 0, len(t.columns))
	for i := range t.columns {
		if c := &t.columns[i]; c.read != "-" {
			list = append(list, destination(c.field(x), c.null))
		}
	}
	return list
}

// InsertMany returns the INSERT of several rows in Postgres; Arrays makes its parameters.
func (t table[T]) InsertMany(by inserted) string {
	var names, types []string
	for _, c := range t.columns {
		if c.when&by != 0 {
			names = append(names, c.name)
			types = append(types, fmt.Sprintf("$%d::%s[]", len(names), elements[c.of].name))
		}
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ")\nSELECT * FROM unnest(" + strings.Join(types, ", ") + ")"
}

// Arrays returns the parameters of InsertMany: one array for each column.
func (t table[T]) Arrays(by inserted, rows []*T) []any {
	args := NewArrays(rows, len(t.columns))
	for i := range t.columns {
		if t.columns[i].when&by != 0 {
			args.Add(t.columns[i].of, t.columns[i].write)
		}
	}
	return args.Args()
}

// Insert returns the INSERT of one row, and its parameters.
func (t table[T]) Insert(by inserted, row *T) (string, Args) {
	var names []string
	args := Args{}
	for i := range t.columns {
		if c := &t.columns[i]; c.when&by != 0 {
			names = append(names, c.name)
			args[c.name] = parameter(c.field(row), c.null)
		}
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (@" + strings.Join(names, ", @") + ")", args
}

// MapSlice returns the results of convert for each row.
func MapSlice[R, T any](rows []R, convert func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = convert(r)
	}
	return list
}

// elementOf returns the type in Postgres of a field, by the field's address.
func elementOf(field any) Element {
	switch field.(type) {
	case *time.Time:
		return Instant
	case *time.Duration:
		return Bigint
	case *int:
		return Integer
	case *bool:
		return Flag
	case *uuid.UUID:
		return UUID
	case *[]byte, *[32]byte, *recipient.Hash:
		return Bytes
	}
	return Text
}

// destination returns what to scan a field's column into.
func destination(field any, null bool) any {
	switch x := field.(type) {
	case *time.Time:
		return TimeField{x}
	case *time.Duration:
		return durationField{x}
	case *[32]byte:
		return keyField{x}
	case *recipient.Hash:
		return hashField{x}
	case *[]string:
		return namesField{x}
	case *uuid.UUID:
		if null {
			return nullIDField{x}
		}
	}
	return field
}

// parameter returns the value of a field as a named parameter; nil, which is NULL, for the zero time and, with null, for a zero value.
func parameter(field any, null bool) any {
	switch x := field.(type) {
	case *time.Time:
		if x.IsZero() {
			return nil
		}
	case *time.Duration:
		return x.Microseconds()
	case *[]string:
		return strings.Join(*x, store.RuleSeparator)
	case *[]byte:
		if *x == nil && !null {
			return []byte{}
		}
	}
	v := reflect.ValueOf(field).Elem()
	if null && v.IsZero() {
		return nil
	}
	return v.Interface()
}

// appendField appends the value of a field in Postgres's binary form. It returns nil, which is NULL, where parameter does.
func appendField(buf []byte, field any, null bool) []byte {
	switch x := field.(type) {
	case *string:
		return append(buf, *x...)
	case *time.Time:
		return AppendInstant(buf, *x)
	case *time.Duration:
		return AppendBigint(buf, x.Microseconds())
	case *int:
		return AppendInteger(buf, *x)
	case *bool:
		return AppendFlag(buf, *x)
	case *recipient.Hash:
		return append(buf, x[:]...)
	case *[]string:
		return append(buf, strings.Join(*x, store.RuleSeparator)...)
	case *[]byte:
		if *x == nil && null {
			return nil
		}
		return append(buf, *x...)
	case *uuid.UUID:
		if *x == uuid.Nil && null {
			return nil
		}
		return append(buf, x[:]...)
	}
	return append(buf, reflect.ValueOf(field).Elem().String()...) // a named string type
}
