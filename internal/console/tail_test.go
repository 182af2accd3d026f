package console

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/frame"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// served is a console behind a server whose own timeouts are far shorter than a stream.
func served(t *testing.T) (r *rig, a *Console, base string) {
	t.Helper()
	r = newRig(t)
	s := httptest.NewUnstartedServer(r.Handler)
	s.Config.ReadTimeout, s.Config.WriteTimeout = time.Second, time.Second
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(r.console.Stop)
	return r, r.console, s.URL
}

// sse is one event as a browser would get it.
type sse struct{ event, id, data string }

// open makes a request with the token, whose answer is read while it comes.
func open(t *testing.T, address string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+consoletest.Token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// listen opens a stream.
func listen(t *testing.T, base, path string, header ...string) (next func() sse, resp *http.Response) {
	t.Helper()
	resp = open(t, base+path, header...)
	lines := bufio.NewScanner(resp.Body)
	return func() (e sse) {
		t.Helper()
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "" && e != sse{}:
				return e
			case name == "event":
				e.event = value
			case name == "id":
				e.id = value
			case name == "data":
				e.data += value + "\n"
			case strings.HasPrefix(lines.Text(), ":"):
				e.event = "beat"
			}
		}
		return sse{event: "over"}
	}, resp
}

// told is what the tests read of a row in JSON.
type told struct {
	ID, To string
	Status store.Status
}

func rowIn(t *testing.T, e sse) (row told) {
	t.Helper()
	if e.event != "send" || json.Unmarshal([]byte(e.data), &row) != nil {
		t.Fatalf("%+v", e)
	}
	return row
}

func TestTailStreams(t *testing.T) {
	r, _, base := served(t)
	old := r.sent("old@example.com")
	r.Clock.Add(time.Minute)
	// What comes while the database is looked at for the first time is sent too.
	looks, let := make(chan struct{}), make(chan struct{})
	look := sync.OnceFunc(func() { close(looks) })
	r.Store.SetHook(func(_ context.Context, method string, at sqlitetest.Stage) sqlitetest.Fault {
		if method == "Sends" && at == sqlitetest.Asking {
			look()
			<-let
		}
		return sqlitetest.None
	})
	opened := make(chan func() sse, 1)
	go func() {
		next, resp := listen(t, base, "/v1/admin/tail?newer="+url.QueryEscape(frame.EncodeCursor(cursorOf(old))))
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" ||
			h.Get("X-Accel-Buffering") != "no" ||
			!strings.Contains(h.Get("Cache-Control"), "no-store") {
			t.Errorf("%d %v", resp.StatusCode, h)
		}
		opened <- next
	}()
	<-looks
	first := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "line\nbreak" })
	close(let)
	next := <-opened
	rowIs := func(e sse, s store.Send, status store.Status) {
		t.Helper()
		if row := rowIn(t, e); row != (told{s.ID.String(), s.To, status}) || strings.Count(e.data, "\n") != 1 {
			t.Errorf("%+v", row)
		}
	}
	rowIs(next(), old, store.Sent) // the place itself is told again
	e := next()
	rowIs(e, first, store.Sent)
	after := time.After(1500 * time.Millisecond) // longer than the server's own timeouts later it still comes
	<-after
	r.Clock.Add(time.Second)
	second := r.begin("li@example.com").Send
	e = next()
	rowIs(e, second, store.Sending)
	r.finish(second, store.Outcome{Status: store.Sent})
	rowIs(next(), second, store.Sent)
	// A reader who reconnects continues where it was; rows of the moment before are sent again as
	// they are now.
	r.Clock.Add(2 * resumeOverlap)
	third := r.sent("sam@example.com")
	r.Clock.Add(2 * resumeOverlap)
	again, _ := listen(t, base, "/v1/admin/tail", "Last-Event-ID", e.id)
	for _, want := range []store.Send{first, second, third} {
		e2 := again()
		rowIs(e2, want, store.Sent)
		if want.ID != third.ID && e2.id != e.id { // a second break must not lead further back
			t.Errorf("the place went back")
		}
	}
}

func TestTailEnds(t *testing.T) {
	r, console, base := served(t)
	ends := func(next func() sse, reason string) {
		t.Helper()
		e := next()
		for e.event == "beat" {
			e = next()
		}
		if e.event != "end" || !strings.Contains(e.data, reason) {
			t.Errorf("%+v, not for %s", e, reason)
		}
	}
	console.beat, console.life = 50*time.Millisecond, 10*time.Second
	next, _ := listen(t, base, "/v1/admin/tail")
	for range 3 { // signs of life
		servertest.Same(t, "event", next().event, "beat")
	}
	lost, _ := listen(t, base, "/v1/admin/tail")
	r.Store.SetFault(func(method string) sqlitetest.Fault {
		if method == "Sends" {
			return sqlitetest.Down
		}
		return sqlitetest.None
	})
	ends(lost, "unavailable")
	ends(next, "unavailable")
	_, resp := listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "while the database is away", resp.StatusCode, http.StatusServiceUnavailable)
	r.Store.SetFault(nil)
	next, _ = listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "event", next().event, "beat")
	console.life = 100 * time.Millisecond
	short, _ := listen(t, base, "/v1/admin/tail")
	ends(short, "renew")
	console.Stop()
	ends(next, "stopping")
	_, resp = listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "after the stop", resp.StatusCode, http.StatusServiceUnavailable)
}

// Of more streams than may be open at once, the last is refused; once another has left, the next is
// let in.
func TestTailIsBounded(t *testing.T) {
	_, console, base := served(t)
	for range maxConcurrentStreams {
		console.streams <- struct{}{}
	}
	_, resp := listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "one too many", resp.StatusCode, http.StatusServiceUnavailable)
	<-console.streams
	_, resp = listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "the last", resp.StatusCode, http.StatusOK)
	_, another := listen(t, base, "/v1/admin/tail")
	servertest.Same(t, "one too many again", another.StatusCode, http.StatusServiceUnavailable)
	_ = resp.Body.Close()
	servertest.Await(t, "room for the next stream", func() bool { return len(console.streams) == maxConcurrentStreams-1 })
}

func TestTailRefuses(t *testing.T) {
	_, b := loggedIn(t)
	for _, query := range []string{
		"limit=5", "from=2026-01-01T00:00:00Z", "cursor=" + frame.EncodeCursor(store.Cursor{At: consoletest.Start}),
		"last=1h", "status=lost",
		"newer=x", "outcome=entered", "network=198.51.100.0/24",
	} {
		want(t, b.Get("/v1/admin/tail?"+query), 422)
	}
	want(t, b.Get("/v1/admin/tail", "Last-Event-ID", "x"), 422)
}

// A stream ends with the session that opened it, and prolongs none.
func TestTailEndsWithTheSession(t *testing.T) {
	r, console, base := served(t)
	console.beat = 10 * time.Millisecond
	b := r.LoggedIn()
	cookie := "sendcode-admin=" + b.Cookies["sendcode-admin"].Value
	stream := func() func() sse {
		next, resp := listen(t, base, "/v1/admin/tail", "Cookie", cookie, "Authorization", "",
			"Sec-Fetch-Dest", "empty")
		servertest.Same(t, "status", resp.StatusCode, http.StatusOK)
		return next
	}
	ends := func(next func() sse) {
		t.Helper()
		for e := next(); e.event != "end"; e = next() {
			if e.event != "beat" {
				t.Fatalf("%+v", e)
			}
		}
	}
	out := stream()
	r.Clock.Add(29 * time.Minute)
	idle := stream()
	r.Clock.Add(time.Minute)
	ends(idle)
	ends(out)
	b = r.LoggedIn()
	cookie = "sendcode-admin=" + b.Cookies["sendcode-admin"].Value
	out = stream()
	want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
	ends(out)
}

// The first page names the stream of its filters, which begins at its newest row; other pages, and
// those that filter by what is not in a row, name none.
func TestListNamesItsStream(t *testing.T) {
	r, b := loggedIn(t)
	newest := url.QueryEscape(frame.EncodeCursor(cursorOf(r.sent("ana@example.com"))))
	for query, stream := range map[string]string{
		"": "newer=" + newest, "?status=sent&last=24h&limit=5": "newer=" + newest + "&amp;status=sent",
		"?domain=example.org": "domain=example.org&amp;newer=",
		"?outcome=waiting":    "", "?network=203.0.113.0/24": "", "?to=2030-01-01T00:00:00Z": "",
		"?cursor=" + frame.EncodeCursor(store.Cursor{At: consoletest.Start}): "",
	} {
		rec := want(t, b.Get("/admin"+query), http.StatusOK)
		if stream == "" {
			lacks(t, rec, "data-stream")
			continue
		}
		contains(t, rec, `data-stream="/v1/admin/tail?`+stream)
	}
}
