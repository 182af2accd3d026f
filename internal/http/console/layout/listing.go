package layout

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/store"
)

// A cursor is a position in a list, in base64. It has the version (1 byte), the time (8 bytes, µs
// since 1970) and the ID of a row (16 bytes). Callers return a cursor unchanged. New rows do not
// change the position of a cursor, though they would change the position of a page number. A cursor
// is also valid with other filters.
const (
	cursorVersion = 1
	cursorSize    = 1 + 8 + 16
)

// EncodeCursor encodes a place in a list as a cursor.
func EncodeCursor(m store.Cursor) string {
	b := []byte{cursorVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(m.At.UnixMicro()))
	b = append(b, m.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor decodes a cursor that EncodeCursor made. It returns false for every other text.
func DecodeCursor(text string) (store.Cursor, bool) {
	// DecodeString skips line breaks, so it would accept a cursor with line breaks added. Such a
	// text is too long for this check.
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return store.Cursor{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion {
		return store.Cursor{}, false
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	return store.Cursor{At: at, ID: uuid.UUID(b[9:])}, yearInRange(at)
}

// PagingFields are the fields of a filter that bound one page.
type PagingFields struct {
	Limit  *int           // rows of a page
	Before **store.Cursor // rows older than *Before; *Before nil: the newest
	After  **store.Cursor // rows newer than *After; *After nil: no bound; After nil: the list has no links to newer pages
}

// List is one kind of rows, read by a filter F, newest first.
type List[F, R any] struct {
	Name       string                              // the name of the rows in JSON
	Path       string                              // the path of the page
	Parameters func(f *F) Parameters               // the list's filters, besides cursor and limit
	Paging     func(f *F) PagingFields             // the fields of a filter that select the page
	Cursor     func(r R) store.Cursor              // returns the cursor of a row; the next page continues from it
	JSON       func(r R, now time.Time) JSONObject // returns a row as the JSON API shows it
	Read       func(ctx context.Context, f F) (rows []R, now time.Time, err error)
}

// PaginatedRows is one page of a list, with the addresses of other pages.
type PaginatedRows[F, R any] struct {
	Filter     F
	Rows       []R
	Now        time.Time
	NextCursor string // the cursor of the next page; empty: this page is the last
	Older      string // the address of the next page; empty: this page is the last
	Newer      string // address of the previous page; empty: this is the first page, or the list has no such links
	Newest     string // the address of the first page; empty: this page is the first
	Mistake    FilterMistake

	path  string
	given url.Values
}

// PageForRawQuery parses a raw query and reads the page that the query selects. f is the filter to
// begin with, to which the parameters of the query are applied.
func (l List[F, R]) PageForRawQuery(ctx context.Context, raw string, f F) (PaginatedRows[F, R], error) {
	paging, known := l.Paging(&f), l.Parameters(&f)
	*paging.Limit, known["limit"], known["cursor"] = DefaultPageRows, LimitParameter(paging.Limit), CursorParameter(paging.Before)
	given, err := known.Parse(raw)
	if err != nil {
		return PaginatedRows[F, R]{}, err
	}
	return l.Page(ctx, f, given)
}

// PageOrMistake is PageForRawQuery for a page with a form of filters. If a parameter cannot be
// read, it returns a page without rows. That page has the mistake, and its filter has the other
// parameters, so the form is shown as it was filled in.
func (l List[F, R]) PageOrMistake(c echo.Context, raw string, f F) (PaginatedRows[F, R], error) {
	p, err := l.PageForRawQuery(c.Request().Context(), raw, f)
	mistake, values, ok := FilterMistakeOf(raw, err, Words(c))
	if !ok {
		return p, err
	}
	p = PaginatedRows[F, R]{Filter: f, Mistake: mistake, path: l.Path, given: url.Values{}}
	for name, parse := range l.Parameters(&p.Filter) {
		if value := values.Get(name); value != "" && name != mistake.Field && parse.Parse(name, value) == nil {
			p.given.Set(name, value)
		}
	}
	return p, nil
}

// Page reads the page that the filter f selects. The parameter given has the query parameters from
// which f was made. The addresses of other pages contain these parameters.
func (l List[F, R]) Page(ctx context.Context, f F, given url.Values) (p PaginatedRows[F, R], err error) {
	p = PaginatedRows[F, R]{Filter: f, path: l.Path, given: given}
	paging := l.Paging(&f)
	later, back := *paging.Before != nil, paging.After != nil && *paging.After != nil
	if later || back {
		p.Newest = p.AddressWith("cursor", "")
	}
	if p.Rows, p.Now, err = l.Read(ctx, f); err != nil || len(p.Rows) == 0 {
		return p, err
	}
	full := len(p.Rows) == *paging.Limit
	if paging.After != nil && (later || back && full) {
		p.Newer = p.AddressWith("newer", EncodeCursor(l.Cursor(p.Rows[0])))
	}
	if !full && !back {
		return p, nil
	}
	last := l.Cursor(p.Rows[len(p.Rows)-1])
	// This second read finds out whether there is a next page. It reads at most one row.
	*paging.Before, *paging.Limit = &last, 1
	if back {
		*paging.After = nil
	}
	more, _, err := l.Read(ctx, f)
	if len(more) > 0 {
		p.NextCursor = EncodeCursor(last)
		p.Older = p.AddressWith("cursor", p.NextCursor)
	}
	return p, err
}

// AddressWith returns ListAddress for the path and the parameters of this page.
func (p PaginatedRows[F, R]) AddressWith(name, value string) string {
	return ListAddress(p.path, p.given, name, value)
}

// FormAddress returns the address of a form of the list. The address is the path of the list, then
// part, then the query parameters of this page. Because of these parameters, a form that is refused
// is shown with the same rows.
func (p PaginatedRows[F, R]) FormAddress(part string) string {
	if len(p.given) == 0 {
		return p.path + part
	}
	return p.path + part + "?" + p.given.Encode()
}

// PagingParameters are the parameters of a list that choose the page. All other parameters of a
// list are filters.
var PagingParameters = []string{"cursor", "newer", "limit"}

// FilterTexts returns the filters of this page in words, without the paging parameters. If the page
// has no filters, it returns "".
func (p PaginatedRows[F, R]) FilterTexts(w texts.Words) string { return FilterTexts(p.given, w) }

// FilterTexts returns the filters among the parameters in words: "App: shop, State: sent".
func FilterTexts(given url.Values, w texts.Words) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(PagingParameters, name) && given.Get(name) != "all" {
			all = append(all, FilterText(name, given.Get(name), w))
		}
	}
	return strings.Join(all, w.Get("list.comma"))
}

// FilterText returns a filter in words: "State: sent". A recipient's hash is left out.
func FilterText(name, value string, w texts.Words) string {
	if name == "recipient" {
		return w.Get("filter.recipient.unknown")
	}
	return w.Get("list.filter", "name", filterName(name, w), "value", FilterValue(name, value, w))
}

// filterName returns the name of a parameter in words. For a parameter without words, such as a
// cursor, it returns the parameter.
func filterName(name string, w texts.Words) string {
	for _, kind := range []string{"filter.", "label.", "column.", "facts."} {
		if w.Has(kind + name) {
			return w.Get(kind+name, "zone", w.UTCOffset(time.Now()))
		}
	}
	return name
}

// FilterValue returns the value of a filter in words.
func FilterValue(name, value string, w texts.Words) string {
	words := map[string]string{"outcome": "outcome.code", "last": "filter.last", "state": "events.state", "what": "action"}
	switch at, err := time.Parse(time.RFC3339Nano, value); {
	case err == nil:
		return w.Clock(at).String()
	case name == "country":
		return cmp.Or(w.Country(value), value)
	}
	return w.Or(cmp.Or(words[name], name), value)
}

// ListAddress returns a list's address with the parameters in given, but without the cursors
// (cursor and newer). It sets the parameter called name to value. If value is empty, it removes
// that parameter. The address leads to the first page, unless name is a cursor.
func ListAddress(path string, given url.Values, name, value string) string {
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

// ServeJSON is a handler that answers with the page that the request's query selects, as JSON.
func (l List[F, R]) ServeJSON(c echo.Context) error {
	var all F
	p, err := l.PageForRawQuery(c.Request().Context(), c.Request().URL.RawQuery, all)
	if err != nil {
		return err
	}
	return l.WriteJSON(c, p)
}

// WriteJSON answers with a page as JSON. The name of the list is the key of the array of rows. The
// key "next" has the cursor of the next page, or null.
func (l List[F, R]) WriteJSON(c echo.Context, p PaginatedRows[F, R]) error {
	return c.JSON(http.StatusOK, JSONObject{
		l.Name: JSONObjects(p.Rows, func(r R) JSONObject { return l.JSON(r, p.Now) }),
		"next": OrNull(p.NextCursor),
	})
}

// JSONObject is an object in JSON. Missing values are null.
type JSONObject map[string]any

// JSONObjects returns an object for each of the rows; never nil.
func JSONObjects[R any](rows []R, of func(R) JSONObject) []JSONObject {
	all := make([]JSONObject, 0, len(rows))
	for _, r := range rows {
		all = append(all, of(r))
	}
	return all
}

// OrNull returns the value, or nil for the zero value.
func OrNull[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// Timestamp returns a time as RFC 3339 in UTC, to the millisecond. For the zero time, it returns
// nil.
func Timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
