//go:build nightly

// Only `make nightly` runs these tests, since every page at three widths takes a minute, and so do
// exports of ten thousand rows.

package console

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store/sqlite/sqlitetest"
)

func TestAllInABrowser(t *testing.T) {
	inWindows(t, map[string]func(*testing.T, chromium){
		"fits": everyPageFits, "mistakes": mistakesFit, "broken": fitsWhileBroken,
		"reach": reachesTheList, "factor": setsUpASecondFactor,
	})
}

// Every page fits into three widths, axe-core finds no problem on it, and the content security
// policy blocks nothing on it.
func everyPageFits(t *testing.T, browser chromium) {
	r, _ := newRigWithProvider(t)
	pages := everyPage(r)
	elsewhere := r.Browser()
	elsewhere.From = "[2001:db8:1:2::9]:1"
	elsewhere.Post("/admin/login", url.Values{"password": {consoletest.Password}}, "User-Agent", "SamsungBrowser/28.0 CrOS")
	w := openWindow(r, browser)
	w.goTo("/admin/login")
	w.fits("login")
	w.logIn()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		w.goTo(pages[name])
		w.fits(name)
	}
	// A mail fits the window of a telephone's mail program.
	for _, locale := range []string{"en", "ar"} {
		mail, err := filepath.Abs("../../base/message/testdata/golden/" + locale + ".private.html.html")
		w.Must(err)
		w.do(chromedp.Navigate("file://" + mail))
		w.look(browsertest.Look{Width: 262})
		w.wantEval(
			`document.documentElement.scrollWidth + " " + document.querySelector(".card").getBoundingClientRect().right + document.querySelector("h1").innerText.length`, "262 2")
	}
	w.wantNoProblems("recipient window's origin ('null')") // axe-core writes to the frames of mails, which have no origin
}

// pagesWithMistakes returns each page with filters, of which one cannot be read.
func pagesWithMistakes() map[string]string {
	long := strings.Repeat("an-app-of-a-long-name", 4)
	return map[string]string{
		"choice": "/admin?status=LOST&limit=5", "choice-and-field": "/admin?status=LOST&app=shop", "field": "/admin?network=office",
		"long-field": "/admin?app=" + long, "acts": "/admin/acts?who=" + long, "webhooks": "/admin/webhooks?state=lost&app=shop",
		"suppressions": "/admin/suppressions?state=some", "prefixes": "/admin/prefixes?state=some", "overview": "/admin/overview?last=2h",
		"messages": "/admin/messages?purpose=gym",
	}
}

// A mistake is shown near its field, above the fields of the second row.
func mistakesFit(t *testing.T, browser chromium) {
	r, _ := newRigWithProvider(t)
	fillDatabase(r)
	w := openWindow(r, browser)
	w.logIn()
	for name, path := range pagesWithMistakes() {
		w.goTo(path)
		w.fits("mistake-" + name)
		if name == "choice-and-field" {
			w.wantEval(`String(document.querySelector("#filter-problem").getBoundingClientRect().bottom <=
				document.querySelector("form.filter details").getBoundingClientRect().top)`, "true")
		}
	}
	w.wantNoProblems("status of 422")
}

// While some or all parts of the service are slow, unreachable or suspended, the status line and
// the pages below it fit, and axe-core finds nothing wrong with them. The same holds for the page
// that is shown while the database is unreachable.
func fitsWhileBroken(t *testing.T, browser chromium) {
	var status atomic.Pointer[ServiceStatus]
	r := newRig(t, func(c *Config) { c.Status = func(context.Context) ServiceStatus { return *status.Load() } })
	row := fillDatabase(r)
	w := openWindow(r, browser)
	s := partlyBroken()
	status.Store(&s)
	w.logIn()
	for name, s := range map[string]ServiceStatus{"partly-broken": partlyBroken(), "all-broken": allBroken()} {
		status.Store(&s)
		for page, path := range map[string]string{
			"overview": "/admin/overview", "sends": "/admin",
			"refused": explain.SendPageAddress(row.ID),
		} {
			w.goTo(path)
			w.fits(name + "-" + page)
		}
	}
	r.Break()
	w.goTo("/admin/overview")
	w.wantEval(`document.querySelector("h1").innerText`, "The database does not answer")
	w.fits("database-away")
	w.wantNoProblems("status of 503")
}

// The controls and the rows of the list can be reached by Tab.
func reachesTheList(t *testing.T, browser chromium) {
	r := newRig(t)
	fillDatabase(r)
	w := openWindow(r, browser)
	w.logIn()
	w.eval(`document.querySelector(".skip").focus(); ""`)
	var reached []string
	for range 30 {
		w.do(chromedp.KeyEvent(kb.Tab))
		reached = append(reached, w.eval(
			`(e => e.name || e.className || e.tagName + ("row" in e.dataset ? "row" : ""))(document.activeElement)`))
	}
	for _, name := range []string{"brand", "here", "quiet", "own", "q", "last", "status", "channel", "SUMMARY", "Arow"} {
		if !slices.Contains(reached, name) {
			t.Errorf("%s cannot be reached by Tab: %v", name, reached)
		}
	}
}

// A person who first enters a wrong password sets up an authenticator app, which the settings
// demand, and logs in with it. Every page on the way fits.
func setsUpASecondFactor(t *testing.T, browser chromium) {
	r := newRig(t, func(c *Config) { c.Auth.DemandFactor = true })
	w := openWindow(r, browser)
	password := func(text string) step {
		return chromedp.Steps(chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(text+kb.Enter))
	}
	code := func(text string) step {
		return chromedp.Steps(chromedp.Focus(chromedp.CSS("#code")), chromedp.KeyEvent(text+kb.Enter))
	}
	w.goTo("/admin")
	w.shows("#problem", password("wrong"))
	w.fits("a wrong password")
	w.leads("/admin/factor", password(consoletest.Password))
	w.shows(".qr", password(consoletest.Password))
	w.fits("a second factor to be")
	// The button says "Copied" for two seconds. The test ends this time at once.
	name := w.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } });
		window.setTimeout = (run) => { window.over = run }; document.querySelector("[data-copy]").textContent`)
	w.do(chromedp.Click(chromedp.CSS("[data-copy]")))
	w.wantEval(`(window.copied === document.querySelector("#key").dataset.whole) + document.querySelector("[data-copy]").textContent`, "trueCopied")
	w.wantEval(`over(), document.querySelector("[data-copy]").textContent`, name)
	d := r.NewDevice(strings.ReplaceAll(w.eval(`document.querySelector(".shown").innerText`), " ", ""))
	w.shows(".good", code(d.Code()))
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.goTo("/admin/overview")
	w.leads("/admin/login/code?next=%2Fadmin%2Foverview", password(consoletest.Password))
	w.Until(`document.activeElement.id === "code"`) // the browser may set the focus after the page is loaded
	w.shows("#problem", chromedp.KeyEvent(d.Wrong()+kb.Enter))
	w.fits("a wrong code")
	w.leads("/admin/overview", code(d.Next()))
	w.wantNoProblems()
}

// However many rows an export has, the process keeps at most a page of them in memory.
func TestExportKeepsNoRows(t *testing.T) {
	r, base := serveWithShortTimeouts(t)
	const n = 50 * layout.MaxPageRows
	r.writeManyRefused(n, strings.Repeat("r", 64))
	pages, first, most := 0, uint64(0), uint64(0)
	r.Store.SetFault(func(method string) sqlitetest.Fault {
		if method == "Sends" {
			if pages++; pages%10 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				first, most = cmp.Or(first, m.HeapAlloc), max(most, m.HeapAlloc)
			}
		}
		return sqlitetest.None
	})
	written, err := io.Copy(io.Discard, requestExport(t, base))
	r.Must(err)
	if pages != n/layout.MaxPageRows+1 || written < 1<<20 || most > first+512<<10 {
		t.Errorf("%d pages, %d bytes: %d KiB of memory after ten pages, %d at most", pages, written, first>>10, most>>10)
	}
}
