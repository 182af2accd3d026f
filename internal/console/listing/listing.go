package listing

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/store"
)

// A cursor is a place in the log: version (1 byte) | instant (8 bytes, µs since 1970) | row's ID (16 bytes), in base64.
// Callers pass it back as they got it. It is a place, not a page number: rows that come in meanwhile move nothing, and
// the same place holds under other filters.
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 16
)

// WriteCursor encodes a place in a list.
func WriteCursor(m store.Mark) string {
	b := []byte{cursorVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(m.At.UnixMicro()))
	b = append(b, m.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReadCursor decodes a place in a list.
func ReadCursor(text string) (store.Mark, bool) {
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

// List is one kind of rows, read by a filter F, newest first.
type List[F, R any] struct {
	Name  string // of the rows in JSON
	Path  string // of the page
	Known Parameters[F]
	Read  func(ctx context.Context, f F) (rows []R, now time.Time, err error)
	Bound func(f *F) *int                    // how many rows are read
	Next  func(f *F, last R) (cursor string) // has the filter go on behind a row
	Later func(f F) bool                     // it begins behind a row
}

// Marked returns a list with the parameters cursor and limit, which set these fields of the filter; mark returns a row's place.
func (l List[F, R]) Marked(limit func(f *F) *int, before func(f *F) **store.Mark, mark func(r R) store.Mark) List[F, R] {
	l.Known["cursor"], l.Known["limit"], l.Bound = Cursor(before), Limit(limit), limit
	l.Next = func(f *F, last R) string {
		m := mark(last)
		*before(f) = &m
		return WriteCursor(m)
	}
	l.Later = func(f F) bool { return *before(&f) != nil }
	return l
}

// Page is what one request reads of a list.
type Page[F, R any] struct {
	Filter F
	Rows   []R
	Now    time.Time
	Cursor string // of the next page; empty: this is the end
	path   string
	given  url.Values
	later  bool
}

// Pages lead to the rest of a list.
type Pages struct {
	Older  string // address; empty: this is the end
	Newest string // address of the first page; empty: this is it
}

// Find reads the page that the raw query asks for; start is the filter without parameters.
func (l List[F, R]) Find(ctx context.Context, raw string, start F) (p Page[F, R], err error) {
	*l.Bound(&start) = DefaultLimit
	f, given, err := Parse(raw, start, l.Known, time.Time{})
	if err != nil {
		return p, err
	}
	p = Page[F, R]{Filter: f, path: l.Path, given: given, later: l.Later(f)}
	if p.Rows, p.Now, err = l.Read(ctx, f); err != nil || len(p.Rows) < *l.Bound(&f) {
		return p, err
	}
	cursor := l.Next(&f, p.Rows[len(p.Rows)-1])
	*l.Bound(&f) = 1 // so that a next page is named only where there is one
	more, _, err := l.Read(ctx, f)
	if len(more) > 0 {
		p.Cursor = cursor
	}
	return p, err
}

// With returns the list's address with one parameter changed, or removed if the value is empty. It starts again at the newest row.
func (p Page[F, R]) With(name, value string) string { return Address(p.path, p.given, name, value) }

// Pages are the addresses of the rest.
func (p Page[F, R]) Pages() (to Pages) {
	if p.Cursor != "" {
		to.Older = p.With("cursor", p.Cursor)
	}
	if p.later {
		to.Newest = p.With("cursor", "")
	}
	return to
}

// Address returns a list's address with one parameter changed, or removed if the value is empty.
func Address(path string, given url.Values, name, value string) string {
	next := url.Values{}
	for k, v := range given {
		if k != "cursor" && k != "newer" {
			next[k] = slices.Clone(v)
		}
	}
	next.Del(name)
	if value != "" {
		next.Set(name, value)
	}
	if len(next) == 0 {
		return path
	}
	return path + "?" + next.Encode()
}

// JSON returns a handler that answers with the page that the request asks for: the rows by their name, and the cursor of the next page
// or null.
func JSON[F, R, J any](l List[F, R], start F, row func(r R, now time.Time) J) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, err := l.Find(c.Request().Context(), c.Request().URL.RawQuery, start)
		if err != nil {
			return err
		}
		rows := make([]J, 0, len(p.Rows))
		for _, r := range p.Rows {
			rows = append(rows, row(r, p.Now))
		}
		return c.JSON(http.StatusOK, map[string]any{l.Name: rows, "next": Text(p.Cursor)})
	}
}

// Stamp writes a time as RFC 3339 in UTC, to the millisecond; null for the zero time.
func Stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return Text(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Text is null for nothing.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
