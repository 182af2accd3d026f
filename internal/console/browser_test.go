package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/explain"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// These tests share one browser; each has a window with cookies of its own.
func TestInABrowser(t *testing.T) {
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	if err != nil {
		t.Fatal(err)
	}
	browser, end := pagetest.Browser(context.Background(), servertest.HeadlessShell(t))
	defer end()
	if err := chromedp.Do(browser); err != nil { // it lives as long as the context that starts it
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, chromium){
		"fits": everyPageFits, "broken": fitsWhileBroken, "resets": resetsAQuota, "list": worksTheList, "ticks": followsTheList,
		"factor":   setsUpASecondFactor,
		"provider": logsInByTheProvider,
	} {
		t.Run(name, func(t *testing.T) { test(t, chromium{browser, engine}) })
	}
}

// Every page fits every width, axe-core finds nothing wrong with it, and nothing on it is refused
// by the policy.
func everyPageFits(t *testing.T, browser chromium) {
	r, _ := besideProvider(t)
	pages := everyPage(r)
	elsewhere := r.Browser()
	elsewhere.From = "[2001:db8:1:2::9]:1"
	elsewhere.Post("/admin/login", url.Values{"password": {consoletest.Password}}, "User-Agent",
		"SamsungBrowser/28.0 CrOS")
	w := openWindow(r, browser)
	w.goTo("/admin/login")
	w.fits("login")
	w.logIn()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		w.goTo(pages[name])
		w.fits(name)
	}
	// A mail fits the frame that it has at 320 px.
	for _, locale := range []string{"en", "ar"} {
		w.goTo("/admin/preview/html?app=shop&purpose=login&locale=" + locale)
		w.look(pagetest.Look{Width: 262})
		w.says(
			`document.documentElement.scrollWidth + " " + document.querySelector(".card").getBoundingClientRect().right + document.querySelector("h1").innerText.length`, "262 2")
	}
	w.quietAt("recipient window's origin ('null')") // axe-core asks the mail's frame, which has no origin
}

// The status line and the pages below it fit, and axe-core finds nothing wrong with them, while
// parts of the service, or all of them, are slow, away or suspended; so does the page that is shown
// while the database is away.
func fitsWhileBroken(t *testing.T, browser chromium) {
	var status atomic.Pointer[ServiceStatus]
	r := newRig(t, func(c *Config) { c.Status = func(context.Context) ServiceStatus { return *status.Load() } })
	row := busy(r)
	w := openWindow(r, browser)
	s := partlyBroken()
	status.Store(&s)
	w.logIn()
	for name, s := range map[string]ServiceStatus{"partly-broken": partlyBroken(), "all-broken": allBroken()} {
		status.Store(&s)
		for page, path := range map[string]string{"overview": "/admin/overview", "sends": "/admin",
			"refused": explain.SendPageAddress(row.ID)} {
			w.goTo(path)
			w.fits(name + "-" + page)
		}
	}
	r.Break()
	w.goTo("/admin/overview")
	w.says(`document.querySelector("h1").innerText`, "The database does not answer")
	w.fits("database-away")
	w.quietAt("status of 503")
}

// fits reports what stands out of the page, with all its details open, at three widths, and what
// axe-core finds wrong with it at two.
func (w *window) fits(name string) {
	w.Helper()
	w.eval(`document.querySelectorAll("main details").forEach(d => d.open = true); ""`)
	for _, look := range []pagetest.Look{{Width: 320, Dark: true}, {Width: 768, Dark: true}, {Width: 1280}} {
		w.look(look)
		if wide := w.eval(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(look.Width) {
			w.Errorf("%s at %d px is %s px wide", name, look.Width, wide)
		}
		if clipped := w.eval(clipped); clipped != "" {
			w.Errorf("%s at %d px: cut off: %s", name, look.Width, clipped)
		}
		if top := w.eval(`String(document.querySelector(".top").offsetHeight > 60)`); top != "false" {
			w.Errorf("%s at %d px: the bar above wraps", name, look.Width)
		}
		w.shot(fmt.Sprintf("%s-%d", name, look.Width))
		if look.Width == 768 {
			continue
		}
		found, err := w.axe.Violations(w.ctx, "html")
		w.Must(err)
		for _, v := range found {
			w.Errorf("%s at %d px: %s", name, look.Width, v)
		}
	}
}

// clipped finds what stands out of the window or of its box to the right. In lists, names of more
// than 19 characters alone may be cut, whose title has them whole, and columns of the list of sends
// alone may be left out.
const clipped = `[...document.querySelectorAll("main *")].filter(e => !e.closest(".visually-hidden, thead, option") && (e.getBoundingClientRect().right > innerWidth + 1
	|| e.matches(".sends:not(.now) :is(td, th):not(.none)") && getComputedStyle(e).display === "none"
	|| e.matches(".now :is(.mask, td.through)") && e.innerText.length < 20 && e.scrollWidth > e.clientWidth + 1
	|| e.matches(".sends td") && !e.title && e.scrollWidth > e.clientWidth + 1 || e.matches("td.why") && e.scrollWidth > e.clientWidth + 1))
	.map(e => e.tagName + "." + e.className).slice(0, 3).join(" ")`

// From "where is my code?" to the record of what was done about it, by keyboard: find the refused
// send by its recipient, copy the reply, reset the quota, see the act.
func resetsAQuota(t *testing.T, browser chromium) {
	r := newRig(t)
	row := busy(r)
	w := openWindow(r, browser)
	w.logIn()
	w.leads("/admin?recipient=", press("/"), chromedp.KeyEvent("ana@example.com"+kb.Enter))
	if at := w.eval(`location.href`); strings.Contains(at, "ana") {
		t.Errorf("the recipient is in the address %s", at)
	}
	w.eval(`performance.now = () => 0; ""`) // the wait stands still: a second may pass until it is read
	w.until(`document.querySelector(".pips-row .pips-note").innerText === "free in 38 s"`)
	w.says(`document.querySelector(".person").innerText`, "a•••@example.com", "free in 38 s")
	page := explain.SendPageAddress(row.ID)
	w.leads(page, chromedp.KeyEvent("jkjk"+kb.Enter))
	w.says(`document.querySelector("h1").innerText + " " + document.querySelector(".next").innerText`,
		"Refused 3 times since 2026-03-04 22:03:01 (rule minute)", "They can ask again at 22:03:44;")
	w.says(`document.querySelector("[data-zone]").innerText + document.querySelector("h1 time").title`,
		"UTC+82026-03-04 14:03:01 UTC")
	// The two seconds for which the button says so end when the test has them end.
	name := w.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } });
		window.setTimeout = (run) => { window.over = run }; document.querySelector("[data-copy]").textContent`)
	w.do(chromedp.Click(chromedp.CSS("[data-copy]")))
	w.says(`window.copied + document.querySelector("[data-copy]").textContent`,
		"You've reached our limit for codes. You can ask for the next one "+
			"in 1 minute. The code that you have already works for another 9 minutes."+"Copied")
	w.says(`over(), document.querySelector("[data-copy]").textContent`, name)

	// Without a reason the browser itself asks for one, and nothing is sent.
	reset := chromedp.Click(chromedp.CSS(`form[action$="/reset"] button`))
	w.leads(page+"?do=reset", chromedp.Click(chromedp.CSS(`a[href*="do=reset"]`)))
	w.do(reset)
	w.says(`location.pathname + " " + document.activeElement.id`, page+" reason")
	r.Acts()
	// A reason that names the person is refused, and kept to be corrected.
	w.leads(page+"/reset", chromedp.KeyEvent("ana@example.com called"+kb.Enter))
	w.says(`document.querySelector("[role=alert]").innerText + "|" + document.querySelector("#reason").value`,
		"Leave names", "|ana@example.com called")
	w.leads(page+"?done=quota.reset", chromedp.SetValue(chromedp.CSS("#reason"), "ticket 7"), reset)
	w.says(
		`document.querySelector("[role=status]").innerText + !document.querySelector(".pips").innerText.includes("free in")`, "The quota is reset", "true")
	w.leads("/admin/acts", chromedp.Click(chromedp.CSS(".menu summary")),
		chromedp.Click(chromedp.CSS(`nav a[href="/admin/acts"]`)))
	w.says(`document.querySelector("tbody tr").innerText`, "reset the quota", "ticket 7", "done", "a•••@example.com")
	r.Acts("admin|quota.reset|begun||a•••@example.com|ticket 7", "admin|quota.reset|done||a•••@example.com|ticket 7")
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.quietAt()
}

// The list goes by keys, counts down, and is in the reader's zone and language.
func worksTheList(t *testing.T, browser chromium) {
	r := newRig(t)
	row := busy(r)
	w := openWindow(r, browser)
	w.logIn()
	for _, c := range []struct{ keys, row string }{{"j", "0"}, {"jj", "2"}, {"k", "1"}, {"kkk", "0"},
		{"jjjjjjjjjjj", "5"}} {
		w.do(chromedp.KeyEvent(c.keys))
		w.says(`String([...document.querySelectorAll("a[data-row]")].indexOf(document.activeElement))`, c.row)
	}
	// In a field they are letters.
	w.do(press("/"), chromedp.KeyEvent("jk/j?"))
	w.says(`document.querySelector("#q").value`, "jk/j?")
	w.eval(`document.activeElement.blur(); ""`)
	const keys = `document.querySelector("#keys").matches(":popover-open")`
	for _, shown := range []string{"true", "false"} {
		w.do(chromedp.KeyEvent("?"))
		w.says(`String(`+keys+`)`, shown)
	}
	// A row is one line, of which at least 20 fit, unless its reason is long or its code waits, and
	// the numbers beside the marks come with the focus.
	w.look(pagetest.Look{Width: 1280})
	w.says(`(rows => rows.filter(r => r.querySelector(".why").innerText.length < 25 && !r.querySelector(".left") && r.offsetHeight * 20 + rows[0].getBoundingClientRect().top + scrollY > 900)
		.map(r => r.offsetHeight + ": " + r.innerText).join() || "all")([...document.querySelectorAll("tbody tr")])`, "all")
	const numbers = `getComputedStyle(document.querySelector("tbody .count")).display`
	w.says(numbers, "none")
	w.do(chromedp.KeyEvent("j"))
	w.says(numbers, "block")
	// Everything can be reached by Tab.
	w.eval(`document.querySelector(".skip").focus(); ""`)
	var reached []string
	for range 30 {
		w.do(chromedp.KeyEvent(kb.Tab))
		reached = append(reached, w.eval(
			`(e => e.name || e.className || e.tagName + ("row" in e.dataset ? "row" : ""))(document.activeElement)`))
	}
	for _, name := range []string{"brand", "here", "quiet", "own", "q", "last", "status", "channel",
		"SUMMARY", "Arow"} {
		if !slices.Contains(reached, name) {
			t.Errorf("%s cannot be reached by Tab: %v", name, reached)
		}
	}
	// Empty fields stay out of the address, and a click anywhere in a row opens it.
	w.leads("/admin?status=refused", chromedp.SetValue(chromedp.CSS(`[name=status]`), "refused"),
		chromedp.Click(chromedp.CSS(".filter button")))
	w.leads("/admin/sends/", chromedp.Click(chromedp.CSS("td.why")))

	// Waits count down, and their end is shown: of a code in the list, and of a recipient's rules
	// above their rows and on a send's page.
	w.goTo("/admin")
	const left = `document.querySelector("td.code .left").innerText`
	first := w.eval(left)
	w.until(left + ` !== "` + first + `" && /^9 min \d+ s$/.test(` + left + `)`)
	w.eval(`performance.now = () => 601e3; ""`)
	w.until(left + ` === "expired"`)
	const note = `document.querySelector(".pips-row .pips-note").innerText`
	for _, page := range []string{"/admin?app=shop&channel=email&recipient=" + row.Recipient.String(),
		explain.SendPageAddress(row.ID)} {
		w.goTo(page)
		w.eval(`performance.now = () => 30e3; ""`)
		w.until(note + ` === "free in 8 s" && document.querySelector(".pips-row.blocked") !== null`)
		w.eval(`performance.now = () => 39e3; ""`)
		w.until(note + ` === "free now" && document.querySelector(".pips-row.blocked") === null`)
	}

	// A page is in the zone of the browser; a switch leads to UTC and back, and another to Chinese,
	// each by keyboard and for good.
	const list = "/admin?channel=email"
	w.goTo(list)
	for _, c := range []struct{ press, want string }{
		{"", "UTC+8 03-04 22:03 en"}, {"zone", "UTC 03-04 14:03 en"}, {"zone", "UTC+8 03-04 22:03 en"},
		{"language", "UTC+8 03-04 22:03 zh-Hans"},
	} {
		if c.press != "" {
			w.leads(list, chromedp.Focus(chromedp.CSS(`.prefer button[name=`+c.press+`]`)), chromedp.KeyEvent(kb.Enter))
		}
		w.says(`document.querySelector("[data-zone]").innerText + " " + document.querySelector("tbody .date").innerText.trim() + " " +
			document.querySelector("tbody time").innerText.slice(-12, -7) + " " + document.documentElement.lang`, c.want)
	}
	w.leads("/admin/webhooks", chromedp.Focus(chromedp.CSS(".menu summary")),
		chromedp.KeyEvent(kb.Enter+kb.Tab+kb.Tab+kb.Tab+kb.Enter))
	w.quietAt()
}

// New rows are counted above the list until a click brings them; shown ones change in their place,
// go when they match the filters no more, and what came during a break is told after it.
func followsTheList(t *testing.T, browser chromium) {
	r := newRig(t)
	busy(r)
	var held atomic.Bool // streams begin later
	let, console := make(chan struct{}), r.Handler
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if held.Load() && req.URL.Path == "/v1/admin/tail" {
			select {
			case <-let:
			case <-req.Context().Done():
			}
		}
		console.ServeHTTP(w, req)
	})
	w := openWindow(r, browser)
	t.Cleanup(r.console.Stop)
	w.logIn()
	state := func(s string) {
		t.Helper()
		w.until(`document.querySelector(".live").innerText.trim() === "` + s + `"`)
	}
	top := func(s string) {
		t.Helper()
		w.until(`document.querySelector("tbody tr").innerText.includes("` + s + `")`)
	}
	bring := chromedp.Click(chromedp.CSS(".live a"))
	const list, following = "/admin?app=shop", "rows change by themselves, new ones are counted here"
	w.goTo(list)
	state(following)
	w.shot("live")
	rows := w.eval(`String(document.querySelectorAll("tbody tr").length)`)
	r.Clock.Add(time.Second)
	s := r.begin("nora@example.org").Send
	state("Show 1 new row")
	r.Clock.Add(time.Second)
	r.sent("paula@example.com")
	state("Show 2 new rows")
	r.begin("other@example.com", func(s *store.Send) { s.App = "desk" })
	servertest.Same(t, "rows", w.eval(`String(document.querySelectorAll("tbody tr").length)`), rows)
	w.fits("new rows")
	w.leads(list, bring)
	state(following)
	top("p•••@example.com")
	w.until(`String(document.querySelectorAll("tbody tr").length - 2) === "` + rows + `"`)

	const second = `document.querySelectorAll("tbody tr")[1]`
	w.says(second+`.innerText`, "sending", s.To)
	w.do(chromedp.KeyEvent("jj"))
	r.finish(s, store.Outcome{Status: store.Sent, Provider: "mx.example.net", ProviderCode: "250"})
	w.until(second + `.innerText.includes("mx.example.net") && ` + second + `.innerText.includes("9 min")`)
	w.says(`document.activeElement.closest("tr").innerText`, s.To) // the focus stays
	if zone := w.eval(second + `.querySelector("time").textContent`); strings.Contains(zone,
		s.LoggedAt.UTC().Format("15:04:05.000")) {
		t.Errorf("the changed row's time is not the reader's: %s", zone)
	}
	state(following)
	w.quietAt()
	w.site.CloseClientConnections() // which the browser complains about
	r.Clock.Add(time.Second)
	late := r.begin("quinn@example.com").Send
	state("Show 1 new row")

	held.Store(true) // it ends when the page is there and its stream has not begun
	w.goTo("/admin?status=sending&app=shop")
	top(late.To)
	r.finish(late, store.Outcome{Status: store.Sent})
	close(let)
	w.until(`!document.querySelector("tbody").innerText.includes("` + late.To + `")`)

	// On a recipient's page the verdict changes with the row.
	w.goTo("/admin?recipient=" + s.Recipient.String())
	r.Clock.Add(2 * time.Minute)
	again := r.begin("nora@example.org").Send
	state("Show 1 new row")
	w.leads("/admin?recipient=", bring)
	const verdict = `document.querySelector("h1").innerText`
	before := w.eval(verdict)
	r.finish(again, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	w.until(verdict + ` !== ` + strconv.Quote(before))
	top("failed")
}

// A person who gets the password wrong at first sets up an app, which is demanded, and logs in with
// it. Every page on the way fits.
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
	d := r.Phone(strings.ReplaceAll(w.eval(`document.querySelector(".shown").innerText`), " ", ""))
	w.shows(".codes", code(d.Code()))
	w.says(`String(document.querySelectorAll(".codes li").length)`, "10")
	w.fits("recovery codes")
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.goTo("/admin/overview")
	w.leads("/admin/login/code?next=%2Fadmin%2Foverview", password(consoletest.Password))
	w.until(`document.activeElement.id === "code"`) // which a browser may see to after the page has been loaded
	w.shows("#problem", chromedp.KeyEvent(d.Wrong()+kb.Enter))
	w.fits("a wrong code")
	w.leads("/admin/overview", code(d.Next()))
	w.quietAt()
}

// A real browser goes to the provider, which is another site, and comes back to the page that it
// wanted, logged in, though the session's cookie is for this site alone and forms may go nowhere
// else.
func logsInByTheProvider(t *testing.T, browser chromium) {
	r, server := besideProvider(t)
	w := openWindow(r, browser)
	server.Do(func() {
		server.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		server.Redirect = w.site.URL + auth.ProviderCallbackPath
	})
	*r.console.Auth.Provider = *providerAt(server, r.Clock.Now)
	consoletest.Is(server, "bo", "support")
	w.goTo("/admin/preview")
	w.leads("/admin/preview", chromedp.Click(chromedp.CSS(".provider button")))
	servertest.Same(t, "server.Seen('/authorize')", server.Seen("/authorize"), 1)
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.goTo("/admin/acts")
	w.says(`location.pathname`, "/admin/login")
	w.quietAt()
}
