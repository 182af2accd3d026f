package audit

import (
	"fmt"
	"reflect"
	"regexp"
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

// orNull is NULL for the zero value.
func orNull[T comparable](x T) any {
	var zero T
	if x == zero {
		return nil
	}
	return x
}

// numbered are the parameters of a statement that numbers them, as conditions do.
func numbered(values []any) Args {
	args := make(Args, len(values))
	for i, v := range values {
		args[fmt.Sprint(i+1)] = v
	}
	return args
}

// dialect is what the two databases say differently.
type dialect struct {
	now         string              // the log's clock; "": it is a parameter
	typed       bool                // parameters are written with their types, which have instants and intervals; else those are µs
	words       *strings.Replacer   // for what stands in double braces
	at          func(time.Time) any // an instant as a parameter
	domain      string              // that the masked form shows
	partitioned bool                // sends are, by time
	latest      string              // reads the newest send of each of @recipients; "": the general statement does
	lock        string              // waits for the lock named @key until the end of the transaction; "": there is one writer
	lockTries   string              // the same for the failed checks of a recipient
	// since says of the rows of sends s that none was logged more than slack before an instant, for partitions to be left out by; at is
	// SQL.
	since        func(at string, slack time.Duration) string
	beforeErase  []string // what Erase does first in its transaction
	beforeForget []string // the same for Forget
}

var parameter = regexp.MustCompile(`IN \(@([a-z_]+)\)|[@$]([a-z0-9_]+)`)

// bind writes a statement in the dialect, with its parameters numbered.
func (d *dialect) bind(statement string, args Args, now time.Time) (string, []any) {
	var values []any
	places := map[string]string{}
	place := func(value any, typeName string) string {
		values = append(values, value)
		if !d.typed {
			return fmt.Sprint("?", len(values))
		}
		if typeName == "" {
			return fmt.Sprint("$", len(values))
		}
		return fmt.Sprint("$", len(values), "::", typeName)
	}
	text := parameter.ReplaceAllStringFunc(d.words.Replace(statement), func(found string) string {
		if written, ok := places[found]; ok {
			return written
		}
		name := strings.Trim(found, "IN (@$)")
		value, ok := args[name]
		switch {
		case !ok && name == "now" && d.now != "":
			return d.now
		case !ok && name == "now":
			value = now
		case !ok:
			return found // the database refuses it
		}
		if strings.HasPrefix(found, "IN") {
			places[found] = d.in(value, place)
		} else {
			places[found] = place(d.value(value))
		}
		return places[found]
	})
	return text, values
}

// in is the condition that a column is one of a list.
func (d *dialect) in(list any, place func(any, string) string) string {
	if d.typed {
		return "= ANY (" + place(d.value(list)) + ")"
	}
	all := reflect.ValueOf(list)
	texts := make([]string, all.Len())
	for i := range texts {
		texts[i] = place(d.value(all.Index(i).Interface()))
	}
	return "IN (" + strings.Join(texts, ", ") + ")"
}

// value is a parameter as the driver takes it, with its type in Postgres.
func (d *dialect) value(v any) (any, string) {
	switch x := v.(type) {
	case nil:
		return nil, ""
	case time.Time:
		return d.at(x), "timestamptz"
	case time.Duration:
		if d.typed {
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
		return each(x, func(id uuid.UUID) [16]byte { return id }), "uuid[]"
	case []recipient.Hash:
		return each(x, func(h recipient.Hash) []byte { return h[:] }), "bytea[]"
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.String:
		return x.String(), "text"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return x.Int(), "bigint"
	}
	return v, "" // the driver refuses it
}

// each makes a list out of one part of every row.
func each[R, T any](rows []R, part func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = part(r)
	}
	return list
}
