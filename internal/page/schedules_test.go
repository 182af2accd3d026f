package page_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
	"sendcode/web"
)

var (
	scheduled = flag.Int("page.schedules", 20, "how many schedules the button is tried on")
	firstOf   = flag.Int("page.schedule", 1, "the first of them: its seed")
)

// worldsAtATime is how many schedules run beside each other, each in a world of its own.
const worldsAtATime = 12

// theButtonKeepsToTheServer: on random schedules of a machine with clocks that are wrong and are set, that sleeps, and on which the page is
// loaded again and opened twice, the button is never active before the server would accept a send, and at most a second later it is.
// A send of another tab may take that second to be known. A press on an active button is a send.
//
// The script is the page's own, in a document of its own for each load; testdata/schedules.js is the machine.
func theButtonKeepsToTheServer(t *testing.T, browser context.Context) {
	worlds := make([]*timetable, worldsAtATime)
	for i := range worlds {
		worlds[i] = &timetable{world: world(t, quota.Rule{Name: "pause", Scope: quota.Recipient, Limit: 1, Window: 20 * time.Second},
			quota.Rule{Name: "some", Scope: quota.Recipient, Limit: 3, Window: 70 * time.Second})}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /schedules", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><script type="module">import { schedules } from '/schedules.js'; window.schedules = schedules</script>`)
	})
	mux.HandleFunc("GET /schedules.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/schedules.js") })
	mux.HandleFunc("GET "+web.StaticPath, web.ServeStatic)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if i, err := strconv.Atoi(r.Header.Get("X-World")); err == nil && i < len(worlds) {
			worlds[i].ServeHTTP(w, r)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	b := open(t, browser, worlds[0].world, pagetest.Look{})
	b.do(chromedp.Navigate(s.URL + "/schedules"))
	b.until("window.schedules")
	done := eval[struct {
		Sends int
		Wrong []string
	}](b, fmt.Sprintf(`schedules(%d, %d, %d, %q).catch((error) => ({ Sends: 0, Wrong: [String(error.stack)] }))`,
		*firstOf, *scheduled, len(worlds), web.StaticURL("page.js")))
	for _, wrong := range done.Wrong {
		t.Errorf("%s", wrong)
	}
	t.Logf("%d schedules, %d sends", *scheduled, done.Sends)
	if !t.Failed() && done.Sends < 2**scheduled {
		t.Errorf("%d schedules had %d sends", *scheduled, done.Sends)
	}
}

// timetable is a world whose requests say when they come, and what browser they come from: by the seed of a schedule.
type timetable struct {
	mu    sync.Mutex
	world *pagetest.World
	seed  string
	began time.Time
	jar   map[string]*http.Cookie
	sends int // before this schedule
}

func (s *timetable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seed := r.Header.Get("X-Seed"); seed != s.seed {
		s.seed, s.began, s.jar, s.sends = seed, s.world.Now(), map[string]*http.Cookie{}, s.world.Codes.Sends()
	}
	now, _ := strconv.Atoi(r.Header.Get("X-Now"))
	s.world.Advance(s.began.Add(time.Duration(now) * time.Microsecond).Sub(s.world.Now()))
	answer := httptest.NewRecorder()
	if r.URL.Path == "/settle" {
		s.world.Codes.Settle(store.Sent)
	} else {
		r.Header.Del("Accept-Encoding")
		r.Header.Del("Cookie")
		for _, c := range s.jar {
			r.AddCookie(c)
		}
		s.world.ServeHTTP(answer, r)
	}
	for _, c := range answer.Result().Cookies() {
		s.jar[c.Name] = c
	}
	wait, _ := s.world.Codes.Wait("person" + s.seed + "@example.com")
	w.Header().Set("X-Wait", strconv.FormatInt(wait.Microseconds()+1, 10))
	w.Header().Set("X-Sends", strconv.Itoa(s.world.Codes.Sends()-s.sends))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if to := answer.Header().Get("Location"); to != "" {
		w.Header().Set("Location", to)
	}
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}
