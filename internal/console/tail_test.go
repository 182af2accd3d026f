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
	"sendcode/internal/console/listing"
	"sendcode/internal/console/live"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	r.sent("old@example.com")
	r.Clock.Add(time.Minute)
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	r.Log.SetFault(func(method string) sqlite.Fault {
		if method == "Sends" {
			look()
		}
		return sqlite.None
	})
	next, resp := listen(t, base, "/v1/admin/tail?app=shop")
	h := resp.Header
	if resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-store") {
		t.Fatalf("%d %v", resp.StatusCode, h)
	}
	<-looked // what the first look finds was there before
	first := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "line\nbreak" })
	e := next()
	for rowIn(t, e).Status == store.Sending { // a look between its two writes
		e = next()
	}
	if row := rowIn(t, e); row != (told{first.ID.String(), "a•••@example.com", store.Sent}) || strings.Count(e.data, "\n") != 1 {
		t.Errorf("%+v", row)
	}
	// Longer than the server's own timeouts later it still comes.
	after := time.After(1500 * time.Millisecond)
	<-after
	r.Clock.Add(time.Second)
	second := r.begin("li@example.com").Send
	e = next()
	if row := rowIn(t, e); row.ID != second.ID.String() || row.Status != store.Sending {
		t.Errorf("%+v", row)
	}
	r.finish(second, store.Outcome{Status: store.Sent})
	if row := rowIn(t, next()); row.ID != second.ID.String() || row.Status != store.Sent {
		t.Errorf("%+v", row)
	}
	// A reader who reconnects continues where it was; rows of the moment before are sent again as they are now.
	r.Clock.Add(2 * live.ResumeOverlap)
	third := r.sent("sam@example.com")
	r.Clock.Add(2 * live.ResumeOverlap)
	again, _ := listen(t, base, "/v1/admin/tail", "Last-Event-ID", e.id)
	for _, want := range []string{first.ID.String(), second.ID.String(), third.ID.String()} {
		e2 := again()
		if row := rowIn(t, e2); row.ID != want {
			t.Errorf("%s, want %s", row.ID, want)
		}
		if want != third.ID.String() && e2.id != e.id { // a second break must not lead further back
			t.Errorf("the place went back")
		}
	}
}

// A row that begins and ends during the first look at the log is sent too.
func TestTailTellsWhatEndsBeforeItsFirstLook(t *testing.T) {
	let := make(chan struct{})
	r, _, base := served(t)
	r.Log.SetHook(func(_ context.Context, method string, at sqlite.Stage) sqlite.Fault {
		if method == "Sends" && at == sqlite.Asking {
			<-let
		}
		return sqlite.None
	})
	old := r.sent("old@example.com")
	r.Clock.Add(time.Minute)
	opened := make(chan func() sse)
	go func() {
		next, _ := listen(t, base, "/v1/admin/tail?newer="+url.QueryEscape(listing.WriteCursor(store.Mark{At: old.LoggedAt, ID: old.ID})))
		opened <- next
	}()
	awaitReaders(t, r, 1)
	s := r.sent("ana@example.com")
	close(let)
	next := <-opened
	for _, want := range []string{old.ID.String(), s.ID.String()} { // the place itself is told again
		if row := rowIn(t, next()); row.ID != want || row.Status != store.Sent {
			t.Errorf("%+v, want %s", row, want)
		}
	}
}

func awaitReaders(t *testing.T, r *rig, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if r.console.tail.Readers() == n {
			return
		}
		<-tick.C
	}
	t.Fatalf("not %d readers", n)
}

func TestTailEnds(t *testing.T) {
	r, console, base := served(t)
	console.tail.Beat, console.tail.Life = 50*time.Millisecond, 10*time.Second
	next, _ := listen(t, base, "/v1/admin/tail")
	for range 10 { // signs of life, past the server's timeouts
		if e := next(); e.event != "beat" {
			t.Fatalf("%+v", e)
		}
	}
	console.tail.Life = 100 * time.Millisecond
	short, _ := listen(t, base, "/v1/admin/tail")
	for e := short(); e.event != "end"; e = short() {
		if e.event != "beat" {
			t.Fatalf("%+v", e)
		}
	}
	awaitReaders(t, r, 1)
	console.Stop()
	for e := next(); e.event != "end" || !strings.Contains(e.data, "stopping"); e = next() {
		if e.event != "beat" {
			t.Fatalf("%+v", e)
		}
	}
	if _, resp := listen(t, base, "/v1/admin/tail"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the stop: %d", resp.StatusCode)
	}
}

func TestTailRefuses(t *testing.T) {
	_, b := visited(t)
	for path, status := range map[string]int{
		"/v1/admin/tail?limit=5": 422, "/v1/admin/tail?from=2026-01-01T00:00:00Z": 422, "/v1/admin/tail?cursor=" + listing.WriteCursor(store.Mark{At: consoletest.Start}): 422,
		"/v1/admin/tail?last=1h": 422, "/v1/admin/tail?status=lost": 422, "/v1/admin/tail?newer=x": 422, "/admin/tail/rows?limit=5": 422,
	} {
		want(t, b.Get(path, "Authorization", "Bearer "+consoletest.Token), status)
	}
	want(t, b.Get("/v1/admin/tail", "Authorization", "Bearer "+consoletest.Token, "Last-Event-ID", "x"), 422)
}

func TestTailPage(t *testing.T) {
	r, b := loggedIn(t)
	contains(t, b.Get("/admin/tail"), "Nothing yet", `data-tail="/admin/tail/rows?"`)
	s := r.sent("ana@example.com")
	rec := b.Get("/admin/tail?app=shop&status=sent")
	cursor := url.QueryEscape(listing.WriteCursor(store.Mark{At: s.LoggedAt, ID: s.ID}))
	contains(t, rec, `id="r-`+s.ID.String(), "a•••@example.com", `data-tail="/admin/tail/rows?app=shop&amp;newer=`+cursor+`&amp;status=sent"`, `value="sent" selected`)
	lacks(t, rec, "ana@", " style=")
}
