package sqldb

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// A stored field is described once, by a tag in package store, for both databases and both directions: its column, how it is read into
// the struct, and how it is written follow from the tag and its type. Statements and their parameters are made from the descriptions.

// inserted says which statements write a column. One that no insert writes has its default until it is changed.
type inserted int

const (
	AsSend  inserted = 1 << iota // by Begin
	AsBlock                      // by Refused
	asRow                        // by what adds a row of another table
)

// column is one field of a T.
type column[T any] struct {
	name string
	row  func(*T) any // its value as a named parameter
	read string       // SQL that reads it, where that is not the column alone; "-": it is not read
	kind string       // its type as a parameter of Postgres
	to   func(*T) any // where it is scanned to
	one  func(*T) any // its value as a parameter of SQLite
	many Write[*T]    // its value in an array of Postgres
	of   Element      // the type of that array's elements
	when inserted
}

// table describes the columns of a table.
type table[T any] struct {
	name    string
	alias   string
	columns []column[T]
}

// tableOf returns the table of struct T, whose tags name the columns. read gives the SQL of columns that are not read as stored;
// derived are columns without a field.
func tableOf[T any](name, alias string, read map[string]string, derived ...column[T]) table[T] {
	t := table[T]{name: name, alias: alias}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		words := strings.Split(f.Tag.Get("column"), ",")
		c := columnOf[T](f, slices.Contains(words, "null"))
		c.name, c.read, c.row = words[0], read[words[0]], rowValue[T](f, slices.Contains(words, "null"))
		for word, by := range map[string]inserted{"send": AsSend, "refusal": AsBlock, "add": asRow} {
			if slices.Contains(words, word) {
				c.when |= by
			}
		}
		t.columns = append(t.columns, c)
	}
	t.columns = append(t.columns, derived...)
	return t
}

// columnOf returns the column of a field by the field's type. With null, the zero value is stored as NULL.
func columnOf[T any](f reflect.StructField, null bool) column[T] {
	switch f.Type {
	case reflect.TypeFor[time.Time]():
		return timeColumn(fieldOf[T, time.Time](f))
	case reflect.TypeFor[time.Duration]():
		return spanColumn(fieldOf[T, time.Duration](f))
	case reflect.TypeFor[[32]byte]():
		return column[T]{to: func(x *T) any { return keyField{fieldOf[T, [32]byte](f)(x)} }}
	case reflect.TypeFor[recipient.Hash]():
		return hashColumn(fieldOf[T, recipient.Hash](f))
	case reflect.TypeFor[[]byte]():
		return bytesColumn(fieldOf[T, []byte](f), null)
	case reflect.TypeFor[[]string]():
		return namesColumn(fieldOf[T, []string](f))
	case reflect.TypeFor[int]():
		return valueColumn(fieldOf[T, int](f), "integer", Integer, AppendInteger)
	case reflect.TypeFor[bool]():
		return valueColumn(fieldOf[T, bool](f), "boolean", Flag, AppendFlag)
	case reflect.TypeFor[uuid.UUID]():
		if null {
			return maybeIDColumn(fieldOf[T, uuid.UUID](f))
		}
		return valueColumn(fieldOf[T, uuid.UUID](f), "uuid", UUID, AppendID)
	}
	return textColumn[T](f)
}

// fieldOf returns a function that gets the address of the field in a row.
func fieldOf[T, F any](f reflect.StructField) func(*T) *F {
	return func(x *T) *F { return valueOf(x, f).Addr().Interface().(*F) }
}

func valueOf[T any](x *T, f reflect.StructField) reflect.Value {
	return reflect.ValueOf(x).Elem().Field(f.Index[0])
}

// selectList returns the columns as a SELECT list, in the order of fields.
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

// destinations returns the destinations to scan the columns of list into.
func (t table[T]) destinations(x *T) []any {
	list := make([]any, 0, len(t.columns))
	for i := range t.columns {
		if t.columns[i].read != "-" {
			list = append(list, t.columns[i].to(x))
		}
	}
	return list
}

// writtenBy returns the columns that the statement writes.
func (t table[T]) writtenBy(by inserted) []column[T] {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column[T]) bool { return c.when&by == 0 })
}

// InsertMany returns the INSERT of several rows in Postgres; Arrays makes its parameters.
func (t table[T]) InsertMany(by inserted) string {
	var names, kinds []string
	for i, c := range t.writtenBy(by) {
		names = append(names, c.name)
		kinds = append(kinds, fmt.Sprintf("$%d::%s[]", i+1, c.kind))
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ")\nSELECT * FROM unnest(" + strings.Join(kinds, ", ") + ")"
}

// Arrays returns the parameters of InsertMany: one array for each column.
func (t table[T]) Arrays(by inserted, rows []*T) []any {
	args := NewArrays(rows, len(t.columns))
	for i := range t.columns {
		if t.columns[i].when&by != 0 {
			args.Add(t.columns[i].of, t.columns[i].many)
		}
	}
	return args.Args()
}

// InsertOne returns the INSERT of one row in SQLite; Values makes its parameters.
func (t table[T]) InsertOne(by inserted) string {
	var names []string
	for _, c := range t.writtenBy(by) {
		names = append(names, c.name)
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
}

// Values returns the parameters of InsertOne.
func (t table[T]) Values(by inserted, row *T) []any {
	var args []any
	for _, c := range t.writtenBy(by) {
		args = append(args, c.one(row))
	}
	return args
}

// add is the INSERT of a row with named parameters, and those.
func (t table[T]) add(row *T) (string, Args) {
	var names []string
	args := Args{}
	for _, c := range t.writtenBy(asRow) {
		names = append(names, c.name)
		args[c.name] = c.row(row)
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (@" + strings.Join(names, ", @") + ")", args
}

// rowValue is the value of a field; NULL for no time, and with null for the zero value.
func rowValue[T any](f reflect.StructField, null bool) func(*T) any {
	null = null || f.Type == reflect.TypeFor[time.Time]()
	return func(x *T) any {
		if v := valueOf(x, f); !null || !v.IsZero() {
			return v.Interface()
		}
		return nil
	}
}

// Each makes one parameter out of one part of every row.
func Each[R, T any](rows []R, part func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = part(r)
	}
	return list
}

// textColumn is the column of a string field, or of a field whose type is based on string.
func textColumn[T any](f reflect.StructField) column[T] {
	return column[T]{
		kind: "text",
		to:   func(x *T) any { return valueOf(x, f).Addr().Interface() },
		one:  func(x *T) any { return valueOf(x, f).String() },
		many: func(buf []byte, x *T) []byte { return append(buf, valueOf(x, f).String()...) }, of: Text,
	}
}

// valueColumn is the column of a type that the drivers read, and SQLite writes, without conversion.
func valueColumn[T, F any](of func(*T) *F, kind string, element Element, write Write[F]) column[T] {
	return column[T]{
		kind: kind,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return *of(x) },
		many: func(buf []byte, x *T) []byte { return write(buf, *of(x)) }, of: element,
	}
}

// timeColumn is the column of an instant; the zero time is NULL.
func timeColumn[T any](of func(*T) *time.Time) column[T] {
	return column[T]{
		kind: "timestamptz",
		to:   func(x *T) any { return TimeField{of(x)} },
		one: func(x *T) any {
			if of(x).IsZero() {
				return nil
			}
			return of(x).UnixMicro()
		},
		many: func(buf []byte, x *T) []byte { return AppendInstant(buf, *of(x)) }, of: Instant,
	}
}

func spanColumn[T any](of func(*T) *time.Duration) column[T] {
	return column[T]{
		kind: "bigint",
		to:   func(x *T) any { return spanField{of(x)} },
		one:  func(x *T) any { return of(x).Microseconds() },
		many: func(buf []byte, x *T) []byte { return AppendBigint(buf, of(x).Microseconds()) }, of: Bigint,
	}
}

func hashColumn[T any](of func(*T) *recipient.Hash) column[T] {
	return column[T]{
		kind: "bytea",
		to:   func(x *T) any { return hashField{of(x)} },
		one:  func(x *T) any { return of(x)[:] },
		many: func(buf []byte, x *T) []byte { return append(buf, of(x)[:]...) }, of: Bytes,
	}
}

// bytesColumn is the column of bytes. nil is stored as NULL if null is set, else as no bytes.
func bytesColumn[T any](of func(*T) *[]byte, null bool) column[T] {
	value := func(x *T) []byte {
		if null {
			return *of(x)
		}
		return nonNil(*of(x))
	}
	return column[T]{
		kind: "bytea",
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return value(x) },
		many: func(buf []byte, x *T) []byte {
			if value(x) == nil {
				return nil
			}
			return append(buf, value(x)...)
		}, of: Bytes,
	}
}

// nonNil returns an empty slice for nil, since the column does not allow NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// maybeIDColumn is the column of an ID; the nil UUID is NULL.
func maybeIDColumn[T any](of func(*T) *uuid.UUID) column[T] {
	return column[T]{
		kind: "uuid",
		to:   func(x *T) any { return maybeIDField{of(x)} },
		one:  func(x *T) any { return orNull(*of(x)) },
		many: func(buf []byte, x *T) []byte { return AppendMaybeID(buf, *of(x)) }, of: UUID,
	}
}

// namesColumn is the column of a list of names, stored as one text with commas.
func namesColumn[T any](of func(*T) *[]string) column[T] {
	return column[T]{
		kind: "text",
		to:   func(x *T) any { return namesField{of(x)} },
		one:  func(x *T) any { return strings.Join(*of(x), store.Comma) },
		many: func(buf []byte, x *T) []byte { return append(buf, strings.Join(*of(x), store.Comma)...) }, of: Text,
	}
}

// derivedColumn is a text column that is computed from other fields, written by every insert for its index, and never read.
func derivedColumn[T any](name string, of func(*T) string) column[T] {
	return column[T]{
		name: name, kind: "text", when: AsSend | AsBlock, read: "-",
		one:  func(x *T) any { return of(x) },
		many: func(buf []byte, x *T) []byte { return append(buf, of(x)...) }, of: Text,
	}
}
