package console

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// These tests share one browser; each has a window with cookies of its own. nightly_test.go has the
// tests that only `make nightly` runs.
func TestInABrowser(t *testing.T) {
	inWindows(t, map[string]func(*testing.T, chromium){
		"fits": mainPagesFit, "resets": resetsAQuota,
		"list": worksTheList, "ticks": followsTheList, "reply": countsTheReplyDown, "provider": logsInByTheProvider,
		"week": worksAWeekByKeyboard, "controls": controlsSayWhatThePageDoes, "choices": choicesInAnOpenList,
		"keys": turnsTheKeysOff,
	})
}

func inWindows(t *testing.T, tests map[string]func(*testing.T, chromium)) {
	t.Helper()
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	servertest.OK(t, err)
	browser, end := browsertest.StartChromium(context.Background(), servertest.HeadlessShell(t))
	defer end()
	if err := chromedp.Do(browser); err != nil { // the browser lives as long as the context that starts it
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, chromium{browser, engine}) })
	}
}

// mainPagesFit tests the main pages. `make nightly` tests all pages.
func mainPagesFit(t *testing.T, browser chromium) {
	r, _ := newRigWithProvider(t)
	row := fillDatabase(r)
	w := openWindow(r, browser)
	w.goTo("/admin/login")
	w.fits("login")
	w.logIn()
	for name, path := range map[string]string{
		"overview": "/admin/overview", "sends": "/admin?limit=5",
		"refused": explain.SendPageAddress(row.ID),
	} {
		w.goTo(path)
		w.fits(name)
		switch name {
		case "sends": // a state is only as wide as its words
			servertest.Same(t, "a wide state", w.eval(`document.querySelectorAll(".now .why").forEach(e => e.remove()); `+
				`String(document.querySelector("td.is").offsetWidth > 220)`), "false")
		case "refused": // only the first action is a coloured button
			servertest.Same(t, "coloured", w.eval(`String([...document.querySelectorAll(".act")].filter(`+
				`e => getComputedStyle(e).backgroundColor !== "rgba(0, 0, 0, 0)").length)`), "1")
		}
	}
	w.wantNoProblems()
}

// fits reports the parts of the page that are cut off with all details open, at three widths, and
// the problems that axe-core finds, at two widths.
func (w *window) fits(name string) {
	w.Helper()
	w.eval(`document.querySelectorAll("main details").forEach(d => d.open = true); ""`)
	looks := []browsertest.Look{{Width: 320, Dark: true}, {Width: 768, Dark: true}, {Width: 1280}}
	if os.Getenv("SENDCODE_TEST_SCREENSHOTS") != "" {
		looks = append(looks, browsertest.Look{Width: 320}, browsertest.Look{Width: 1280, Dark: true})
	}
	for _, look := range looks {
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
		w.Shot(fmt.Sprintf("%s-%d-%s", name, look.Width, map[bool]string{false: "light", true: "dark"}[look.Dark]))
		if look.Width == 768 {
			continue
		}
		found, err := w.axe.Violations(w.Tab, "html")
		w.Must(err)
		for _, v := range found {
			w.Errorf("%s at %d px: %s", name, look.Width, v)
		}
	}
}

// clipped finds elements that reach beyond the window or the right edge of their box. Three
// exceptions are allowed, each of which has the whole text in its title or leaves it out on
// purpose: names of more than 19 characters in lists, a send's reason, and columns of the list of
// sends and beginnings of suppressions.
const clipped = `[...document.querySelectorAll("main *")].filter(e => !e.closest(".visually-hidden, option") && e.closest("thead")?.offsetWidth !== 1 && (e.getBoundingClientRect().right > innerWidth + 1 && !e.matches(".now .why")
	|| e.matches(".sends:not(.now) :is(td, th):not(.none, .suppressions .at), .filter > select") && getComputedStyle(e).display === "none"
	|| e.matches(".now :is(.mask, td.through)") && e.innerText.length < 20 && e.scrollWidth > e.clientWidth + 1
	|| e.matches(".sends :is(td, th)") && !e.title && e.scrollWidth > e.clientWidth + 1 || e.matches(".sends:not(.now) td.why") && e.scrollWidth > e.clientWidth + 1))
	.map(e => e.tagName + "." + e.className).slice(0, 3).join(" ")`

// An operator goes from "where is my code?" to the audit entry: the operator finds the refused send
// by its recipient, copies the reply, resets the quota, and sees the entry.
func resetsAQuota(t *testing.T, browser chromium) {
	r := newRig(t)
	row := fillDatabase(r)
	w := openWindow(r, browser)
	w.logIn()
	w.leads("/admin?recipient=", press("/"), chromedp.KeyEvent("ana@example.com"+kb.Enter))
	if at := w.eval(`location.href`); strings.Contains(at, "ana") {
		t.Errorf("the recipient is in the address %s", at)
	}
	w.eval(`Date.now = performance.now = () => 0; ""`) // stops the clocks, so that no second passes before the wait is read
	w.Until(`document.querySelector(".pips-row .pips-note").innerText === "free in 38 s"`)
	w.wantEval(`document.querySelector(".person").innerText`, "a•••@example.com", "free in 38 s")
	page := explain.SendPageAddress(row.ID)
	w.leads(page, chromedp.KeyEvent("jkjk"+kb.Enter))
	w.wantEval(`document.querySelector("h1").innerText + " " + document.querySelector(".next").innerText`,
		"Refused 3 times since 2026-03-04 22:03:01 (rule minute)", "They can ask again at 22:03:44;")
	w.wantEval(`document.querySelector("[data-zone]").innerText + document.querySelector("h1 time").title`, "UTC+82026-03-04 14:03:01 UTC")
	w.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } }); ""`)
	w.do(chromedp.Click(chromedp.CSS("[data-copy]")))
	w.wantEval(`window.copied + document.querySelector("[data-copy]").textContent`,
		"You've reached our limit for codes. You can ask for the next one in 38 s. The code that you have already works for another 9 min.Copied")

	// Without a reason, the browser itself asks for one, and sends nothing.
	reset := chromedp.Click(chromedp.CSS(`form[action$="/reset"] button`))
	w.leads(page+"?do=reset", chromedp.Click(chromedp.CSS(`a[href*="do=reset"]`)))
	w.do(reset)
	w.wantEval(`location.pathname + " " + document.activeElement.id`, page+" reason")
	r.WantActs()
	// A reason that names the person is refused, and kept to be corrected.
	w.leads(page+"/reset", chromedp.KeyEvent("ana@example.com called"+kb.Enter))
	w.wantEval(`document.querySelector("[role=alert]").innerText + "|" + document.querySelector("#reason").value`,
		"Leave names", "|ana@example.com called")
	w.wantEval(`(addEventListener("submit", (e) => e.preventDefault(), { once: true }), document.querySelector("#reason").form.requestSubmit(),
		"held " + document.querySelector("#reason").readOnly)`, "held true") // read-only until the answer arrives
	w.leads(page+"?done=quota.reset", chromedp.SetValue(chromedp.CSS("#reason"), "ticket 7"), reset)
	w.wantEval(
		`document.querySelector("[role=status]").innerText + !document.querySelector(".pips").innerText.includes("free in")`,
		"The quota is reset", "true")
	w.leads("/admin/acts", chromedp.Click(chromedp.CSS(".menu summary")), chromedp.Click(chromedp.CSS(`nav a[href="/admin/acts"]`)))
	w.wantEval(`document.querySelector("tbody tr").innerText`, "reset the quota", "ticket 7", "done", "a•••@example.com")
	w.wantEval(`document.querySelector("tbody tr:nth-child(2)").innerText`, "logged in") // an action and its end are one row
	r.WantActs(
		act{Who: "admin", What: "quota.reset", Outcome: "begun", To: "a•••@example.com", Reason: "ticket 7"},
		act{Who: "admin", What: "quota.reset", Outcome: "done", To: "a•••@example.com", Reason: "ticket 7"})
	// A form that is posted after the session has ended is lost; the login leads back to the form's
	// page.
	w.goTo(page + "?do=reset")
	w.Must(r.Store.EndSessions(w.ctx, "admin", r.act("session.end")))
	w.leads("/admin/login", chromedp.SetValue(chromedp.CSS("#reason"), "ticket 8"), reset)
	w.leads(page, chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.wantNoProblems()
}

// The list can be used by keys, counts waits down, and is shown in the reader's zone and language.
func worksTheList(t *testing.T, browser chromium) {
	r := newRig(t)
	row := fillDatabase(r)
	w := openWindow(r, browser)
	w.logIn()
	for _, c := range []struct{ keys, row string }{{"j", "0"}, {"jj", "2"}, {"k", "1"}, {"kkk", "0"}, {"jjjjjjjjjjj", "5"}} {
		w.do(chromedp.KeyEvent(c.keys))
		w.wantEval(`String([...document.querySelectorAll("a[data-row]")].indexOf(document.activeElement))`, c.row)
	}
	for width, height := range map[int64]string{1280: "33", 760: "33", 320: "64"} { // a row has one line or two
		w.look(browsertest.Look{Width: width})
		w.wantEval(`String([...document.querySelectorAll("tbody tr")].filter(r => r.offsetHeight > `+height+`).length) + " high"`, "0 high")
	}
	w.look(browsertest.Look{Width: 1280})
	w.wantEval(`document.querySelector("td.quota").innerText`, "free in")
	w.wantEval(`document.querySelector(".top .well").title`, "nothing under way")
	// In a field, these keys type letters.
	w.do(press("/"), chromedp.KeyEvent("jk/j?"))
	w.wantEval(`document.querySelector("#q").value`, "jk/j?")
	w.eval(`document.activeElement.blur(); ""`)
	const keys = `document.querySelector("#keys").matches(":popover-open")`
	for _, shown := range []string{"true", "false"} {
		w.do(chromedp.KeyEvent("?"))
		w.wantEval(`String(`+keys+`)`, shown)
	}
	// Empty fields are left out of the address. Enter applies a choice made by keyboard, and the
	// focus comes back to its field. After Back, the fields have the filters of the shown rows.
	w.do(chromedp.Focus(chromedp.CSS(`[name=status]`)), chromedp.KeyEvent("r"))
	w.wantEval(`document.querySelector("[name=status]").value + location.search`, "refused")
	w.leads("/admin?status=refused", chromedp.KeyEvent(kb.Enter))
	w.wantEval(`document.activeElement.name`, "status")
	w.leads("/admin", chromedp.NavigateBack())
	w.Until(`document.querySelector("[name=status]").value === "" && location.search === ""`)
	// On other keyboard layouts, j and k are the keys at the same place. A switch turns all keys
	// off.
	w.eval(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "о", code: "KeyJ" })); ""`)
	w.wantEval(`String([...document.querySelectorAll("a[data-row]")].indexOf(document.activeElement))`, "0")
	w.eval(`document.querySelector("#keys-on").click(); ""`)
	w.do(chromedp.KeyEvent("j"))
	w.wantEval(`String([...document.querySelectorAll("a[data-row]")].indexOf(document.activeElement))`, "0")
	w.eval(`document.querySelector("#keys-on").click(); ""`)
	w.leads("/admin?status=refused", chromedp.Focus(chromedp.CSS(`[name=status]`)), chromedp.KeyEvent("r"+kb.Enter))
	// A click anywhere in a row opens the row.
	for _, cell := range []string{"td.is", "td.to", "td.quota"} {
		w.wantEval(`(([x, y]) => document.elementFromPoint(x, y).closest("a").pathname === document.querySelector("a[data-row]").pathname)(
			(({ x, y, width, height }) => [x + width / 2, y + height - 2])(document.querySelector("`+cell+`").getBoundingClientRect())) + ""`, "true")
	}
	w.leads("/admin/sends/", chromedp.Click(chromedp.CSS("td.is")))

	// Waits count down to their end, both for a code in the list and for a recipient's rules.
	w.goTo("/admin")
	const left = `document.querySelector("td.code .left").innerText`
	first := w.eval(left)
	w.Until(left + ` !== "` + first + `" && /^9 min \d+ s$/.test(` + left + `)`)
	w.eval(`performance.now = () => 601e3; ""`)
	w.Until(left + ` === "expired"`)
	const note = `document.querySelector(".pips-row .pips-note").innerText`
	w.goTo("/admin?app=shop&channel=email&recipient=" + row.Recipient.String())
	w.eval(`performance.now = () => 30e3; ""`)
	w.Until(note + ` === "free in 8 s" && document.querySelector(".pips-row.blocked") !== null`)
	w.eval(`performance.now = () => 39e3; ""`)
	w.Until(note + ` === "free now" && document.querySelector(".pips-row.blocked") === null`)

	// A page shows times in the zone of the browser. One switch leads to UTC, and another to
	// Chinese, each by keyboard and permanently.
	const list = "/admin?channel=email"
	w.goTo(list)
	for _, c := range []struct{ press, want string }{
		{"", "UTC+8 03-04 22:03 en"}, {"zone", "UTC 03-04 14:03 en"}, {"zone", "UTC+8 03-04 22:03 en"},
		{"zone", "UTC 03-04 14:03 en"}, {"language", "UTC 03-04 14:03 zh-Hans"},
	} {
		if c.press != "" {
			w.leads(list, chromedp.Focus(chromedp.CSS(`.prefer button[name=`+c.press+`]`)), chromedp.KeyEvent(kb.Enter))
		}
		w.wantEval(`document.querySelector("[data-zone]").innerText + " " + document.querySelector("tbody .date").innerText.trim() + " " +
			document.querySelector("tbody time").innerText.slice(-8, -3) + " " + document.documentElement.lang`, c.want)
	}
	w.leads("/admin/webhooks", chromedp.Focus(chromedp.CSS(".menu summary")), chromedp.KeyEvent(kb.Enter+kb.Tab+kb.Tab+kb.Tab+kb.Tab+kb.Enter))
	w.wantNoProblems()
}

// While the page is visible, new rows and changed states appear automatically. The focus stays,
// rows that no longer match the filters disappear, and an outage is shown.
func followsTheList(t *testing.T, browser chromium) {
	r := newRig(t)
	fillDatabase(r)
	var asked atomic.Int64
	var another atomic.Bool // another program answers, such as a firewall
	console := r.Handler
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		if another.Load() {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<h1>Checking your browser</h1>"))
			return
		}
		console.ServeHTTP(w, req)
	})
	w := openWindow(r, browser)
	w.do(browsertest.Command(devtools.AddScriptToEvaluateOnNewDocument, devtools.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const sleep = setTimeout; window.setTimeout = (run, ms) => sleep(run, Math.min(ms, 50)) }`,
	}))
	w.logIn()
	const top, state = `document.querySelector("tbody tr").innerText`, `document.querySelector(".live").innerText.trim()`
	w.goTo("/admin?app=shop")
	w.Shot("live")
	r.Clock.Add(time.Second)
	s := r.begin("nora@example.org").Send
	r.begin("other@example.com", func(s *store.Send) { s.App = "desk" })
	w.Until(top + `.includes("` + s.To + `") && ` + top + `.includes("sending")`)
	w.do(chromedp.KeyEvent("j"))
	r.finish(s, store.Outcome{Status: store.Sent, Provider: "mx.example.net", ProviderCode: "250"})
	w.Until(top + `.includes("mx.example.net") && ` + top + `.includes("9 min")`)
	w.wantEval(`document.activeElement.closest("tr").innerText`, s.To)
	if zone := w.eval(`document.querySelector("tbody time").textContent`); strings.Contains(zone, s.LoggedAt.UTC().Format("15:04:05.000")) {
		t.Errorf("the changed row's time is not the reader's: %s", zone)
	}
	w.wantNoProblems()
	another.Store(true)
	w.Until(state + ` === document.querySelector("#live").dataset.lost`)
	w.wantEval(top, s.To)
	another.Store(false)
	w.Until(state + ` === ""`)
	// Rows under the pointer and with the focus stay in place: their states change, and new rows
	// wait.
	w.eval(`document.activeElement.blur(); ""`)
	zoe := r.begin("zoe@example.org").Send
	w.Until(top + `.includes("` + zoe.To + `")`)
	w.pointAt("tbody tr:nth-child(2) td.is")
	under := w.eval(`document.querySelector("tbody tr:hover").id`)
	r.begin("one@example.org")
	r.begin("two@example.org")
	r.finish(zoe, store.Outcome{Status: store.Sent, Provider: "mx2.example.net"})
	w.Until(state + ` === "2 new" && ` + top + `.includes("mx2.example.net")`)
	w.wantEval(`document.querySelector("tbody tr:hover").id + document.querySelector("tbody tr:nth-child(2)").id`, under+under)
	w.do(chromedp.Click(chromedp.CSS("#live button")))
	w.Until(state + ` === "" && document.querySelectorAll("tbody tr")[3].id === "` + under + `"`)
	w.wantEval(`document.activeElement.matches("tbody tr:first-child a") + ""`, "true")
	w.eval(`document.activeElement.blur(); ""`)
	w.pointAt(".brand")
	// The reply to a person changes. Its button stays, and keeps the focus.
	w.leads("/admin?recipient=", press("/"), chromedp.KeyEvent("nora@example.org"+kb.Enter))
	w.do(chromedp.Focus(chromedp.CSS("[data-copy]")))
	told := w.eval(`document.querySelector("#reply").innerText`)
	r.Clock.Add(10 * time.Minute)
	w.Until(`document.querySelector("#reply").innerText !== ` + strconv.Quote(told))
	w.wantEval(`document.querySelector("#reply").innerText`, "expired")
	w.wantEval(`document.activeElement.id + " " + document.querySelector("[data-copy]").checkVisibility()`, "copy true")
	w.goTo("/admin?app=shop")
	r.Break()
	w.Until(state + ` !== ""`)
	r.Store.SetFault(nil)
	w.Until(state + ` === ""`)
	// When the session has ended, the page says so, with a link that leads back.
	w.Must(r.Store.EndSessions(w.ctx, "admin", r.act("session.end")))
	w.Until(state + ` === "You were logged out. Log in"`)
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(".live a")))
	w.leads("/admin?app=shop", chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))

	w.eval(`Object.defineProperty(document, "hidden", { get: () => true }); ""`)
	rest := func() int64 { // longer than the interval between two requests
		w.eval(`window.ticks = 0; (function more() { if (++ticks < 10) setTimeout(more, 50); })(); ""`)
		w.Until(`ticks === 10`)
		return asked.Load()
	}
	if before := rest(); rest() != before {
		t.Error("a page that is not seen asks for changes")
	}

	late := r.begin("quinn@example.com").Send
	w.goTo("/admin?status=sending&app=shop")
	w.Until(top + `.includes("` + late.To + `")`)
	r.finish(late, store.Outcome{Status: store.Sent})
	w.Until(`!document.body.innerText.includes("` + late.To + `")`)

	// On a recipient's page the verdict changes with the row.
	w.goTo("/admin?recipient=" + s.Recipient.String())
	r.Clock.Add(2 * time.Minute)
	const verdict = `document.querySelector("h1").innerText`
	before := w.eval(verdict)
	again := r.begin("nora@example.org").Send
	r.finish(again, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	w.Until(verdict + ` !== ` + strconv.Quote(before) + ` && ` + top + `.includes("failed")`)
}

// The waits in a reply count down on a send's page, in the person's language and in the reader's,
// and so does what is copied. When a wait is over, the reply says so, and so does the verdict, also
// if its reply has no wait. At the end of the code, the line says so, too.
func countsTheReplyDown(t *testing.T, browser chromium) {
	r := newRig(t)
	row := fillDatabase(r)
	w := openWindow(r, browser)
	w.logIn()
	const limit, works = "You've reached our limit for codes. You can ask for the next one ", "The code that you have already works for another "
	reply := `document.querySelector("#reply").innerText`
	w.goTo(explain.SendPageAddress(row.ID))
	w.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } });
		window.at = (s) => { Date.now = performance.now = () => s * 1000 }; at(0); ""`)
	for _, c := range []struct{ s, wait, life string }{{"0", "in 38 s", "9 min"}, {"8.5", "in 30 s", "9 min"}, {"36.1", "in 2 s", "9 min"}} {
		w.eval(`at(` + c.s + `); ""`)
		w.Until(reply + ` === ` + strconv.Quote(limit+c.wait+". "+works+c.life+"."))
		w.do(chromedp.Click(chromedp.CSS("[data-copy]")))
		w.wantEval(`window.copied`, limit+c.wait+". "+works+c.life+".")
	}
	r.Clock.Add(39 * time.Second)
	w.eval(`at(39); document.querySelector("#copy").focus(); ""`)
	w.Until(reply + ` === "You had reached our limit for codes. You can ask for the next one now. ` + works + `8 min."`)
	w.wantEval(`document.activeElement.id`, "copy")
	const next = `document.querySelector(".next").innerText`
	w.wantEval(next, "They can ask again now.")
	ana := r.begin("bea@example.com").Send
	r.finish(ana, store.Outcome{Status: store.Sent, Provider: "mx1.example.net"})
	r.writeRefused("bea@example.com", "minute", 42*time.Second, 3)
	w.goTo(explain.SendPageAddress(ana.ID))
	const newer = `document.querySelector(".newer").innerText`
	w.wantEval(newer, "They can ask again at")
	w.wantEval(next, "until")
	r.Clock.Add(61 * time.Second)
	w.eval(`Date.now = performance.now = () => 61000; document.querySelector("#newer").focus(); ""`)
	w.Until(newer + `.includes("They can ask again now.")`)
	w.wantEval(`document.activeElement.id`, "newer")
	r.Clock.Add(10 * time.Minute)
	w.eval(`Date.now = performance.now = () => 661000; ""`)
	w.Until(next + `.includes("expired") && document.querySelector(".line li.future") === null`)
	chinese := r.writeSent("wei@example.com", func(s *store.Send) { s.Locale = "zh-CN" })
	w.goTo(explain.SendPageAddress(chinese.ID))
	r.Clock.Add(570_500 * time.Millisecond) // since the page gets a new reply when the rule's wait is over
	w.eval(`Date.now = performance.now = () => 570_500; ""`)
	w.Until(reply + `.endsWith("验证码在 30 秒内有效。")`)
	w.wantEval(`document.querySelector(".reply .as").innerText`, "In English: ", " The code works for another 30 s.")
	w.wantNoProblems()
}

// A real browser goes to the provider, which is another site. It returns to the requested page,
// logged in, although the session's cookie is only for this site and forms may be posted only to
// this site.
func logsInByTheProvider(t *testing.T, browser chromium) {
	r, server := newRigWithProvider(t)
	w := openWindow(r, browser)
	server.Do(func() {
		server.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		server.Redirect = w.site.URL + auth.ProviderCallbackPath
	})
	*r.console.Auth.Provider = *providerAt(server, r.Clock.Now)
	consoletest.SetIdentity(server, "bo", "support")
	w.goTo("/admin/policies")
	w.leads("/admin/policies", chromedp.Click(chromedp.CSS(".provider button")))
	servertest.Same(t, "server.Seen('/authorize')", server.Seen("/authorize"), 1)
	w.leads("/admin/login", chromedp.Click(chromedp.CSS(logout)))
	w.goTo("/admin/acts")
	w.wantEval(`location.pathname`, "/admin/login")
	w.wantNoProblems()
}
