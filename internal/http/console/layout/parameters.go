package layout

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
)

// These are the numbers of rows of a list's page: the default and the maximum.
const (
	DefaultPageRows = 50
	MaxPageRows     = store.MaxPageRows
)

// TimeSpans are the values of the parameter "last", which pages have besides "from" and "to".
var TimeSpans = map[string]time.Duration{
	"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour,
	"30d": 30 * 24 * time.Hour,
}

// parameterError is a mistake in a parameter. In the JSON API it is its InvalidError.
type parameterError struct {
	*fault.InvalidError
	kind   string // the text of a page is "parameter." + kind
	values string // {values} in that text
}

func (e *parameterError) Unwrap() error { return e.InvalidError }

// Invalid returns an error that wraps a *fault.InvalidError. On a page, its text is that of
// the key "parameter." + kind.
func Invalid(field, reason, kind, detail string) error {
	return &parameterError{&fault.InvalidError{Field: field, Reason: reason, Detail: detail}, kind, ""}
}

// valueProblem is what is wrong with a value; see parameterError. The zero value means that nothing
// is.
type valueProblem struct{ kind, detail, values string }

// ParseFunc parses the value of a parameter and stores the result in a variable that the function
// captured.
type ParseFunc func(value string) valueProblem

// Parse returns an error about the parameter name if its value is wrong (see Invalid).
func (f ParseFunc) Parse(name, value string) error {
	if bad := f(value); bad.kind != "" {
		return &parameterError{&fault.InvalidError{Field: name, Reason: "invalid", Detail: bad.detail}, bad.kind, bad.values}
	}
	return nil
}

// Parameters are the parameters that an address may have, by name.
type Parameters map[string]ParseFunc

// Parse parses a raw query and sets the variables of its parameters. It returns the parameters that
// are not empty. If a parameter is unknown, repeated or wrong, Parse returns an error with the name
// of the parameter. It does not ignore the parameter, because a list without this filter would show
// other rows than the reader asked for. If several parameters are wrong, the error is about the
// first name in alphabetical order.
func (p Parameters) Parse(raw string) (given url.Values, err error) {
	values, err := ParseRawQuery(raw)
	if err != nil {
		return nil, err
	}
	given = url.Values{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, ok := p[name]
		value := values.Get(name)
		switch {
		case len(values[name]) > 1:
			return nil, Invalid(shortenName(name), "repeated", "repeated", "Give this parameter once.")
		case !ok:
			return nil, Invalid(shortenName(name), "unknown", "unknown", "There is no such parameter.")
		case value == "":
			continue
		}
		if err := set.Parse(name, value); err != nil {
			return nil, err
		}
		given.Set(name, value)
	}
	return given, nil
}

// ParseRawQuery parses a raw query of any parameters. Error: *server.Problem.
func ParseRawQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &server.Problem{
			Kind:   server.BadRequest,
			Detail: "The part of the address after the question mark could not be read.",
		}
	}
	return values, nil
}

// shortenName shortens a name or a value that came from a request, for use in a response.
func shortenName(name string) string {
	if r := []rune(name); len(r) > maxShortText {
		return string(r[:maxShortText]) + "…"
	}
	return name
}

// maxShortText is the longest name or reference that a row can have, in characters.
const maxShortText = 64

// Parameter returns a ParseFunc. It passes the text of a parameter to the function in read, and
// stores the value in *to. If read returns false, kind and detail say what is wrong (see Invalid).
func Parameter[T any](to *T, read func(string) (T, bool), kind, detail string) ParseFunc {
	return func(value string) valueProblem {
		x, ok := read(value)
		if !ok {
			return valueProblem{kind: kind, detail: detail}
		}
		*to = x
		return valueProblem{}
	}
}

// ShortTextParameter parses a text that a row may contain. Any other text is an error. A database
// would reject some of these texts, such as invalid UTF-8.
func ShortTextParameter(to *string) ParseFunc {
	return Parameter(to, func(text string) (string, bool) {
		return text, utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxShortText &&
			!strings.ContainsFunc(text, unicode.IsControl)
	}, "text", "This has at most 64 characters, and no control character among them.")
}

// OneOfParameter parses a text that must equal one of the values.
func OneOfParameter[T ~string](to *T, values ...T) ParseFunc {
	return func(value string) valueProblem {
		*to = T(value)
		if slices.Contains(values, *to) {
			return valueProblem{}
		}
		var names []string
		for _, v := range values {
			names = append(names, string(v))
		}
		all := strings.Join(names, ", ")
		return valueProblem{"choice", "This is one of: " + all + ".", all}
	}
}

// ActiveOnlyParameter parses "active" as true and "all" as false. The value true selects the
// entries that apply now.
func ActiveOnlyParameter(to *bool) ParseFunc {
	return func(value string) valueProblem {
		var state string
		*to = value == "active"
		return OneOfParameter(&state, "active", "all")(value)
	}
}

// RecipientHashParser parses a recipient's hash.
func RecipientHashParser(to **recipient.Hash) ParseFunc {
	return Parameter(to, func(text string) (*recipient.Hash, bool) {
		h, err := recipient.ParseHash(text)
		return &h, err == nil
	}, "recipient", "A recipient is given by its hash, 32 lower-case hexadecimal digits; an address belongs into the search.")
}

// CursorParameter parses a cursor that EncodeCursor made.
func CursorParameter(to **store.Cursor) ParseFunc {
	return Parameter(to, func(text string) (*store.Cursor, bool) {
		m, ok := DecodeCursor(text)
		return &m, ok
	}, "cursor", "A cursor is passed back as the list before gave it.")
}

// LimitParameter parses the number of rows of a page, from 1 to MaxPageRows.
func LimitParameter(to *int) ParseFunc {
	return Parameter(to, func(text string) (int, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && 1 <= n && n <= MaxPageRows
	}, "limit", "A limit is a number from 1 to 200.")
}

// TimeParameter parses a time in RFC 3339, or in the form of a browser's datetime-local field. The
// second form has no zone, so TimeParameter reads it as a time in zone.
func TimeParameter(to *time.Time, zone *time.Location) ParseFunc {
	return func(value string) valueProblem {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.ParseInLocation(layout, value, zone); err == nil && yearInRange(t) {
				*to = t.UTC()
				return valueProblem{}
			}
		}
		return valueProblem{kind: "time", detail: "A time is written as 2026-01-31T14:00:00Z; a plus sign in an address is %2B."}
	}
}

// yearInRange reports whether databases and JSON can store the year.
func yearInRange(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }
