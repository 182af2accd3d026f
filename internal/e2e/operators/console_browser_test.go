package operators

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/app/apptest"
	"sendcode/internal/page/pagetest"
	"sendcode/internal/parts"
)

// desk is an administrator's browser in front of a replica.
type desk struct {
	*apptest.Stack
	tab context.Context
}

func openDesk(s *apptest.Stack) *desk {
	s.Helper()
	browser, end := pagetest.Browser(context.Background(), parts.Chromium(s.T))
	s.Cleanup(end)
	apptest.Must(s.T, chromedp.Do(browser)) // the browser lives as long as the context that starts it
	tab, closeTab := pagetest.Tab(browser)
	s.Cleanup(closeTab)
	d := &desk{s, tab}
	d.do(pagetest.Look{Width: 1280, Height: 800, Still: true, Lang: "en"}.Apply())
	d.leads("/admin/login", chromedp.Navigate(s.Replicas[0].Base+"/admin"))
	d.leads("/admin", chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(s.Env["SENDCODE_ADMIN_PASSWORD"]+kb.Enter))
	return d
}

func (d *desk) do(steps ...chromedp.Action[chromedp.Void]) {
	d.Helper()
	apptest.Must(d.T, chromedp.Do(d.tab, steps...))
}

func (d *desk) leads(to string, steps ...chromedp.Action[chromedp.Void]) {
	d.Helper()
	apptest.Must(d.T, pagetest.Leads(d.tab, to, steps...))
}

func (d *desk) click(what, to string) {
	d.Helper()
	d.leads(to, chromedp.Click(chromedp.CSS(what)))
}

// says wants texts in what a part of the page shows.
func (d *desk) says(of string, texts ...string) {
	d.Helper()
	shown, err := pagetest.Eval(d.tab, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join("\n")`, of))
	apptest.Must(d.T, err)
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			d.Errorf("%s lacks %q: %q", of, text, shown)
		}
	}
}

// The whole of the console on real parts: a person was refused and calls; they are found, their quota is reset, which is on
// record, and their next code goes out while the log is followed.
func TestConsoleHelpsACaller(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	d := openDesk(s) // before the minute begins in which a person is refused
	spec := s.Ask(0, apptest.Ana)
	if again := s.Ask(1, apptest.Ana); spec.StatusCode != http.StatusAccepted || again.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%d %d", spec.StatusCode, again.StatusCode)
	}
	s.AwaitMail(apptest.Ana, 1)
	s.Await("the refusal's row", func() bool {
		return strings.Contains(string(s.Do(0, http.MethodGet, "/v1/admin/sends?status=refused", "", apptest.AsAdmin).Raw), `"refused"`)
	})

	d.leads("/admin?recipient=", chromedp.Focus(chromedp.CSS("#q")), chromedp.KeyEvent(apptest.Ana+kb.Enter))
	d.says(".person", apptest.AnaMasked, "free in")
	d.says("tbody tr:nth-child(1)", "refused", "minute")
	d.click("tbody tr:nth-child(1) a[data-row]", "/admin/sends/")
	d.says(".verdict", "Refused at", "minute", "They can ask again at", "The code that they have works until")
	d.says(".line", "admitted by every rule: send 1 of this code", "accepted by", "refused by minute")

	d.do(chromedp.Click(chromedp.CSS(`details:has(form[action$="/reset"]) summary`)), chromedp.SetValue(chromedp.CSS("#reason-reset"), "ticket 7"))
	d.click(`form[action$="/reset"] button`, "/admin/sends/")
	d.says("[role=status]", "The quota is reset")
	d.says(".verdict", "They can ask again now.")
	d.do(chromedp.Click(chromedp.CSS(".menu summary")))
	d.click(`nav a[href="/admin/acts"]`, "/admin/acts")
	d.says("tbody tr:nth-child(1)", "reset the quota", "ticket 7", "done", apptest.AnaMasked, "admin")

	d.click(`nav a[href="/admin/tail"]`, "/admin/tail")
	d.Await("the stream", func() bool {
		state, err := pagetest.Eval(d.tab, `document.querySelector("[data-state]").textContent`)
		return err == nil && state == "live"
	})
	if next := s.Ask(1, apptest.Ana); next.StatusCode != http.StatusAccepted {
		t.Fatalf("after the reset: %d %s", next.StatusCode, next.Raw)
	}
	s.AwaitMail(apptest.Ana, 2)
	d.Await("the row to come by itself, and to be sent", func() bool {
		row, err := pagetest.Eval(d.tab, `document.querySelector("tbody tr")?.innerText ?? ""`)
		return err == nil && strings.Contains(row, apptest.AnaMasked) && strings.Contains(row, "sent")
	})

	d.click(`nav a[href="/admin/overview"]`, "/admin/overview")
	d.says(".figures", "Sent\n2\n", "Failed\n0\n", "Refused requests\n1\n")
	bars, err := pagetest.Eval(d.tab, `[".good", ".warn"].map(c => document.querySelectorAll(".chart svg rect" + c).length > 0).join() + " " + document.querySelectorAll(".chart table tbody tr").length`)
	apptest.Must(t, err)
	if !strings.HasPrefix(bars, "true,true ") || strings.HasSuffix(bars, " 0") {
		t.Errorf("the chart has bars of sent and refused: %s rows of numbers", bars)
	}
}
