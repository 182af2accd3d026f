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

// Args are the parameters of a statement by their names: "@app" in a statement is Args{"app": …}. Those that the statement does
// not name are left out. "IN (@ids)" takes a list. @now is the log's clock unless it is given.
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

// NumberedArgs returns the parameters of a statement that numbers them from $1, as Conditions does.
func NumberedArgs(values []any) Args {
	args := make(Args, len(values))
	for i, v := range values {
		args[fmt.Sprint(i+1)] = v
	}
	return args
}

// Dialect is what the two databases say differently.
type Dialect struct {
	Now         string              // the log's clock; "": it is a parameter
	Typed       bool                // parameters are written with their types, which have instants and intervals; else those are µs
	Words       map[string]string   // for what stands in double braces
	At          func(time.Time) any // an instant as a parameter
	Failures    string              // the sends s of failures f, each looked up by its key
	Delivered   string              // notes that the send @id was delivered; "": not noted
	Partitioned bool                // sends are, by time
	// Stretch is SQL for the number, since 1970, of the stretch of time that a column's instant lies in, in a zone with that offset.
	Stretch   func(column string, offset, each time.Duration) string
	Instant   func(time.Time) string         // an instant in SQL
	Took      string                         // a number that tells how long a send took, in SQL; times with one number are counted together
	Time      func(took int64) time.Duration // that the number stands for
	Latest    string                         // reads the newest send of each of @recipients; "": the general statement does
	Lock      string                         // waits for the lock named @key until the end of the transaction; "": there is one writer
	LockTries string                         // the same for the failed checks of a recipient
	// Since is a condition on the IDs of sends s that were logged at an instant (SQL) or later, by which partitions are left out.
	Since        func(at string) string
	BeforeErase  []string // what Erase does first in its transaction
	BeforeForget []string // the same for Forget
	BeforeExpire []string // the same for Expire
}

// binding is a statement on its way to a database.
type binding struct {
	*Dialect
	args   Args
	now    time.Time
	text   []byte
	values []any
	places map[string]string // of the parameters that were written before
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
	return v, "" // the driver refuses it
}
