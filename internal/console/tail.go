package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/frame"
	"sendcode/internal/console/live"
	"sendcode/internal/fault"
	"sendcode/internal/store"
)

// listParameters are parameters that a stream rejects: it begins now, has no end, and knows only what is in a row.
var listParameters = []string{"from", "to", "last", "cursor", "limit", "outcome", "network"}

// parseTail parses the filters of a stream and the place where it continues.
func (a *Console) parseTail(c echo.Context) (q query, from *store.Mark, err error) {
	q, err = parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
	if err != nil {
		return q, nil, err
	}
	if err := q.rejectParameters("A tail takes filters only: it begins now and has no end.", listParameters...); err != nil {
		return q, nil, err
	}
	from, q.filter.After, q.filter.Limit = q.filter.After, nil, live.PageSize
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		m, ok := frame.ReadCursor(last)
		if !ok {
			return q, nil, fault.Invalid("Last-Event-ID", "invalid", "It is passed back as the stream gave it.")
		}
		from = &m
	}
	q.given.Del("newer")
	return q, from, nil
}

// tailJSON streams rows to scripts.
func (a *Console) tailJSON(c echo.Context) error {
	return a.stream(c, "send", func(s store.Send) (string, error) {
		body, err := json.Marshal(rowJSON(s))
		return string(body), err
	})
}

// tailRows streams rows to the page, as it draws them.
func (a *Console) tailRows(c echo.Context) error {
	w := frame.Words(c)
	return a.stream(c, "row", func(s store.Send) (string, error) {
		return a.layout.RenderBlock("tail", "row", row{Send: s, W: w})
	})
}

func (a *Console) stream(c echo.Context, event string, draw func(store.Send) (string, error)) error {
	q, from, err := a.parseTail(c)
	if err != nil {
		return err
	}
	return a.tail.Serve(c, live.Stream{Filter: q.filter, From: from, Event: event, Draw: draw})
}

// tailView is the page: the newest rows, and the URL of the stream.
type tailView struct {
	frame.Page
	Filter filterView
	Stream string
	Rows   []row
}

func (a *Console) tailPage(c echo.Context) error {
	q, _, err := a.parseTail(c)
	if err != nil {
		return err
	}
	q.filter.Limit = frame.DefaultLimit
	sends, err := a.Log.Sends(c.Request().Context(), q.filter)
	if err != nil {
		return err
	}
	w := frame.Words(c)
	v := tailView{Page: frame.NewPage(c, "tail.title", "tail"), Filter: filterView{q.given, w}}
	stream := maps.Clone(q.given)
	for _, s := range sends {
		v.Rows = append(v.Rows, row{Send: s, W: w})
	}
	if len(sends) > 0 {
		stream.Set("newer", frame.WriteCursor(markOf(sends[0])))
	}
	v.Stream = "/admin/tail/rows?" + stream.Encode()
	return a.layout.Show(c, http.StatusOK, "tail", v)
}
