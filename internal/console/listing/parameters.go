// Package listing is what the console's lists have in common: parameters of an address that become a filter, cursors, pages and their
// addresses. A list says which parameters it has, how it is read, and where a page goes on.
package listing

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/console/layout"
	"sendcode/internal/recipient"
	"sendcode/internal/server"
	"sendcode/internal/store"
)

// How many rows a list has.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Spans are the values of "last", which pages have beside "from" and "to".
var Spans = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// Set sets one part of a filter, or says what is wrong with the value.
type Set[F any] func(f *F, value string, now time.Time) (detail string)

// Parameters are those that a list knows.
type Parameters[F any] map[string]Set[F]

// Parse parses a raw query into a filter. A parameter that is unknown, repeated or wrong is an error that names it, since a filter
// that is silently ignored would answer another question. given has no empty parameters.
func Parse[F any](raw string, f F, known Parameters[F], now time.Time) (_ F, given url.Values, err error) {
	given = url.Values{}
	err = each(raw, func(name, value string) error {
		set, ok := known[name]
		if !ok {
			return Unknown(name)
		}
		if value == "" {
			return nil
		}
		if detail := set(&f, value, now); detail != "" {
			return layout.Invalid(name, "invalid", detail)
		}
		given.Set(name, value)
		return nil
	})
	return f, given, err
}

// each calls take for the parameters in the order of their names. A repeated one is an error.
func each(raw string, take func(name, value string) error) error {
	values, err := Values(raw)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return layout.Invalid(safeName(name), "repeated", "Give this parameter once.")
		}
		if err := take(name, values.Get(name)); err != nil {
			return err
		}
	}
	return nil
}

// Values are an address's parameters, whatever they are.
func Values(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &server.Problem{Kind: server.BadRequest, Detail: "The part of the address after the question mark could not be read."}
	}
	return values, nil
}

// Unknown is the error of a parameter that there is not.
func Unknown(name string) error {
	return layout.Invalid(safeName(name), "unknown", "There is no such parameter.")
}

// safeName shortens a name that came from a request, for use in a response.
func safeName(name string) string {
	if r := []rune(name); len(r) > maxWord {
		return string(r[:maxWord]) + "…"
	}
	return name
}

// maxWord is the longest name or reference that a row can have, in characters.
const maxWord = 64

// Word parses a text that a row may hold; others are an error, since a database would reject them.
func Word[F any](field func(*F) *string) Set[F] {
	return func(f *F, value string, _ time.Time) string {
		if !utf8.ValidString(value) || utf8.RuneCountInString(value) > maxWord || strings.ContainsFunc(value, unicode.IsControl) {
			return "This has at most 64 characters, and no control character among them."
		}
		*field(f) = value
		return ""
	}
}

// Recipient parses a recipient's hash.
func Recipient[F any](field func(*F) **recipient.Hash) Set[F] {
	return func(f *F, value string, _ time.Time) string {
		h, err := recipient.ParseHash(value)
		if err != nil {
			return "A recipient is given by its hash, 32 lower-case hexadecimal digits; an address belongs into the search."
		}
		*field(f) = &h
		return ""
	}
}

const badCursor = "A cursor is passed back as the list before gave it."

// Cursor reads a place in a list.
func Cursor[F any](field func(*F) **store.Mark) Set[F] {
	return func(f *F, value string, _ time.Time) string {
		m, ok := ReadCursor(value)
		if !ok {
			return badCursor
		}
		*field(f) = &m
		return ""
	}
}

// Limit reads how many rows a page has.
func Limit[F any](field func(*F) *int) Set[F] {
	return func(f *F, value string, _ time.Time) string {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > MaxLimit {
			return "A limit is a number from 1 to 200."
		}
		*field(f) = n
		return ""
	}
}

// Active parses whether only entries that apply now are listed.
func Active[F any](field func(*F) *bool) Set[F] {
	return func(f *F, value string, _ time.Time) string {
		if *field(f) = value == "active"; value != "active" && value != "all" {
			return "A state is active or all."
		}
		return ""
	}
}

// Instant parses RFC 3339, or the form of a browser's datetime-local field, which is in the zone of now.
func Instant[F any](field func(*F) *time.Time) Set[F] {
	return func(f *F, value string, now time.Time) string {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.ParseInLocation(layout, value, now.Location()); err == nil && inRange(t) {
				*field(f) = t.UTC()
				return ""
			}
		}
		return "A time is written as 2026-01-31T14:00:00Z; a plus sign in an address is %2B."
	}
}

// inRange reports whether databases and JSON can hold the year.
func inRange(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }
