package drill

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/app/apptest"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/servertest"
)

// clerk is an administrator in front of the console.
type clerk struct {
	*testing.T
	tab  context.Context
	base string
}

func newClerk(s *environment) *clerk {
	t, base := s.T, s.Replicas[0].Base
	t.Helper()
	browser, end := pagetest.Browser(context.Background(), servertest.HeadlessShell(t))
	t.Cleanup(end)
	apptest.Must(t, chromedp.Do(browser))
	tab, closeTab := pagetest.Tab(browser)
	t.Cleanup(closeTab)
	c := &clerk{T: t, tab: tab, base: base}
	c.do(pagetest.Look{Width: 1280, Height: 800, Lang: "en"}.Apply(),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetTimezoneOverride,
				emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
			return err
		}))
	c.leads("/admin", chromedp.Navigate(base+"/admin"))
	c.leads("/admin", chromedp.Focus(chromedp.CSS("#password")),
		chromedp.KeyEvent(s.Env["SENDCODE_ADMIN_PASSWORD"]+kb.Enter))
	return c
}

func (c *clerk) do(steps ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	apptest.Must(c.T, chromedp.Do(c.tab, steps...))
}

// leads does something and waits for the page that comes of it.
func (c *clerk) leads(to string, steps ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	apptest.Must(c.T, pagetest.DoAndWaitForPath(c.tab, to, steps...))
}

// page is what a clerk reads on a page.
type page struct {
	What, Next string // the verdict, with times as ⟨instants⟩; empty on a list
	Shown      string // both as they are shown
	Reply      string // for the person, in their language
	Rows       []listed
	Newer      string // what it says of a newer request
}

const look = `(() => {
	const text = (e, shown) => {
		if (!e) return "";
		if (shown) return e.innerText;
		const copy = e.cloneNode(true);
		copy.querySelectorAll("time").forEach(t => t.replaceWith("⟨" + t.dateTime + "⟩"));
		return copy.textContent.replace(/\s+/g, " ").trim();
	};
	const what = [...document.querySelectorAll(".verdict :is(h1, .near)")], next = document.querySelector(".verdict .next");
	const all = (shown) => what.map(e => text(e, shown)).join(" ");
	return JSON.stringify({
		what: all(), next: text(next), reply: text(document.querySelector("#answer")), shown: all(true) + " / " + text(next, true),
		rows: [...document.querySelectorAll("tr:has(a[data-row])")].map(r => ({at: r.querySelector("time").dateTime, to: r.querySelector(".to .mask").textContent})),
		newer: text(document.querySelector(".verdict .newer")),
	});
})()`

func (c *clerk) look() (p page) {
	c.Helper()
	text, err := pagetest.Eval(c.tab, look)
	apptest.Must(c.T, err)
	apptest.Must(c.T, json.Unmarshal([]byte(text), &p))
	return p
}

// heard is the outcome of one call.
type heard struct {
	page
	actions int
	chinese bool // the caller's language is, else English or one that the console answers in English
	shared  bool // others have the reference that the caller told, so they were asked who they are
	took    time.Duration
}

// maxActions is the limit of actions before a verdict. If several people share a reference, asking
// whose it is may be one more.
const maxActions = 2

// answers a call: it types what the caller says and submits it, then opens the row that the caller
// means, unless the verdict is already shown.
func (c *clerk) answers(i *incident) heard {
	c.Helper()
	c.leads("/admin", chromedp.Navigate(c.base+"/admin"))
	began := time.Now()
	c.leads("/admin", chromedp.Focus(chromedp.CSS("#q")), chromedp.KeyEvent(i.said+kb.Enter))
	h := heard{actions: 1, chinese: i.locale == "zh-CN", page: c.look()}
	if (h.What == "" || i.ago > 0) && len(h.Rows) > 0 { // above a recipient's rows stands the verdict on the newest
		h.shared = i.refers
		c.click(&h, `tbody tr:nth-child(`+strconv.Itoa(1+c.nearest(h.Rows, i.masked(), i.ago))+`) a[data-row]`)
	}
	if h.Newer != "" && i.ago == 0 && (h.actions == 1 || h.shared) {
		led := h.Newer
		c.click(&h, `.verdict .newer a`)
		h.What = led + " " + h.What
	}
	h.took = time.Since(began)
	return h
}

func (c *clerk) click(h *heard, what string) {
	c.Helper()
	c.leads("/admin/sends/", chromedp.Click(chromedp.CSS(what)))
	h.actions, h.page = h.actions+1, c.look()
}

// listed is a row of a list.
type listed struct {
	At time.Time
	To string
}

// nearest returns the row that a caller means: one of theirs, the newest or the one nearest to the
// time that they tell. If others share the reference, they say how their address begins and ends.
func (c *clerk) nearest(rows []listed, to string, ago time.Duration) int {
	c.Helper()
	told, best := time.Now().Add(-ago), -1
	for n, r := range rows {
		if r.To == to && (best < 0 || ago > 0 && r.At.Sub(told).Abs() < rows[best].At.Sub(told).Abs()) {
			best = n
		}
	}
	if best < 0 {
		c.Fatalf("none of the rows is for %s: %v", to, rows)
	}
	return best
}
