package console

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// window is a window of a real browser in front of a console, in the zone of Shanghai.
type window struct {
	*rig
	*browsertest.Page
	ctx  context.Context
	site *httptest.Server
	axe  *pagetest.Axe

	mu       sync.Mutex
	problems []string // problems that the browser reports: blocked by the policy, failed to load, thrown
}

type step = chromedp.Action[chromedp.Void]

// logout selects the button in the layout that logs out.
const logout = `form[action="/admin/logout"] button`

// chromium is the browser that the tests share, with its axe-core.
type chromium struct {
	context.Context
	axe *pagetest.Axe
}

func openWindow(r *rig, browser chromium) *window {
	r.Helper()
	site := httptest.NewServer(r.Handler)
	r.Cleanup(site.Close)
	tab, closeTab := browsertest.ChromiumTab(browser)
	r.Cleanup(closeTab)
	r.Must(chromedp.Do(tab))
	ctx, cancel := context.WithTimeout(tab, 3*servertest.Patience) // for all steps of a test
	r.Cleanup(cancel)
	page := &browsertest.Page{TB: r.T, Tab: browsertest.InChromium(ctx), Root: "document"}
	w := &window{rig: r, Page: page, ctx: ctx, site: site, axe: browser.axe}
	go w.collectProblems(chromedp.Console(ctx), cancel)
	w.do(browsertest.Look{Zone: "Asia/Shanghai", Lang: "en"}.Apply())
	w.look(browsertest.Look{Width: 1280})
	return w
}

// collectProblems collects the problems that the browser reports. A page with the status 500 ends
// the window and its test, and the log has the reason.
func (w *window) collectProblems(messages iter.Seq2[chromedp.ConsoleMessage, error], closeWindow func()) {
	for m, err := range messages {
		if err != nil {
			return // the window is closed
		}
		// Some steps lead to a page with a status 4xx. An entry of level info says, for example,
		// that a field had the focus before the page set it.
		if m.Source == "network" && strings.Contains(m.Text, "status of 4") && strings.Contains(m.URL, "/admin") || m.Type == "info" {
			continue
		}
		if m.Source == "network" && strings.Contains(m.Text, "status of 500") {
			w.Errorf("%s is a 500: %s", m.URL, w.Printed)
			closeWindow()
		}
		w.mu.Lock()
		w.problems = append(w.problems, m.String()+" "+m.URL)
		w.mu.Unlock()
	}
}

// wantNoProblems fails the test if the browser has reported a problem, except problems with one of
// these texts.
func (w *window) wantNoProblems(expected ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(p, text) }) {
			w.Error(p)
		}
	}
}

func (w *window) do(steps ...step) {
	w.Helper()
	w.Must(chromedp.Do(w.ctx, steps...))
}

func (w *window) look(l browsertest.Look) {
	w.Helper()
	l.Height = 800
	w.do(l.Apply())
}

// press sends one key as a keyboard does. The page decides whether the key also types a letter.
func press(key string) step {
	down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key}
	up := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key}
	return chromedp.Steps(browsertest.Command(input.DispatchKeyEvent, down), browsertest.Command(input.DispatchKeyEvent, up))
}

// middle returns the middle of an element, in pixels of the window.
func (w *window) middle(selector string) (x, y float64) {
	w.Helper()
	_, err := fmt.Sscan(w.eval(`(({ x, y, width, height }) => (x + width / 2) + " " + (y + height / 2))(
		document.querySelector("`+selector+`").getBoundingClientRect())`), &x, &y)
	w.Must(err)
	return x, y
}

// pointAt moves the pointer to the middle of an element.
func (w *window) pointAt(selector string) {
	w.Helper()
	x, y := w.middle(selector)
	at := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y}
	w.do(browsertest.Command(input.DispatchMouseEvent, at))
}

func (w *window) eval(script string) string {
	w.Helper()
	s, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](script))
	w.Must(err)
	return s
}

// wantEval fails the test unless the result of a script contains all parts.
func (w *window) wantEval(script string, parts ...string) {
	w.Helper()
	got := w.eval(script)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			w.Errorf("%q is not in %q", part, got)
		}
	}
}

// shows performs steps and waits for a complete page with an element that the page before did not
// have.
func (w *window) shows(element string, steps ...step) {
	w.Helper()
	w.do(steps...)
	w.Until(`document.readyState === "complete" && document.querySelector("` + element + `") !== null`)
}

// leads performs steps and waits for the new page to which they lead. Its path and query must begin
// with to.
func (w *window) leads(to string, steps ...step) {
	w.Helper()
	w.Leads(to, func() { w.do(steps...) })
}

func (w *window) goTo(path string) {
	w.Helper()
	w.leads("/", chromedp.Navigate(w.site.URL+path))
}

func (w *window) logIn() {
	w.Helper()
	w.goTo("/admin")
	w.leads("/admin", chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
}
