package page_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// tag returns the widget's tag, with more attributes.
func tag(attributes string) string {
	return `<send-code public-key="` + pagetest.PublicKey + `" ` + attributes + `></send-code>`
}

// eventScript is a script that records the events of widgets.
const eventScript = `(() => {
  window.heard = [];
  for (const name of ['sent', 'approved', 'refused', 'failed', 'changed', 'wrong', 'expired']) {
    addEventListener(name, (e) => heard.push([name, e.detail && { ...e.detail, proof: e.detail.proof && 'a proof' }]));
  }
})()`

// embedded opens a site's page with the widget in it.
func embedded(t *testing.T, browser context.Context, w *pagetest.World, look browsertest.Look, markup string) *tab {
	t.Helper()
	b, s := embeddedBeside(t, browser, w, look, markup, "")
	b.do(chromedp.Navigate(s.URL))
	return b
}

// embeddedBeside returns a tab and a site's page with the widget and this style sheet. It does not
// open the page yet.
func embeddedBeside(
	t *testing.T, browser context.Context, w *pagetest.World, look browsertest.Look, markup, css string,
) (*tab, *pagetest.Site) {
	t.Helper()
	s := w.Embed(markup, css)
	t.Cleanup(s.Close)
	b := open(t, browser, w, look)
	b.tolerate = "Failed to load resource" // the browser's message for every answer with an error
	b.first(eventScript)
	return b, s
}

// asked requests a code for an address in the widget.
func (t *tab) asked(to string) {
	t.Helper()
	t.card("ask")
	t.fills("to", to+kb.Enter)
}

func (t *tab) awaitEvent(event string, detail ...string) {
	t.Helper()
	t.until(fmt.Sprintf("heard.some(([name]) => name === %q)", event))
	contains(t, eval[string](t, fmt.Sprintf("JSON.stringify(heard.findLast(([name]) => name === %q)[1])", event)), detail...)
}

// nothingKeptBut fails the test if the site's storage has anything but names, tokens, the proof and
// this ID.
func (t *tab) nothingKeptBut(id string) {
	t.Helper()
	kept := eval[string](t,
		`JSON.stringify([history.state, Object.values({...localStorage}).join().replace(/token-\d/, ''),
			Object.entries({...sessionStorage}).filter(([name]) => !name.endsWith(' proof')).map(([, text]) => text), document.cookie])`)
	want := `[null,"",[],""]`
	if id != "" {
		want = fmt.Sprintf(`[null,"",[%q],""]`, id)
	}
	if kept != want {
		t.Errorf("the site's storage holds %s", kept)
	}
}

// aWidgetsRefusal tests a send that is refused because another browser sent to the address a moment
// ago. A later send is refused because of both earlier sends.
func aWidgetsRefusal(t *testing.T, browser context.Context) {
	from := time.Now()
	w := accepting(t, every(time.Minute), quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 2, Window: time.Hour})
	sends(t, w, pagetest.Address)
	b := embedded(t, browser, w, browsertest.Look{}, tag(""))
	b.asked(pagetest.Address)
	b.card("enough", "A code was just sent", "1 code was sent to ana@example.com at", "Send code in 0:", "per minute", "next in 0:")
	is(t, eval[int](b, b.root+`.querySelectorAll('.pips-row').length`), 1) // only the rule that refuses
	b.focused("heading")
	b.awaitEvent("refused", `"what":"send"`, `"blocked_by":"minute"`, `"retry_after":`)
	b.counts(from)
	b.click("#again") // the inactive button can have the focus, and does nothing
	b.focused("again")
	b.keys(kb.Enter)
	is(t, len(w.Codes.SendRequests()), 2)
	b.click("[data-act=change]")
	b.asked("ana@") // the field shows a mistake in the next address
	b.card("ask", "after the @")
	b.asked(pagetest.Address)
	b.card("enough")
	b.until(b.q("#again[aria-disabled=true]") + ` && ` + b.q("[role=timer]"))
	w.Advance(61 * time.Second)
	b.jump(61*time.Second, 61*time.Second)
	b.until(`said.includes('You can request another code now.')`)
	b.card("ask") // the minute of the reached limit is over
	is(t, b.value("#to"), pagetest.Address)
	b.click("#send")
	b.card("code", "Check your mail", "Next code at", "min")
	b.do(chromedp.Reload())
	b.card("code", "Next code at")
	b.run(b.q("#again") + `.removeAttribute('aria-disabled')`) // as if the page considered the wait over
	b.click("#again")
	b.card("enough", "Hourly limit reached", "At most 2 codes per hour go to a•••@example.com.", "Next code at",
		"The last code still works until")
	b.click(".aside [data-act=code]")
	b.card("code", "Next code at")
}

// severalWidgets tests that widgets do not affect each other. A removed widget stops at once, and
// continues when it is inserted again.
func severalWidgets(t *testing.T, browser context.Context) {
	w := running(t, quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute})
	markup := `<div>` + tag(`id="one"`) + tag(`id="two" locale="zh-CN" to="ben@example.com"`) + `</div>`
	b := embedded(t, browser, w, browsertest.Look{Width: 800, Height: 1400}, markup)
	one, two := `document.querySelector('#one').shadowRoot`, `document.querySelector('#two').shadowRoot`
	b.root = one
	b.asked(pagetest.Address)
	b.card("code", "a•••@example.com")
	w.Codes.Immediately = store.Sent
	b.root = two
	b.card("ask", "获取验证码")
	b.click("#send")
	b.card("code", "验证码已发到 b•••@example.com", "重新发送", "还需 0:")
	b.root = one
	b.card("code", "a•••@example.com")
	// The first widget, whose mail is still on its way, is removed while it waits for an answer.
	// Its request is aborted and not repeated.
	b.run(`window.asked = []`, `window.real = fetch`, `window.fetch = (url, options) => {
		asked.push(String(url));
		if (!String(url).includes('verification-1')) return real(url, options);
		return new Promise((_, no) => { options.signal.onabort = () => no(options.signal.reason) });
	}`, returnScript)
	b.until(`asked.join().includes('verification-1')`)
	b.run(`window.taken = document.querySelector('#one')`, `taken.remove()`, `asked = []`)
	b.rest(longer)
	b.run(returnScript)
	b.until(`asked.join().includes('verification-2')`)
	if got := eval[string](b, `asked.join()`); strings.Contains(got, "verification-1") {
		t.Errorf("after one was removed, %s was asked for", got)
	}
	b.run(`window.fetch = real`, `document.querySelector('div').append(taken)`)
	b.root = one
	b.card("code", "Send again", "a•••@example.com")
	b.do(chromedp.Reload())
	b.card("code", "a•••@example.com")
	b.root = two
	b.card("code", "b•••@example.com")
}

// aWidgetKeepsTokens tests that the widget stores the tokens of right codes, at most five, newest
// first, until the person makes it forget them. Without storage it keeps none.
func aWidgetKeepsTokens(t *testing.T, browser context.Context) {
	w := accepting(t)
	b, s := embeddedBeside(t, browser, w, browsertest.Look{}, tag(""), "")
	enter := func(known ...string) {
		t.Helper()
		w.Advance(24 * time.Hour)
		b.do(chromedp.Navigate(s.URL))
		b.asked(pagetest.Address)
		b.card("code")
		if requests := w.Codes.SendRequests(); !slices.Equal(requests[len(requests)-1].KnownTokens, known) {
			t.Errorf("presented %v, want %v", requests[len(requests)-1].KnownTokens, known)
		}
		b.getsIn()
	}
	enter()
	var known []string
	for n := range 6 {
		known = append([]string{fmt.Sprint("token-", n+1)}, known[:min(4, len(known))]...)
		enter(known...)
	}
	b.do(chromedp.Navigate(s.URL))
	b.card("ask", "Forget this device")
	b.click("[data-act=forget]")
	b.until("!" + b.q("[data-act=forget]"))
	b.focused("to")
	enter()
	b.first(`Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError') } })`)
	enter()
	enter()
	is(t, eval[bool](b, b.q("[data-act=forget]")+" === null"), true)
}
