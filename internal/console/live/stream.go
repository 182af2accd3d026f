package live

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/frame"
	"sendcode/internal/server"
	"sendcode/internal/store"
)

// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). A browser keeps the ID of the last
// event that it got, and comes back with it by itself when the connection breaks.

// WriteWait is the timeout of one write. A client that reads nothing for so long is disconnected.
const WriteWait = 10 * time.Second

// Bounds of what a stream reads when it continues: rows shortly before its place, which may have changed, and the pages after it.
const (
	ResumeOverlap = 30 * time.Second
	resumePages   = 5
)

// Stream is what one reader asked for, and how a row is written.
type Stream struct {
	Filter store.Filter // with the limit of one query
	From   *store.Mark  // rows behind it come first; nil: only what comes
	Event  string       // name of a row's event
	Draw   func(store.Send) (string, error)
}

// Serve streams new rows to a reader until the reader leaves or is disconnected. Error: a 503 problem if too many readers follow the log
// or the process stops, or the store's.
func (t *Tail) Serve(c echo.Context, s Stream) error {
	r, err := t.join(s.Filter)
	if err != nil {
		return &server.Problem{Kind: server.Unavailable, Detail: "So many follow the log already, or the service is stopping."}
	}
	defer t.leave(r)
	select { // or a row that ends before the first look would be in neither
	case <-r.begun:
	case <-c.Request().Context().Done():
		return nil
	}
	e, past := &events{Stream: s, c: c, rc: http.NewResponseController(c.Response())}, batch{}
	if s.From != nil {
		e.mark = *s.From
		s.Filter.After = &store.Mark{At: s.From.At.Add(-ResumeOverlap)}
		all, err := t.readAfter(c.Request().Context(), s.Filter, resumePages, func(rows []store.Send) { past.rows = append(past.rows, rows...) })
		if err != nil {
			return err
		}
		past.gap = !all
	}
	if err := e.sendHead(past); err != nil {
		return nil // it left
	}
	e.writePublished(r, t.Beat, t.Life)
	return nil
}

// events writes one stream.
type events struct {
	Stream
	c    echo.Context
	rc   *http.ResponseController
	mark store.Mark // the newest row that was written
}

// sendHead sends the response's head and the past rows. No proxy may store or buffer the stream (X-Accel-Buffering is nginx's).
func (s *events) sendHead(past batch) error {
	h := s.c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	s.c.Response().WriteHeader(http.StatusOK)
	if err := s.write("retry: 2000\n\n"); err != nil {
		return err
	}
	return s.sendBatch(past)
}

// writePublished writes what is published for a reader until the reader leaves, or a goodbye after life. Heartbeats, one every beat, keep
// the connection open and detect that the reader is gone.
func (s *events) writePublished(r *reader, beat, life time.Duration) {
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
		text, err := s.Draw(row)
		if err != nil {
			return err
		}
		if m := markOf(row); isAfter(m, s.mark) {
			s.mark = m
		}
		fmt.Fprintf(&out, "event: %s\nid: %s\n", s.Event, frame.WriteCursor(s.mark))
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

// write sets a deadline of its own, since the server's is for a whole response.
func (s *events) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(WriteWait)); err != nil {
		return err
	}
	if _, err := s.c.Response().Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
