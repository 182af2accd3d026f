package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/server"
	"sendcode/internal/store"
)

// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). A browser keeps the ID of the last
// event that it got, and comes back with it by itself when the connection breaks.

// writeWait bounds one write: who takes nothing for so long is gone, or as good as gone.
const writeWait = 10 * time.Second

// What a stream that goes on reads again: rows shortly before where it was may have changed since, and some rows behind.
const (
	resumeOverlap = 30 * time.Second
	resumePages   = 5
)

// onlyOfLists are parameters that a stream has no use for: it begins now and has no end.
var onlyOfLists = []string{"from", "to", "last", "cursor", "limit"}

// parseTail reads the filters of a stream and the place that it goes on from.
func (a *Admin) parseTail(c echo.Context) (q query, from *store.Mark, err error) {
	q, err = parseQuery(c.Request().URL.RawQuery, a.now())
	if err != nil {
		return q, nil, err
	}
	for _, name := range onlyOfLists {
		if q.given.Has(name) {
			return q, nil, invalid(name, "unknown", "A tail takes filters only: it begins now and has no end.")
		}
	}
	from, q.filter.After, q.filter.Limit = q.filter.After, nil, tailPage
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		m, ok := readCursor(last)
		if !ok {
			return q, nil, invalid("Last-Event-ID", "invalid", "It is passed back as the stream gave it.")
		}
		from = &m
	}
	q.given.Del("newer")
	return q, from, nil
}

// tailJSON streams rows to scripts.
func (a *Admin) tailJSON(c echo.Context) error {
	return a.stream(c, "send", func(s store.Send) (string, error) {
		body, err := json.Marshal(rowOf(s))
		return string(body), err
	})
}

// tailRows streams rows to the page, as it draws them.
func (a *Admin) tailRows(c echo.Context) error {
	w := wordsFor(c)
	return a.stream(c, "row", func(s store.Send) (string, error) {
		var b bytes.Buffer
		err := a.pages.templates["tail"].ExecuteTemplate(&b, "row", tailRow{s.ID.String(), viewOf(s, w)})
		return b.String(), err
	})
}

// stream answers with what comes, until the reader leaves or is sent away.
func (a *Admin) stream(c echo.Context, event string, draw func(store.Send) (string, error)) error {
	q, from, err := a.parseTail(c)
	if err != nil {
		return err
	}
	r, err := a.tail.join(q.filter)
	if err != nil {
		return &server.Problem{Kind: server.Unavailable, Detail: "So many follow the log already, or the service is stopping."}
	}
	defer a.tail.leave(r)
	select { // or a row that ends before the first look would be in neither
	case <-r.begun:
	case <-c.Request().Context().Done():
		return nil
	}
	var past batch
	if from != nil {
		if past, err = a.since(c, q.filter, *from); err != nil {
			return err
		}
	}
	s := newEvents(c, event, draw)
	if from != nil {
		s.mark = *from
	}
	if err := s.open(past); err != nil {
		return nil // it left
	}
	s.follow(r, a.tail.beat, a.tail.life)
	return nil
}

// since are the rows behind a place, for one who was there.
func (a *Admin) since(c echo.Context, f store.Filter, from store.Mark) (past batch, err error) {
	after := store.Mark{At: from.At.Add(-resumeOverlap)}
	for range resumePages {
		f.After = &after
		rows, err := a.log.Sends(c.Request().Context(), f)
		if err != nil {
			return past, a.unreadable(c.Request().Context(), err)
		}
		slices.Reverse(rows)
		past.rows = append(past.rows, rows...)
		if len(rows) < f.Limit {
			return past, nil
		}
		last := rows[len(rows)-1]
		after = store.Mark{At: last.LoggedAt, ID: last.ID}
	}
	past.gap = true
	return past, nil
}

// events writes one stream.
type events struct {
	c     echo.Context
	rc    *http.ResponseController
	event string
	draw  func(store.Send) (string, error)
	mark  store.Mark // the newest row that was written
}

func newEvents(c echo.Context, event string, draw func(store.Send) (string, error)) *events {
	return &events{c: c, rc: http.NewResponseController(c.Response()), event: event, draw: draw}
}

// open sends the head: nothing on the way may keep it or gather it up (X-Accel-Buffering is nginx's).
func (s *events) open(past batch) error {
	h := s.c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	s.c.Response().WriteHeader(http.StatusOK)
	if err := s.write("retry: 2000\n\n"); err != nil {
		return err
	}
	return s.tell(past)
}

// follow writes what comes. A sign of life keeps the connection open on its way, and finds out when nobody is there.
func (s *events) follow(r *reader, beat, life time.Duration) {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	end := time.NewTimer(life)
	defer end.Stop()
	var err error
	for err == nil {
		select {
		case <-s.c.Request().Context().Done():
			return
		case <-beats.C:
			err = s.write(": \n\n")
		case <-end.C:
			s.bye(endRenew)
			return
		case b, more := <-r.rows:
			if !more {
				s.bye(r.why)
				return
			}
			err = s.tell(b)
		}
	}
}

func (s *events) bye(why string) {
	_ = s.write("event: end\ndata: {\"reason\":\"" + why + "\"}\n\n")
}

func (s *events) tell(b batch) error {
	var out strings.Builder
	if b.gap {
		out.WriteString("event: gap\ndata: {}\n\n")
	}
	for _, row := range b.rows {
		text, err := s.draw(row)
		if err != nil {
			return err
		}
		if m := (store.Mark{At: row.LoggedAt, ID: row.ID}); later(m, s.mark) {
			s.mark = m
		}
		fmt.Fprintf(&out, "event: %s\nid: %s\n", s.event, writeCursor(s.mark))
		for line := range strings.SplitSeq(text, "\n") {
			out.WriteString("data: " + line + "\n")
		}
		out.WriteString("\n")
	}
	if out.Len() == 0 {
		return nil
	}
	return s.write(out.String())
}

// write has its own deadline: the server's is for a whole answer.
func (s *events) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	if _, err := s.c.Response().Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// tailView is the page: the newest rows, and where what comes is asked for.
type tailView struct {
	page
	Filter filterView
	Stream string
	Rows   []tailRow
}

type tailRow struct {
	ID string
	rowView
}

func (a *Admin) tailPage(c echo.Context) error {
	q, _, err := a.parseTail(c)
	if err != nil {
		return err
	}
	q.filter.Limit = defaultLimit
	found, err := a.find(c.Request().Context(), q.filter)
	if err != nil {
		return err
	}
	w := wordsFor(c)
	v := tailView{page: page{W: w, Title: w.Get("tail.title"), In: true, Here: "tail"}, Filter: filterOf(q, w)}
	stream := maps.Clone(q.given)
	for i, row := range found.rows {
		if i == 0 {
			stream.Set("newer", writeCursor(store.Mark{At: row.LoggedAt, ID: row.ID}))
		}
		v.Rows = append(v.Rows, tailRow{row.ID.String(), viewOf(row, w)})
	}
	v.Stream = "/admin/tail/rows?" + stream.Encode()
	return a.pages.show(c, http.StatusOK, "tail", v)
}
