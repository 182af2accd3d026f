package console

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/console/layout"
	"sendcode/internal/recipient"
	"sendcode/internal/server"
	"sendcode/internal/store"
)

// A cursor is a place in the log: version (1 byte) | instant (8 bytes, µs since 1970) | row's ID (16 bytes), in base64.
// Callers pass it back as they got it. It is a place, not a page number: rows that come in meanwhile move nothing, and
// the same place holds under other filters (AUDIT-5).
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 16
)

func writeCursor(m store.Mark) string {
	b := []byte{cursorVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(m.At.UnixMicro()))
	b = append(b, m.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (store.Mark, bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) { // also one with line ends, which decoding passes over
		return store.Mark{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion {
		return store.Mark{}, false
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	return store.Mark{At: at, ID: uuid.UUID(b[9:])}, inRange(at)
}

// query is what a list is asked for in its address: filters, a place and a length.
type query struct {
	filter store.Filter
	given  url.Values // what was asked, empty parameters left out
	hints  hints      // of a search that found nobody
}

// How many rows a list has.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// spans are the values of "last", which pages have beside "from" and "to".
var spans = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// statuses are all that a row can have.
var statuses = []store.Status{store.Queued, store.Sending, store.Sent, store.Delivered, store.Undelivered, store.Failed, store.Unknown, store.Refused}

// parseQuery reads an address's raw query. A parameter that is unknown, repeated or wrong is an error that names it:
// a filter that was left out in silence would answer another question than the one asked.
func parseQuery(raw string, now time.Time) (query, error) {
	q := query{filter: store.Filter{Limit: defaultLimit}, given: url.Values{}}
	err := eachParameter(raw, func(name, value string) error {
		set, known := parameters[name]
		if !known {
			return layout.Invalid(safeName(name), "unknown", "There is no such parameter.")
		}
		if value == "" {
			return nil
		}
		if detail := set(&q.filter, value, now); detail != "" {
			return layout.Invalid(name, "invalid", detail)
		}
		q.given.Set(name, value)
		return nil
	})
	if err != nil {
		return q, err
	}
	return q, q.checkRange()
}

// eachParameter hands out an address's parameters in the order of their names, each of which may be given once.
func eachParameter(raw string, take func(name, value string) error) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return &server.Problem{Kind: server.BadRequest, Detail: "The part of the address after the question mark could not be read."}
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

func (q query) checkRange() error {
	from, to := q.filter.From, q.filter.To
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return layout.Invalid("to", "invalid", "The end must be after the beginning.")
	}
	if q.filter.Before != nil && q.filter.After != nil {
		return layout.Invalid("newer", "invalid", "A list goes on from one cursor, either way.")
	}
	return nil
}

// parameters sets one part of a filter each, or says what is wrong with the value.
var parameters = map[string]func(f *store.Filter, value string, now time.Time) string{
	"recipient":  setRecipient,
	"status":     setStatus,
	"channel":    setChannel,
	"purpose":    word(func(f *store.Filter) *string { return &f.Purpose }),
	"app":        word(func(f *store.Filter) *string { return &f.App }),
	"blocked_by": word(func(f *store.Filter) *string { return &f.BlockedBy }),
	"reference":  word(func(f *store.Filter) *string { return &f.Reference }),
	"carrier":    word(func(f *store.Filter) *string { return &f.Provider }),
	"country":    setCountry,
	"domain":     setDomain,
	"support":    setSupport,
	"from":       instant(func(f *store.Filter) *time.Time { return &f.From }),
	"to":         instant(func(f *store.Filter) *time.Time { return &f.To }),
	"last":       setLast,
	"cursor":     setCursor(func(f *store.Filter) **store.Mark { return &f.Before }),
	"newer":      setCursor(func(f *store.Filter) **store.Mark { return &f.After }),
	"limit":      setLimit,
}

func setRecipient(f *store.Filter, value string, _ time.Time) string {
	h, err := recipient.ParseHash(value)
	if err != nil {
		return "A recipient is given by its hash, 32 lower-case hexadecimal digits; an address belongs into the search."
	}
	f.Recipient = &h
	return ""
}

func setStatus(f *store.Filter, value string, _ time.Time) string {
	f.Status = store.Status(value)
	if !slices.Contains(statuses, f.Status) {
		return "A status is queued, sending, sent, delivered, undelivered, failed, unknown or refused."
	}
	return ""
}

func setChannel(f *store.Filter, value string, _ time.Time) (problem string) {
	var err error
	if f.Channel, err = recipient.ParseChannel(value); err != nil {
		return "A channel is email or sms."
	}
	return ""
}

func setCountry(f *store.Filter, value string, _ time.Time) string {
	f.Country = strings.ToUpper(strings.TrimSpace(value))
	if !recipient.KnownCountry(f.Country) {
		return "A country is that of a phone number, two letters as in DE, or 001 for numbers of none."
	}
	return ""
}

func setDomain(f *store.Filter, value string, _ time.Time) (problem string) {
	var err error
	if f.Domain, err = recipient.MaskedDomain(value); err != nil {
		return "A domain is what stands after the @ of a mail address."
	}
	return ""
}

func setSupport(f *store.Filter, value string, _ time.Time) string {
	if f.Support = value; !store.IsSupportReference(value) {
		return "A support reference is written as S-7K3M-Q2XP."
	}
	return ""
}

func setCursor(field func(*store.Filter) **store.Mark) func(*store.Filter, string, time.Time) string {
	return func(f *store.Filter, value string, _ time.Time) string {
		m, ok := readCursor(value)
		if !ok {
			return "A cursor is passed back as the list before gave it."
		}
		*field(f) = &m
		return ""
	}
}

func setLimit(f *store.Filter, value string, _ time.Time) string {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxLimit {
		return "A limit is a number from 1 to 200."
	}
	f.Limit = n
	return ""
}

// setLast sets From unless the address gives it: "from" comes before "last" in the order of names.
func setLast(f *store.Filter, value string, now time.Time) string {
	span, ok := spans[value]
	if !ok {
		return "This is 1h, 24h, 7d or 30d."
	}
	if f.From.IsZero() {
		f.From = now.Add(-span)
	}
	return ""
}

// maxWord is the longest name or reference that a row can have, in characters.
const maxWord = 64

// word reads a text that a row may hold. A database would refuse some texts with an error of its own.
func word(field func(*store.Filter) *string) func(*store.Filter, string, time.Time) string {
	return func(f *store.Filter, value string, _ time.Time) string {
		if !utf8.ValidString(value) || utf8.RuneCountInString(value) > maxWord || strings.ContainsFunc(value, unicode.IsControl) {
			return "This has at most 64 characters, and no control character among them."
		}
		*field(f) = value
		return ""
	}
}

// instant reads RFC 3339, or what a browser's datetime-local field sends, which is then UTC.
func instant(field func(*store.Filter) *time.Time) func(*store.Filter, string, time.Time) string {
	return func(f *store.Filter, value string, _ time.Time) string {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.Parse(layout, value); err == nil && inRange(t) {
				*field(f) = t.UTC()
				return ""
			}
		}
		return "A time is written as 2026-01-31T14:00:00Z; a plus sign in an address is %2B."
	}
}

// inRange keeps to years that every database and JSON can write.
func inRange(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }

// safeName shortens what a caller named, so that an answer can't be made to carry a page's worth of it.
func safeName(name string) string {
	if r := []rune(name); len(r) > maxWord {
		return string(r[:maxWord]) + "…"
	}
	return name
}
