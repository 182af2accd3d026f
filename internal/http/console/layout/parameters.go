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

// By these texts, ParameterProblem tells mistakes apart that have the same reason.
const (
	unknownParameter = "There is no such parameter."
	badShortText     = "This has at most 64 characters, and no control character among them."
	oneOf            = "This is one of: "
)

// ParseFunc parses the value of a parameter and stores the result in a variable that the function
// captured. It returns what is wrong with the value, or "".
type ParseFunc func(value string) (problem string)

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
			return nil, fault.Invalid(shortenName(name), "repeated", "Give this parameter once.")
		case !ok:
			return nil, fault.Invalid(shortenName(name), "unknown", unknownParameter)
		case value == "":
			continue
		}
		if problem := set(value); problem != "" {
			return nil, fault.Invalid(name, "invalid", problem)
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
// stores the value in *to. If read returns false, the ParseFunc returns the text in problem.
func Parameter[T any](to *T, read func(string) (T, bool), problem string) ParseFunc {
	return func(value string) string {
		x, ok := read(value)
		if !ok {
			return problem
		}
		*to = x
		return ""
	}
}

// ShortTextParameter parses a text that a row may contain. Any other text is an error. A database
// would reject some of these texts, such as invalid UTF-8.
func ShortTextParameter(to *string) ParseFunc {
	return Parameter(to, func(text string) (string, bool) {
		return text, utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxShortText &&
			!strings.ContainsFunc(text, unicode.IsControl)
	}, badShortText)
}

// OneOfParameter parses a text that must equal one of the values.
func OneOfParameter[T ~string](to *T, values ...T) ParseFunc {
	return func(value string) string {
		*to = T(value)
		if slices.Contains(values, *to) {
			return ""
		}
		var names []string
		for _, v := range values {
			names = append(names, string(v))
		}
		return oneOf + strings.Join(names, ", ") + "."
	}
}

// ActiveOnlyParameter parses "active" as true and "all" as false. The value true selects the
// entries that apply now.
func ActiveOnlyParameter(to *bool) ParseFunc {
	return func(value string) string {
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
	}, "A recipient is given by its hash, 32 lower-case hexadecimal digits; an address belongs into the search.")
}

// CursorParameter parses a cursor that EncodeCursor made.
func CursorParameter(to **store.Cursor) ParseFunc {
	return Parameter(to, func(text string) (*store.Cursor, bool) {
		m, ok := DecodeCursor(text)
		return &m, ok
	}, "A cursor is passed back as the list before gave it.")
}

// LimitParameter parses the number of rows of a page, from 1 to MaxPageRows.
func LimitParameter(to *int) ParseFunc {
	return Parameter(to, func(text string) (int, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && 1 <= n && n <= MaxPageRows
	}, "A limit is a number from 1 to 200.")
}

// TimeParameter parses a time in RFC 3339, or in the form of a browser's datetime-local field. The
// second form has no zone, so TimeParameter reads it as a time in zone.
func TimeParameter(to *time.Time, zone *time.Location) ParseFunc {
	return func(value string) string {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.ParseInLocation(layout, value, zone); err == nil && yearInRange(t) {
				*to = t.UTC()
				return ""
			}
		}
		return "A time is written as 2026-01-31T14:00:00Z; a plus sign in an address is %2B."
	}
}

// yearInRange reports whether databases and JSON can store the year.
func yearInRange(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }
