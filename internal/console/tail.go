package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/console/frame"
	"sendcode/internal/fault"
	"sendcode/internal/server"
	"sendcode/internal/store"
)

// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). A browser
// keeps the ID of the last event that it got, and comes back with it by itself when the connection
// breaks.

// Bounds of the streams.
const (
	maxStreams = 64               // of one process
	tailTick   = time.Second      // between two queries of a stream
	tailBeat   = 15 * time.Second // between two signs of life, at which the session is checked too
	tailLife   = 15 * time.Minute // of one stream; a browser then reconnects
	writeWait  = 10 * time.Second // of one write: a client that reads nothing for so long is disconnected
)

// Why a stream ends.
const (
	endStopping    = "stopping"    // this process stops
	endRenew       = "renew"       // it has reached its maximum age, or its session has ended
	endUnavailable = "unavailable" // the database does not answer
)

// listParameters are parameters that a stream rejects: it begins now, has no end, and knows only
// what is in a row.
var listParameters = []string{"from", "to", "last", "cursor", "limit", "outcome", "network", "request"}

// parseTail parses the filters of a stream and the place where it continues.
func (a *Console) parseTail(c echo.Context) (f store.Filter, from *store.Cursor, err error) {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
	if err != nil {
		return f, nil, err
	}
	if err := q.rejectParameters("A tail takes filters only: it begins now and has no end.",
		listParameters...); err != nil {
		return f, nil, err
	}
	f = q.filter
	from, f.After = f.After, nil
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		m, ok := frame.ReadCursor(last)
		if !ok {
			return f, nil, fault.Invalid("Last-Event-ID", "invalid", "It is passed back as the stream gave it.")
		}
		from = &m
	}
	return f, from, nil
}

// streamAddress returns the address of the stream that tells what changes in a list: rows after
// newest, and changes of those shortly before it. It returns "" if there is no such stream: the
// list is not the first page, has an end, or filters by what is not in a row.
func streamAddress(q query, newest store.Cursor) string {
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

// tailStream streams rows until the client leaves, its session ends or the process stops. Errors: a
// 503 problem if too many streams are open or the process stops, and the store's.
func (a *Console) tailStream(c echo.Context) error {
	f, from, err := a.parseTail(c)
	if err != nil {
		return err
	}
	e := &events{c: c, rc: http.NewResponseController(c.Response())}
	if from != nil {
		e.mark = *from
	}
	if c.Request().Method == http.MethodHead {
		e.writeHeader()
		return nil
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		return &server.Problem{Kind: server.Unavailable, Detail: "Too many streams are open."}
	}
	if a.stopping.Err() != nil {
		return &server.Problem{Kind: server.Unavailable, Detail: "The service is stopping."}
	}
	t := &tail{db: a.DB, filter: f, seen: map[uuid.UUID]store.SendOrRefusal{}}
	past, gap, err := t.begin(c.Request().Context(), from, a.Now())
	if err != nil {
		return err
	}
	e.writeHeader()
	if e.write("retry: 2000\n\n") == nil && e.sendRows(past, gap) == nil {
		a.follow(t, e)
	}
	return nil
}

// follow writes what a stream finds until it ends.
func (a *Console) follow(t *tail, e *events) {
	ticks, beats, end := time.NewTicker(tailTick), time.NewTicker(a.beat), time.NewTimer(a.life)
	defer ticks.Stop()
	defer beats.Stop()
	defer end.Stop()
	var err error
	for err == nil {
		select {
		case <-e.c.Request().Context().Done():
			return
		case <-a.stopping.Done():
			e.sendGoodbye(endStopping)
			return
		case <-end.C:
			e.sendGoodbye(endRenew)
			return
		case <-beats.C:
			if !a.auth.StillAdmitted(e.c) {
				e.sendGoodbye(endRenew)
				return
			}
			err = e.write(": \n\n")
		case <-ticks.C:
			rows, gap, failed := t.look(e.c.Request().Context(), a.Now())
			if failed != nil {
				e.sendGoodbye(endUnavailable)
				return
			}
			err = e.sendRows(rows, gap)
		}
	}
}

// events writes one stream.
type events struct {
	c    echo.Context
	rc   *http.ResponseController
	mark store.Cursor // the newest row that was written
}

// writeHeader writes a stream's header. No proxy may store or buffer the stream (X-Accel-Buffering
// is nginx's).
func (e *events) writeHeader() {
	h := e.c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	e.c.Response().WriteHeader(http.StatusOK)
}

func (e *events) sendGoodbye(why string) {
	_ = e.write("event: end\ndata: {\"reason\":\"" + why + "\"}\n\n")
}

// sendRows writes rows, and before them, with gap, that others were left out.
func (e *events) sendRows(rows []store.SendOrRefusal, gap bool) error {
	var out strings.Builder
	if gap {
		out.WriteString("event: gap\ndata: {}\n\n")
	}
	for _, row := range rows {
		text, err := json.Marshal(rowJSON(row))
		if err != nil {
			return err
		}
		if store.CompareLogged(row, store.SendOrRefusal{Send: store.Send{ID: e.mark.ID, LoggedAt: e.mark.At}}) > 0 {
			e.mark = markOf(row.Send)
		}
		fmt.Fprintf(&out, "event: send\nid: %s\ndata: %s\n\n", frame.WriteCursor(e.mark), text)
	}
	if out.Len() == 0 {
		return nil
	}
	return e.write(out.String())
}

// write sets a deadline of its own, since the server's is for a whole response.
func (e *events) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	if _, err := e.c.Response().Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}
