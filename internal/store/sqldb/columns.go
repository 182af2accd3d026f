package sqldb

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// A stored field is described once, for both databases and both directions: its column, how it is read into the struct, and how it
// is written. Statements and their parameters are made from the descriptions.

// inserted says which statements write a column. One that no insert writes has its default until it is changed.
type inserted int

const (
	never   inserted = 0
	AsSend  inserted = 1 << iota // by Begin
	AsBlock                      // by Refused
	inserts = AsSend | AsBlock
)

// column is one field of a T.
type column[T any] struct {
	name string
	read string            // SQL that reads it, where that is not the column alone; "-": it is not read
	kind string            // its type as a parameter of Postgres
	to   func(*T) any      // where it is scanned to
	one  func(*T) any      // its value as a parameter of SQLite
	many func(xs []*T) any // the values of several rows as an array of Postgres
	when inserted
}

// as replaces how the column is read.
func (c column[T]) as(sql string) column[T] { c.read = sql; return c }

// table describes the columns of a table.
type table[T any] struct {
	name    string
	alias   string
	columns []column[T]
}

// list is what is selected of the table, in the order of fields.
func (t table[T]) list() string {
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

// fields are where list is scanned to.
func (t table[T]) fields(x *T) []any {
	list := make([]any, 0, len(t.columns))
	for i := range t.columns {
		if t.columns[i].read != "-" {
			list = append(list, t.columns[i].to(x))
		}
	}
	return list
}

func (t table[T]) written(by inserted) []column[T] {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column[T]) bool { return c.when&by == 0 })
}

// InsertMany is the INSERT of several rows in Postgres, whose parameters are arrays.
func (t table[T]) InsertMany(by inserted) string {
	var names, kinds []string
	for i, c := range t.written(by) {
		names = append(names, c.name)
		kinds = append(kinds, fmt.Sprintf("$%d::%s[]", i+1, c.kind))
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ")\nSELECT * FROM unnest(" + strings.Join(kinds, ", ") + ")"
}

// Arrays are the parameters of insertMany.
func (t table[T]) Arrays(by inserted, rows []*T) []any {
	args := make([]any, 0, len(t.columns))
	for i := range t.columns {
		if t.columns[i].when&by != 0 {
			args = append(args, t.columns[i].many(rows))
		}
	}
	return args
}

// InsertOne is the INSERT of a row in SQLite.
func (t table[T]) InsertOne(by inserted) string {
	var names []string
	for _, c := range t.written(by) {
		names = append(names, c.name)
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
}

// Values are the parameters of insertOne.
func (t table[T]) Values(by inserted, row *T) []any {
	var args []any
	for _, c := range t.written(by) {
		args = append(args, c.one(row))
	}
	return args
}

// Each makes one parameter out of one part of every row.
func Each[R, T any](rows []R, part func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = part(r)
	}
	return list
}

func textColumn[T any, S ~string](name string, of func(*T) *S, when inserted) column[T] {
	return column[T]{
		name: name, kind: "text", when: when,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return string(*of(x)) },
		many: func(xs []*T) any { return Each(xs, func(x *T) string { return string(*of(x)) }) },
	}
}

func numberColumn[T any](name string, of func(*T) *int, when inserted) column[T] {
	return column[T]{
		name: name, kind: "integer", when: when,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return *of(x) },
		many: func(xs []*T) any { return Each(xs, func(x *T) int32 { return int32(*of(x)) }) },
	}
}

func flagColumn[T any](name string, of func(*T) *bool, when inserted) column[T] {
	return column[T]{
		name: name, kind: "boolean", when: when,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return *of(x) },
		many: func(xs []*T) any { return Each(xs, func(x *T) bool { return *of(x) }) },
	}
}

// timeColumn is an instant; NULL is the zero time.
func timeColumn[T any](name string, of func(*T) *time.Time, when inserted) column[T] {
	return column[T]{
		name: name, kind: "timestamptz", when: when,
		to: func(x *T) any { return TimeField{of(x)} },
		one: func(x *T) any {
			if of(x).IsZero() {
				return nil
			}
			return Micros(*of(x))
		},
		many: func(xs []*T) any {
			return Each(xs, func(x *T) pgtype.Timestamptz { return pgtype.Timestamptz{Time: *of(x), Valid: !of(x).IsZero()} })
		},
	}
}

func spanColumn[T any](name string, of func(*T) *time.Duration, when inserted) column[T] {
	return column[T]{
		name: name, kind: "bigint", when: when,
		to:   func(x *T) any { return spanField{of(x)} },
		one:  func(x *T) any { return of(x).Microseconds() },
		many: func(xs []*T) any { return Each(xs, func(x *T) int64 { return of(x).Microseconds() }) },
	}
}

func hashColumn[T any](name string, of func(*T) *recipient.Hash, when inserted) column[T] {
	return column[T]{
		name: name, kind: "bytea", when: when,
		to:   func(x *T) any { return hashField{of(x)} },
		one:  func(x *T) any { return of(x)[:] },
		many: func(xs []*T) any { return Each(xs, func(x *T) []byte { return of(x)[:] }) },
	}
}

// bytesColumn is NOT NULL unless null says that nil is NULL.
func bytesColumn[T any](name string, of func(*T) *[]byte, null bool, when inserted) column[T] {
	value := func(x *T) []byte {
		if null {
			return *of(x)
		}
		return nonNil(*of(x))
	}
	return column[T]{
		name: name, kind: "bytea", when: when,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return value(x) },
		many: func(xs []*T) any { return Each(xs, value) },
	}
}

// nonNil is what a column that is not NULL takes.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func idColumn[T any](name string, of func(*T) *uuid.UUID, when inserted) column[T] {
	return column[T]{
		name: name, kind: "uuid", when: when,
		to:   func(x *T) any { return of(x) },
		one:  func(x *T) any { return *of(x) },
		many: func(xs []*T) any { return Each(xs, func(x *T) [16]byte { return *of(x) }) },
	}
}

// maybeIDColumn is an ID; NULL is the nil UUID.
func maybeIDColumn[T any](name string, of func(*T) *uuid.UUID, when inserted) column[T] {
	return column[T]{
		name: name, kind: "uuid", when: when,
		to:  func(x *T) any { return maybeIDField{of(x)} },
		one: func(x *T) any { return knownID(*of(x)) },
		many: func(xs []*T) any {
			return Each(xs, func(x *T) pgtype.UUID { return pgtype.UUID{Bytes: *of(x), Valid: *of(x) != uuid.Nil} })
		},
	}
}

// namesColumn is a list of names, joined by commas.
func namesColumn[T any](name string, of func(*T) *[]string, when inserted) column[T] {
	return column[T]{
		name: name, kind: "text", when: when,
		to:   func(x *T) any { return namesField{of(x)} },
		one:  func(x *T) any { return strings.Join(*of(x), store.Comma) },
		many: func(xs []*T) any { return Each(xs, func(x *T) string { return strings.Join(*of(x), store.Comma) }) },
	}
}

// derivedColumn is a text that is made of other fields, written for its index and not read.
func derivedColumn[T any](name string, of func(*T) string, when inserted) column[T] {
	return column[T]{
		name: name, kind: "text", when: when, read: "-",
		one:  func(x *T) any { return of(x) },
		many: func(xs []*T) any { return Each(xs, of) },
	}
}
