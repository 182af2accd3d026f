package console

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/explain"
	"sendcode/internal/console/records"
	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/support"
)

// window is a real browser in front of a console.
type window struct {
	*rig
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string // what the browser complained about: refused by the policy, failed to load, thrown
	site     *httptest.Server
}

// patience is far more than all steps of a test take, of which some need a minute on a quiet machine.
const patience = 15 * time.Minute

type step = chromedp.Action[chromedp.Void]

func openWindow(r *rig) *window {
	r.Helper()
	program := parts.Chromium(r.T)
	site := httptest.NewServer(r.Handler)
	r.Cleanup(site.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	r.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocator)
	r.Cleanup(closeTab)
	r.Must(chromedp.Do(tab)) // the browser lives as long as the context that starts it
	ctx, cancel := context.WithTimeout(tab, patience)
	r.Cleanup(cancel)
	w := &window{rig: r, ctx: ctx, base: site.URL, site: site}
	go w.hear(chromedp.Console(ctx))
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
		return err
	}))
	return w
}

func (w *window) hear(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return // the window is closed
		}
		// A page that says 4xx is what some steps are about.
		if m.Source == "network" && strings.Contains(m.Text, "status of 4") && strings.Contains(m.URL, "/admin") {
			continue
		}
		if m.Type == "info" { // such as a field that has the focus before the page gives it
			continue
		}
		w.mu.Lock()
		w.problems = append(w.problems, m.String()+" "+m.URL)
		w.mu.Unlock()
	}
}

func (w *window) do(steps ...step) {
	w.Helper()
	w.Must(chromedp.Do(w.ctx, steps...))
}

// press sends one key as a keyboard does: what the page does with it decides whether it also becomes a letter.
func press(key string) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			text := key
			if kind == input.DispatchKeyEventTypeKeyUp {
				text = ""
			}
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key, Text: text})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *window) text(script string) string {
	w.Helper()
	s, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](script))
	w.Must(err)
	return s
}

// await says whether something came to hold while the window was there.
func (w *window) await(holds func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return false
		}
	}
	return true
}

// until waits for something to hold of the page that is there then.
func (w *window) until(script string) {
	w.Helper()
	if !w.await(func() bool {
		holds, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](script))
		return err == nil && holds // an error: the page is just being left
	}) {
		w.Fatalf("still not: %s", script)
	}
}

// shows does something and waits for the page with an element that comes of it, until that page is there with its style sheets.
func (w *window) shows(element string, steps ...step) {
	w.Helper()
	w.do(append(steps, chromedp.WaitVisible(chromedp.CSS(element)))...)
	w.until(`document.readyState === "complete"`)
}

// leads waits until what was done has led to a page whose address satisfies is.
func (w *window) leads(is func(string) bool, steps ...step) (at string) {
	w.Helper()
	w.do(steps...)
	if !w.await(func() (there bool) {
		var err error
		at, err = chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.readyState === "complete" ? location.href : ""`))
		return err == nil && at != "" && is(strings.TrimPrefix(at, w.base)) // an error: the page is just being left
	}) {
		w.Fatalf("still at %s", at)
	}
	return at
}

func exactly(path string) func(string) bool { return func(at string) bool { return at == path } }

func begins(with string) func(string) bool {
	return func(at string) bool { return strings.HasPrefix(at, with) }
}

func (w *window) logIn() {
	w.Helper()
	w.do(chromedp.Navigate(w.base + "/admin"))
	w.leads(exactly("/admin"), chromedp.Focus(chromedp.CSS("#password")), chromedp.KeyEvent(consoletest.Password+kb.Enter))
}

// quietAt fails the test for anything that the browser complained about.
func (w *window) quietAt() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		w.Error(p)
	}
}

// busy fills the log with one of each kind.
func busy(r *rig) (refusedRow store.Send) {
	sent := r.begin("w.zhang@qq.com", func(s *store.Send) { s.Reference, s.Locale = "order-7", "zh-CN" })
	r.Clock.Add(96 * time.Millisecond)
	r.finish(sent.Send, store.Outcome{Status: store.Failed, Reason: "rejected", Provider: "mx1.example.net", ProviderCode: "550 5.1.1", Took: 96 * time.Millisecond, Refund: true})
	r.Clock.Add(20 * time.Second)
	r.sent("long.name@"+strings.Repeat("subdomain-", 5)+"of-a-company."+strings.Repeat("quite-long.", 4)+"example.com", func(s *store.Send) { s.Purpose = "signup-with-confirmation" })
	unknown := r.begin("li@example.com")
	r.Clock.Add(3 * time.Second)
	r.finish(unknown.Send, store.Outcome{Status: store.Unknown, Reason: "no_answer", Provider: "mx2.example.net", Took: 2100 * time.Millisecond})
	queued := r.begin("q@example.com")
	ok, err := r.Log.Postpone(context.Background(), store.Postponement{Held: store.Held{ID: queued.Send.ID, Attempt: 1}, After: 4 * time.Second, Reason: "temporary_rcpt", Provider: "mx1.example.net", ProviderCode: "421 4.7.0"})
	if err != nil || !ok {
		r.Fatal(ok, err)
	}
	ana := r.begin("ana@example.com", func(s *store.Send) { s.Locale = "zh-CN" })
	r.Clock.Add(184 * time.Millisecond)
	r.finish(ana.Send, store.Outcome{Status: store.Sent, Provider: "mx1.example.net", ProviderCode: "250 2.0.0", Took: 184 * time.Millisecond})
	r.Clock.Add(18 * time.Second)
	row := r.refused("ana@example.com", "minute", 42*time.Second, 3, func(s *store.Send) { s.VerificationID = ana.Send.VerificationID })
	r.Clock.Add(4 * time.Second)
	return row
}

// A caller asks "where is my code?": log in, find them, open what happened, all by keyboard.
func TestBrowserFindsARefusedSend(t *testing.T) {
	r := newRig(t)
	row := busy(r)
	w := openWindow(r)
	w.logIn()
	at := w.leads(begins("/admin?recipient="), press("/"), chromedp.KeyEvent("ana@example.com"+kb.Enter))
	if strings.Contains(at, "ana") {
		t.Errorf("the recipient is in the address %s", at)
	}
	if got := w.text(`document.querySelector(".person").innerText`); !strings.Contains(got, "a•••@example.com") || !strings.Contains(got, "free in 38 s") {
		t.Errorf("above the rows: %q", got)
	}
	w.leads(exactly("/admin/sends/"+row.ID.String()), chromedp.KeyEvent("jkjk"+kb.Enter))
	verdict := w.text(`document.querySelector("h1").innerText + " " + document.querySelector(".next").innerText`)
	for _, part := range []string{"Refused 3 times since 2026-03-04 22:03:01 (rule minute)", "They can ask again at 22:03:44;"} {
		if !strings.Contains(verdict, part) {
			t.Errorf("%q is not in %q", part, verdict)
		}
	}
	if got := w.text(`document.querySelector("[data-zone]").innerText`); got != "UTC+8" {
		t.Errorf("the zone is %q", got)
	}
	if got := w.text(`document.querySelector("h1 time").title`); got != "2026-03-04 14:03:01 UTC" {
		t.Errorf("on hover: %q", got)
	}
	// The two seconds for which the button says so end when the test has them end.
	name := w.text(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } });
		window.setTimeout = (run) => { window.over = run }; document.querySelector("[data-copy]").textContent`)
	w.do(chromedp.Click(chromedp.CSS("[data-copy]")))
	const reply = "You've reached our limit for codes. You can ask for the next one from 2026-03-04 22:03:44 on. " +
		"The code that you have already works until 22:12:43. Times are in UTC+8."
	if got := w.text(`window.copied + document.querySelector("[data-copy]").textContent`); got != reply+"Copied" {
		t.Errorf("copied is %q", got)
	}
	if got := w.text(`over(), document.querySelector("[data-copy]").textContent`); got != name {
		t.Errorf("afterwards the button says %q, and %q before", got, name)
	}
	w.leads(exactly("/admin/login"), chromedp.Click(chromedp.CSS(logout)))
	w.quietAt()
}

func TestBrowserKeys(t *testing.T) {
	r := newRig(t)
	busy(r)
	w := openWindow(r)
	w.logIn()
	row := func() string {
		return w.text(`String([...document.querySelectorAll("a[data-row]")].indexOf(document.activeElement))`)
	}
	for _, c := range []struct{ keys, row string }{{"j", "0"}, {"jj", "2"}, {"k", "1"}, {"kkk", "0"}, {"jjjjjjjjjjj", "5"}} {
		w.do(chromedp.KeyEvent(c.keys))
		if got := row(); got != c.row {
			t.Errorf("after %s row %s has the focus, want %s", c.keys, got, c.row)
		}
	}
	// In a field they are letters.
	w.do(press("/"), chromedp.KeyEvent("jk/j"))
	if got := w.text(`document.querySelector("#q").value`); got != "jk/j" {
		t.Errorf("typed %q", got)
	}
	// Everything can be reached by Tab, in the order in which it stands.
	w.text(`document.querySelector(".skip").focus(); ""`)
	var reached []string
	for range 30 {
		w.do(chromedp.KeyEvent(kb.Tab))
		reached = append(reached, w.text(`(e => e.name || e.className || e.tagName + ("row" in e.dataset ? "row" : ""))(document.activeElement)`))
	}
	for _, name := range []string{"brand", "here", "quiet", "own", "q", "last", "status", "channel", "SUMMARY", "Arow"} {
		if !slices.Contains(reached, name) {
			t.Errorf("%s cannot be reached by Tab: %v", name, reached)
		}
	}
	// Empty fields stay out of the address.
	w.leads(exactly("/admin?status=refused"), chromedp.SetValue(chromedp.CSS(`[name=status]`), "refused"), chromedp.Click(chromedp.CSS(".filter button")))
	// A click anywhere in a row opens it.
	w.leads(begins("/admin/sends/"), chromedp.Click(chromedp.CSS("td.why")))
	w.quietAt()
}

// logout is the button in the frame.
const logout = `form[action="/admin/logout"] button`

// everyPage fills the log, and names the addresses of the pages that show it.
func everyPage(r *rig) map[string]string {
	r.Helper()
	row := busy(r)
	_, hash := r.recipient("ana@example.com")
	for _, b := range []support.SuppressRequest{
		{Channel: "email", To: "bo@" + strings.Repeat("long.", 9) + "example.com", Why: "asked by telephone, and again in a letter of the fourth of March"},
		{Channel: "email", To: "cy@example.com", Why: "spam", By: "admin"},
	} {
		_, err := r.codes.Desk.Suppress(context.Background(), b)
		r.Must(err)
	}
	toldApps(r)
	lifted := r.pausedPrefix("+49160")
	_, _, err := r.Log.LiftPrefix(context.Background(), store.PrefixLifting{ID: lifted.ID, By: "admin", Why: "testers of ours, ticket 7"}, nil)
	r.Must(err)
	r.pausedPrefix("+49151")
	r.Cleanup(r.console.Stop)
	failed, err := r.Log.Sends(context.Background(), store.Filter{Status: store.Failed, Limit: 1})
	r.Must(err)
	older, err := r.Log.Sends(context.Background(), store.Filter{Recipient: &hash, Status: store.Sent, Limit: 1})
	r.Must(err)
	_, mistyped := r.recipient("w.zhang@qq.co")
	return map[string]string{
		"list": "/admin?limit=5", "empty": "/admin?status=sending", "recipient": "/admin?recipient=" + hash.String(), "filters": "/admin?blocked_by=minute",
		"refused": "/admin/sends/" + row.ID.String(), "failed": "/admin/sends/" + failed[0].ID.String(), "asked again": explain.SendAddress(older[0].ID),
		"norows": "/admin?recipient=" + mistyped.String() + "&near=" + failed[0].Recipient.String(), "unknown": "/admin/sends/x", "invalid": "/admin?limit=x",
		"acts": "/admin/acts", "accounts": "/admin/accounts", "factor": "/admin/factor", "webhooks": "/admin/webhooks", "tail": "/admin/tail", "tail filtered": "/admin/tail?status=queued&app=shop",
		"suppressions": "/admin/suppressions", "no suppressions": "/admin/suppressions?recipient=" + hash.String(),
		"prefixes": records.PrefixesPath + "?state=all",
		"preview":  "/admin/preview", "overview": "/admin/overview?last=24h", "policies": "/admin/policies?policy=default&limit.minute=1&window.minute=10m",
	}
}

// Every page fits every width, light and dark, and nothing on it is refused by the policy.
func TestBrowserFits(t *testing.T) {
	r := newRig(t)
	pages := everyPage(r)
	w := openWindow(r)
	schemes := []string{"light", "dark"}
	if os.Getenv(screenshots) == "" {
		schemes = schemes[1:] // a scheme changes colours, not sizes
	}
	w.fits(map[string]string{"login": "/admin/login"}, schemes)
	w.logIn()
	w.fits(pages, schemes)
	w.quietAt()
}

func (w *window) fits(pages map[string]string, schemes []string) {
	w.Helper()
	for name, path := range pages {
		w.do(chromedp.Navigate(w.base + path))
		w.text(`document.querySelectorAll("main td details").forEach(d => d.open = true); ""`)
		for _, width := range []int64{320, 768, 1280} {
			for _, scheme := range schemes {
				w.do(emulate(width, scheme))
				if wide := w.text(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(width) {
					w.Errorf("%s at %d px is %s px wide", name, width, wide)
				}
				if clipped := w.text(clipped); clipped != "" {
					w.Errorf("%s at %d px: cut off: %s", name, width, clipped)
				}
				w.shot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		}
	}
}

// clipped finds what stands out of the window or of its box to the right.
const clipped = `[...document.querySelectorAll("main *")].filter(e => !e.closest(".visually-hidden, thead, option") && e.getBoundingClientRect().right > innerWidth + 1)
	.map(e => e.tagName + "." + e.className).slice(0, 3).join(" ")`

func emulate(width int64, scheme string) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// screenshots names the directory where who wants to look finds pictures.
const screenshots = "SENDCODE_TEST_SCREENSHOTS"

// shot keeps a picture, where they are wanted.
func (w *window) shot(name string) {
	w.Helper()
	dir := os.Getenv(screenshots)
	if dir == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	w.Must(err)
	if err := os.WriteFile(filepath.Join(dir, "admin-"+name+".png"), png, 0o644); err != nil {
		w.Fatal(err)
	}
}
