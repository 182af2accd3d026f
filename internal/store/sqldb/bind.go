package sqldb

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// Args are the parameters of a statement by name: "@app" in a statement is replaced by Args{"app": …}. Parameters that the statement does
// not name are ignored. The value for "IN (@ids)" is a slice. Without a value, @now is the log's time.
type Args map[string]any

// date is a day as "2006-01-02".
type date string

// nullIfZero returns nil, which is NULL, for the zero value, else x.
func nullIfZero[T comparable](x T) any {
	var zero T
	if x == zero {
		return nil
	}
	return x
}

// NumberedArgs returns the Args of a statement whose parameters are $1, $2 and so on, as those of Conditions.
func NumberedArgs(values []any) Args {
	args := make(Args, len(values))
	for i, v := range values {
		args[fmt.Sprint(i+1)] = v
	}
	return args
}

// Dialect has the differences between the SQL of the two databases. Its strings are SQL.
type Dialect struct {
	Now         string              // expression for the log's time; "": Tx.Now is passed as a parameter
	Typed       bool                // placeholders have types ("$1::uuid"), and durations are intervals; else durations are numbers of µs
	Words       map[string]string   // replacements of {{word}} in statements
	At          func(time.Time) any // converts an instant to a parameter
	Failures    string              // FROM list of failures f, joined with their sends s
	Delivered   string              // statement to run after the receipt of a delivered send @id was recorded; "": none
	Partitioned bool                // the table sends has partitions by time
	// Stretch returns the expression for the number of the stretch, counted from 1970, that has the column's instant. Stretches have the
	// length each, in a zone with this offset.
	Stretch   func(column string, offset, each time.Duration) string
	Instant   func(time.Time) string         // literal of an instant
	Took      string                         // expression for the delivery time of a send s, as a number; see Time
	Time      func(took int64) time.Duration // the delivery time for a number of Took; in Postgres approximate
	Latest    string                         // statement that reads the newest rows of each of @recipients; "": use the common statement
	Lock      string                         // statement that takes the lock @key until the transaction ends; "": there is only one writer
	LockTries string                         // statement that takes the lock on the checks of a recipient's codes; "": as above
	// Since returns a condition on the IDs of sends s. It holds for all that were logged at the instant (SQL) or later, and lets Postgres
	// skip earlier partitions.
	Since        func(at string) string
	BeforeErase  []string // statements that Erase runs first in its transaction
	BeforeForget []string // the same for Forget
	BeforeExpire []string // the same for Expire
}

// binding is the state of one call of Bind.
type binding struct {
	*Dialect
	args   Args
	now    time.Time
	text   []byte
	values []any
	places map[string]string // placeholders of the parameters that occurred before
}

// Bind returns the statement for the database, each {{word}} replaced by the dialect's SQL and each named parameter by a numbered one, and
// the values of the parameters in the order of their numbers.
func (d *Dialect) Bind(statement string, args Args, now time.Time) (string, []any) {
	b := binding{Dialect: d, args: args, now: now, text: make([]byte, 0, 2*len(statement)), places: map[string]string{}}
	for rest := statement; rest != ""; {
		i := strings.IndexAny(rest, "@${")
		if i < 0 {
			i = len(rest)
		}
		b.text = append(b.text, rest[:i]...)
		rest = b.bindNext(rest[i:])
	}
	return string(b.text), b.values
}

// bindNext handles the parameter or dialect word at the beginning of text: it appends its replacement to the statement and returns the
// text after it.
func (b *binding) bindNext(text string) string {
	if word, rest, ok := strings.Cut(text, "}}"); ok && strings.HasPrefix(word, "{{") {
		b.text = append(b.text, b.Words[word[2:]]...)
		return rest
	}
	if text == "" {
		return ""
	}
	end := 1
	for end < len(text) && (text[end] == '_' || text[end] >= 'a' && text[end] <= 'z' || text[end] >= '0' && text[end] <= '9') {
		end++
	}
	list, ok := b.args[text[1:end]]
	if before, isList := bytes.CutSuffix(b.text, []byte("IN (")); isList && ok && strings.HasPrefix(text[end:], ")") {
		b.text = append(before, b.inList(list)...)
		return text[end+1:]
	}
	b.text = append(b.text, b.parameter(text[:end])...)
	return text[end:]
}

// parameter returns the replacement of a parameter such as "@app". Without a value for it the text stays, and the database rejects
// it.
func (b *binding) parameter(text string) string {
	name := text[1:]
	value, ok := b.args[name]
	switch {
	case !ok && name == "now" && b.Dialect.Now != "":
		return b.Dialect.Now
	case !ok && name == "now":
		value = b.now
	case !ok:
		return text
	}
	if b.places[name] == "" {
		b.places[name] = b.addValue(value)
	}
	return b.places[name]
}

// inList returns the condition that a column equals an element of the list, and adds the list to the values.
func (b *binding) inList(list any) string {
	if b.Typed {
		return "= ANY (" + b.addValue(list) + ")"
	}
	all := reflect.ValueOf(list)
	texts := make([]string, all.Len())
	for i := range texts {
		texts[i] = b.addValue(all.Index(i).Interface())
	}
	return "IN (" + strings.Join(texts, ", ") + ")"
}

// addValue adds a value and returns its placeholder, in Postgres with a type.
func (b *binding) addValue(value any) string {
	v, typeName := b.driverValue(value)
	b.values = append(b.values, v)
	number := strconv.Itoa(len(b.values))
	switch {
	case !b.Typed:
		return "?" + number
	case typeName == "":
		return "$" + number
	}
	return "$" + number + "::" + typeName
}

// driverValue returns a parameter as the driver takes it, and its type in Postgres.
func (d *Dialect) driverValue(v any) (any, string) {
	switch x := v.(type) {
	case nil:
		return nil, ""
	case time.Time:
		return d.At(x), "timestamptz"
	case time.Duration:
		if d.Typed {
			return x, "interval"
		}
		return x.Microseconds(), ""
	case uuid.UUID:
		return x, "uuid"
	case recipient.Hash:
		return x[:], "bytea"
	case [32]byte:
		return x[:], "bytea"
	case []byte:
		return x, "bytea"
	case bool:
		return x, "boolean"
	case date:
		return string(x), "text::date"
	case *string:
		return x, "text"
	case []string:
		return x, "text[]"
	case []uuid.UUID:
		return MapSlice(x, func(id uuid.UUID) [16]byte { return id }), "uuid[]"
	case []recipient.Hash:
		return MapSlice(x, func(h recipient.Hash) []byte { return h[:] }), "bytea[]"
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.String:
		return x.String(), "text"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return x.Int(), "bigint"
	}
	return v, "" // the driver will reject it
}
