//go:build nightly

// Only `make nightly` runs these tests: hundreds of people take minutes.

package page_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/web"
)

var (
	people  = flag.Int("page.people", 30, "how many impatient people are tried at the page, and as many at the widget")
	firstOf = flag.Int("page.person", 1, "the first of them: its seed")
)

// worldsAtATime is the number of people that are simulated at the same time, each in a separate
// world.
const worldsAtATime = 12

// impatientPeople simulates people and machines. A machine has clocks that are wrong and get set,
// sleeps, loses its connection, and has tabs that are frozen, reloaded and opened twice. A person
// presses early and twice, enters wrong codes, and goes back. For each person, the button is never
// active before the server would accept a send, and is active at most a second later; a page may
// need that second to learn of a send in another tab. No card contradicts the server, each card
// offers a next step, and a person who becomes patient has the address confirmed.
//
// The scripts are the service's own; testdata/people.js simulates the machine.
func impatientPeople(t *testing.T, browser context.Context, kind string) {
	worlds := make([]*timetable, worldsAtATime)
	for i := range worlds {
		w := world(t, quota.Rule{Name: "pause", Scope: quota.Recipient, Limit: 1, Window: 20 * time.Second},
			quota.Rule{Name: "some", Scope: quota.Recipient, Limit: 3, Window: 70 * time.Second})
		w.Allow(widgetOrigin)
		if i%2 == 0 {
			w.Codes.SetLife(time.Minute)
		}
		worlds[i] = &timetable{world: w}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /people", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w,
			`<!doctype html><html lang="en"><script type="module">import { people } from '/people.js'; window.people = people</script>`)
	})
	mux.HandleFunc("GET /people.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/people.js") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if i, err := strconv.Atoi(r.Header.Get("X-World")); err == nil && i < len(worlds) {
			worlds[i].ServeHTTP(w, r)
			return
		}
		worlds[0].world.ServeHTTP(w, r) // serves the scripts
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	b := open(t, browser, worlds[0].world, browsertest.Look{})
	b.tolerate = "Failed to load resource" // from a service that is down
	b.do(chromedp.Navigate(s.URL + "/people"))
	b.until("window.people")
	done := eval[struct {
		Sends int
		Wrong []string
	}](b, fmt.Sprintf(`people(%d, %d, %d, %q, %q, %q).catch((error) => ({ Sends: 0, Wrong: [String(error.stack)] }))`,
		*firstOf, *people, len(worlds), kind, web.StaticURL("page.js"), pagetest.PublicKey))
	for _, wrong := range done.Wrong {
		t.Errorf("%s", wrong)
	}
	t.Logf("%d people, %d sends", *people, done.Sends)
	if !t.Failed() && done.Sends < 2**people {
		t.Errorf("%d people had %d sends", *people, done.Sends)
	}
}

// widgetOrigin is the site with the widget of these people.
const widgetOrigin = "https://shop.example"

// timetable serves a world to simulated people, one after the other. Each request has the seed of
// its person, and the time to which the world's clock is moved.
type timetable struct {
	mu    sync.Mutex
	world *pagetest.World
	seed  string
	began time.Time
	jar   map[string]*http.Cookie
	sends int // number of sends before this person
	known int // number of verifications before this person
	down  bool
}

// truth has the service's own state, with which a test compares a person's cards.
type truth struct {
	Wait  float64 // ms until the next send is accepted
	Sends int
	All   []verificationTruth
}

type verificationTruth struct {
	ID      string
	State   verification.State
	Status  store.Status
	Number  int
	Tries   int
	Expires float64 // in ms
}

func (t *timetable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	codes := t.world.Codes
	if seed := r.Header.Get("X-Seed"); seed != t.seed {
		t.seed, t.began, t.jar, t.sends, t.known = seed, t.world.Now(), map[string]*http.Cookie{}, codes.Sends(), codes.Verifications()
	}
	now, _ := strconv.Atoi(r.Header.Get("X-Now"))
	t.world.Advance(t.began.Add(time.Duration(now) * time.Microsecond).Sub(t.world.Now()))
	answer := httptest.NewRecorder()
	switch r.URL.Path {
	case "/control":
		if to := r.URL.Query().Get("settle"); to != "" {
			codes.SetDown(false)
			codes.Settle(store.Status(to))
			codes.SetDown(t.down)
		} else {
			t.down = r.URL.Query().Get("down") != ""
			codes.SetDown(t.down)
		}
	default:
		r.Header.Del("Accept-Encoding")
		r.Header.Del("Cookie")
		// each person has a different network
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("2001:db8:%x::1", crc32.ChecksumIEEE([]byte(t.seed))&0xffff))
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			r.Header.Set("Origin", widgetOrigin)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		for _, c := range t.jar {
			r.AddCookie(c)
		}
		t.world.ServeHTTP(answer, r)
	}
	for _, c := range answer.Result().Cookies() {
		t.jar[c.Name] = c
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	encoded, _ := json.Marshal(t.truth(r.Header.Get("X-Address")))
	w.Header().Set("X-Truth", string(encoded))
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}

func (t *timetable) truth(address string) truth {
	codes := t.world.Codes
	codes.SetDown(false)
	defer codes.SetDown(t.down)
	wait, _ := codes.Wait(address)
	state := truth{Wait: float64(wait.Microseconds()+1) / 1000, Sends: codes.Sends() - t.sends}
	for n := t.known; n < codes.Verifications(); n++ {
		v := codes.Verification(n)
		state.All = append(state.All, verificationTruth{
			v.ID, v.State, v.Send.Status, v.Send.Number, v.AttemptsRemaining,
			float64(v.ExpiresAt.Sub(v.Now).Microseconds()) / 1000,
		})
	}
	return state
}
