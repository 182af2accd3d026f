package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/frame"
	"sendcode/internal/fault"
	"sendcode/internal/store"
)

// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). A browser keeps the ID of the last
// event that it got, and comes back with it by itself when the connection breaks.

// writeWait is the timeout of one write. A client that reads nothing for so long is disconnected.
const writeWait = 10 * time.Second

// Bounds of what a stream reads when it continues: rows shortly before its place, which may have changed, and the pages after it.
const (
	resumeOverlap = 30 * time.Second
	resumePages   = 5
)

// listParameters are parameters that a stream rejects: it begins now, has no end, and knows only what is in a row.
var listParameters = []string{"from", "to", "last", "cursor", "limit", "outcome", "network", "request"}

// parseTail parses the filters of a stream and the place where it continues.
func (a *Console) parseTail(c echo.Context) (f store.Filter, from *store.Mark, err error) {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
	if err != nil {
		return f, nil, err
	}
	if err := q.rejectParameters("A tail takes filters only: it begins now and has no end.", listParameters...); err != nil {
		return f, nil, err
	}
	f = q.filter
	from, f.After, f.Limit = f.After, nil, tailLimit
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		m, ok := frame.ReadCursor(last)
		if !ok {
			return f, nil, fault.Invalid("Last-Event-ID", "invalid", "It is passed back as the stream gave it.")
		}
		from = &m
	}
	return f, from, nil
}

// streamAddress returns the address of the stream that tells what changes in a list: rows after newest, and changes of those shortly before
// it. It returns "" if there is no such stream: the list is not the first page, has an end, or filters by what is not in a row.
func streamAddress(q query, newest store.Mark) string {
	f := q.filter
	if f.Before != nil || f.After != nil || !f.To.IsZero() || f.Outcome != "" || f.Network+f.Request != "" {
		return ""
	}
	given := url.Values{}
	for name, values := range q.given {
		if !slices.Contains(listParameters, name) {
			given[name] = values
		}
	}
	return frame.Address("/v1/admin/tail", given, "newer", frame.WriteCursor(newest))
}

// tailStream streams rows to a reader until the reader leaves, its session ends or it is disconnected.
func (a *Console) tailStream(c echo.Context) error {
	f, from, err := a.parseTail(c)
	if err != nil {
		return err
	}
	if c.Request().Method == http.MethodHead {
		writeStreamHeader(c)
		return nil
	}
	r, err := a.tail.join(f)
	if err != nil {
		return err
	}
	defer a.tail.leave(r)
	select { // or a row that ends before the first look would be in neither
	case <-r.begun:
	case <-c.Request().Context().Done():
		return nil
	}
	e, past := &events{c: c, rc: http.NewResponseController(c.Response())}, batch{}
	if from != nil {
		e.mark = *from
		f.After = &store.Mark{At: from.At.Add(-resumeOverlap)}
		all, err := a.tail.readAfter(c.Request().Context(), f, resumePages, func(rows []store.Send) { past.rows = append(past.rows, rows...) })
		if err != nil {
			return err
		}
		past.gap = !all
	}
	if err := e.sendHead(past); err != nil {
		return nil // it left
	}
	e.writePublished(r, a.tail.beat, a.tail.life, func() bool { return a.auth.StillAdmitted(c) })
	return nil
}

// events writes one stream.
type events struct {
	c    echo.Context
	rc   *http.ResponseController
	mark store.Mark // the newest row that was written
}

// writeStreamHeader writes a stream's header. No proxy may store or buffer the stream (X-Accel-Buffering is nginx's).
func writeStreamHeader(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	c.Response().WriteHeader(http.StatusOK)
}

// sendHead sends the response's header and the past rows.
func (s *events) sendHead(past batch) error {
	writeStreamHeader(s.c)
	if err := s.write("retry: 2000\n\n"); err != nil {
		return err
	}
	return s.sendBatch(past)
}

// writePublished writes what is published for a reader until the reader leaves, or a goodbye after life or when the reader is not admitted
// any more. Heartbeats, one every beat, keep the connection open and detect that the reader is gone.
func (s *events) writePublished(r *reader, beat, life time.Duration, admitted func() bool) {
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
			if !admitted() {
				s.sendGoodbye(endRenew)
				return
			}
			err = s.write(": \n\n")
		case <-end.C:
			s.sendGoodbye(endRenew)
			return
		case b, more := <-r.rows:
			if !more {
				s.sendGoodbye(r.why)
				return
			}
			err = s.sendBatch(b)
		}
	}
}

func (s *events) sendGoodbye(why string) {
	_ = s.write("event: end\ndata: {\"reason\":\"" + why + "\"}\n\n")
}

func (s *events) sendBatch(b batch) error {
	var out strings.Builder
	if b.gap {
		out.WriteString("event: gap\ndata: {}\n\n")
	}
	for _, row := range b.rows {
		text, err := json.Marshal(rowJSON(row))
		if err != nil {
			return err
		}
		if m := markOf(row); isAfter(m, s.mark) {
			s.mark = m
		}
		fmt.Fprintf(&out, "event: send\nid: %s\ndata: %s\n\n", frame.WriteCursor(s.mark), text)
	}
	if out.Len() == 0 {
		return nil
	}
	return s.write(out.String())
}

// write sets a deadline of its own, since the server's is for a whole response.
func (s *events) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	if _, err := s.c.Response().Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
