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
	maxConcurrentStreams = 64               // of one process
	tailPollInterval     = time.Second      // between two queries of a stream
	tailHeartbeat        = 15 * time.Second // between two comment lines that keep the connection open; the session is checked then too
	maxTailAge           = 15 * time.Minute // of one stream; a browser then reconnects
	writeTimeout         = 10 * time.Second // a client that reads nothing for so long is disconnected
)

// Why a stream ends.
const (
	endReasonStopping    = "stopping"    // this process stops
	endReasonRenew       = "renew"       // it has reached its maximum age, or its session has ended
	endReasonUnavailable = "unavailable" // the database does not answer
)

// parametersNotForStreams are the parameters that a stream rejects, since it begins now, has no
// end, and filters only by what a row contains.
var parametersNotForStreams = []string{"from", "to", "last", "cursor", "limit", "outcome", "network", "request"}

// parseStreamQuery parses the filters of a stream and the place from which it continues; nil: it
// begins now.
func (a *Console) parseStreamQuery(c echo.Context) (f store.Filter, from *store.Cursor, err error) {
	q, err := parseQuery(c.Request().URL.RawQuery, a.Now(), time.UTC)
	if err != nil {
		return f, nil, err
	}
	if err := q.rejectParameters("A tail takes filters only: it begins now and has no end.",
		parametersNotForStreams...); err != nil {
		return f, nil, err
	}
	f = q.filter
	from, f.After = f.After, nil
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		m, ok := frame.DecodeCursor(last)
		if !ok {
			return f, nil, fault.Invalid("Last-Event-ID", "invalid", "It is passed back as the stream gave it.")
		}
		from = &m
	}
	return f, from, nil
}

// streamAddress returns the address of a stream: of the list's rows after newest, and of changes to
// the rows shortly before newest. It returns "" if the list is not the first page, ends at a time,
// or has a filter that streams reject.
func streamAddress(q listQuery, newest store.Cursor) string {
	f := q.filter
	if f.Before != nil || f.After != nil || !f.To.IsZero() || f.Outcome != "" || f.Network+f.Request != "" {
		return ""
	}
	given := url.Values{}
	for name, values := range q.given {
		if !slices.Contains(parametersNotForStreams, name) {
			given[name] = values
		}
	}
	return frame.ListAddress("/v1/admin/tail", given, "newer", frame.EncodeCursor(newest))
}

// tailStream streams rows until the client leaves, its session ends or the process stops. Errors: a
// 503 problem if too many streams are open or the process stops, and the store's.
func (a *Console) tailStream(c echo.Context) error {
	f, from, err := a.parseStreamQuery(c)
	if err != nil {
		return err
	}
	e := &eventWriter{c: c, rc: http.NewResponseController(c.Response())}
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
	t := &tailPoller{db: a.DB, filter: f, seen: map[uuid.UUID]store.SendOrRefusal{}}
	past, gap, err := t.begin(c.Request().Context(), from, a.Now())
	if err != nil {
		return err
	}
	e.writeHeader()
	if e.write("retry: 2000\n\n") == nil && e.writeRows(past, gap) == nil {
		a.followTail(t, e)
	}
	return nil
}

// followTail polls and writes rows until the stream ends.
func (a *Console) followTail(t *tailPoller, e *eventWriter) {
	ticks, beats, end := time.NewTicker(tailPollInterval), time.NewTicker(a.beat), time.NewTimer(a.life)
	defer ticks.Stop()
	defer beats.Stop()
	defer end.Stop()
	var err error
	for err == nil {
		select {
		case <-e.c.Request().Context().Done():
			return
		case <-a.stopping.Done():
			e.writeEnd(endReasonStopping)
			return
		case <-end.C:
			e.writeEnd(endReasonRenew)
			return
		case <-beats.C:
			if !a.auth.StillAdmitted(e.c) {
				e.writeEnd(endReasonRenew)
				return
			}
			err = e.write(": \n\n")
		case <-ticks.C:
			rows, gap, failed := t.poll(e.c.Request().Context(), a.Now())
			if failed != nil {
				e.writeEnd(endReasonUnavailable)
				return
			}
			err = e.writeRows(rows, gap)
		}
	}
}

// eventWriter writes one stream.
type eventWriter struct {
	c    echo.Context
	rc   *http.ResponseController
	mark store.Cursor // the newest row that was written
}

// writeHeader writes a stream's header. No proxy may store or buffer the stream (X-Accel-Buffering
// is nginx's).
func (e *eventWriter) writeHeader() {
	h := e.c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Cache-Control", "no-store, no-transform")
	e.c.Response().WriteHeader(http.StatusOK)
}

func (e *eventWriter) writeEnd(why string) {
	_ = e.write("event: end\ndata: {\"reason\":\"" + why + "\"}\n\n")
}

// writeRows writes rows. If gap, it first writes an event that says that earlier rows are missing.
func (e *eventWriter) writeRows(rows []store.SendOrRefusal, gap bool) error {
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
			e.mark = cursorOf(row.Send)
		}
		fmt.Fprintf(&out, "event: send\nid: %s\ndata: %s\n\n", frame.EncodeCursor(e.mark), text)
	}
	if out.Len() == 0 {
		return nil
	}
	return e.write(out.String())
}

// write writes a text and flushes it, with a deadline of its own: the server's is for a whole
// response.
func (e *eventWriter) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := e.c.Response().Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}
