package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

const tag = `<send-code key="` + pagetest.PublicKey + `"></send-code>`

// listening keeps what widgets tell their page, and counts what a screen reader is told of the first.
const listening = `(() => {
  window.heard = []; window.told = [];
  for (const name of ['sent', 'approved', 'refused', 'failed']) {
    addEventListener(name, (e) => heard.push([name, { ...e.detail, proof: e.detail.proof && 'a proof' }]));
  }
  addEventListener('DOMContentLoaded', () => customElements.whenDefined('send-code').then(() => {
    const say = document.querySelector('send-code')?.shadowRoot.querySelector('#say');
    if (say) new MutationObserver(() => told.push(say.textContent)).observe(say, { childList: true, characterData: true, subtree: true });
  }));
})()`

// embedded opens a site's page with the widget in it.
func embedded(t *testing.T, browser context.Context, w *pagetest.World, look pagetest.Look, markup string) (*tab, *pagetest.Site) {
	t.Helper()
	b, s := embeddedBeside(t, browser, w, look, `<link rel="stylesheet" href="/site.css">`, markup, "")
	b.do(chromedp.Navigate(s.URL))
	return b, s
}

// embeddedBeside makes such a page, with what stands in its head and a style sheet of its own at /own.css, and does not go there yet.
func embeddedBeside(t *testing.T, browser context.Context, w *pagetest.World, look pagetest.Look, head, markup, css string) (*tab, *pagetest.Site) {
	t.Helper()
	s := w.Embed(head, markup, css)
	t.Cleanup(s.Close)
	b := open(t, browser, w, look)
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(listening)
	return b, s
}

// asked has the widget send to the address.
func (b *tab) asked(to string) {
	b.Helper()
	b.card("ask")
	b.focus("to")
	b.keys(to + kb.Enter)
}

func (b *tab) hears(event string, detail ...string) {
	b.Helper()
	b.until(fmt.Sprintf("heard.some(([name]) => name === %q)", event))
	got := eval[string](b, fmt.Sprintf("JSON.stringify(heard.findLast(([name]) => name === %q)[1])", event))
	for _, d := range detail {
		if !strings.Contains(got, d) {
			b.Errorf("the event %s tells %s, not %s", event, got, d)
		}
	}
}

func aWidgetGoesTheWholeWay(t *testing.T, browser context.Context) {
	w := running(t)
	b, _ := embedded(t, browser, w, pagetest.Look{}, `<h1>Your account</h1>`+tag)
	b.asked(pagetest.Address)
	b.card("code", "On its way", "Sending a code to a•••@example.com", "Send again in 0:", "per minute", "4 left", "9 left")
	b.focused("code")
	b.hears("sent", `"number":1`, `"to":"a•••@example.com"`)
	b.keys("48")
	w.Codes.Settle(store.Sent)
	b.card("code", "Check your mail", "Code sent to a•••@example.com", "Valid until", "Reference for support: S-")
	if got := eval[string](b, b.root+".querySelector('#code').value"); got != "48" {
		t.Errorf("of what was typed is left %q", got)
	}
	b.keys("2913") // checked without a further press
	b.card("approved", "a•••@example.com is confirmed.", "You can continue")
	b.focused("heading")
	b.hears("approved", `"id":`, `"test":false`)
	b.nothingKept()
	if w.Codes.Sends() != 1 || w.Codes.Checks() != 1 {
		t.Errorf("%d sends, %d checks", w.Codes.Sends(), w.Codes.Checks())
	}
}

// aWidgetSendsAgainOnce: what is asked for again after a lost answer carries the same key, what is meant anew another one.
func aWidgetSendsAgainOnce(t *testing.T, browser context.Context) {
	w := running(t, every(2*time.Second))
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, pagetest.Look{}, tag)
	b.tolerate = "status of 429" // the twins do not know of each other here
	b.card("ask")
	b.focus("to")
	b.keys(pagetest.Address)
	eval[bool](b, `(() => { const real = fetch; let lost = 2;
		window.fetch = async (...all) => { const a = await real(...all); if (all[1].method === 'POST' && lost-- > 0) throw new DOMException('', 'TimeoutError'); return a };
		return true })()`)
	for range 2 {
		b.keys(kb.Enter)
		b.until(b.root + `.querySelector('#offline').innerText.startsWith("That didn't work.")`)
		b.until(b.root + `.querySelector('#send:not(.busy)')`)
		eval[bool](b, b.root+`.querySelector('#offline').textContent = '', true`)
	}
	b.hears("failed", `"reason":"network"`)
	b.keys(kb.Enter)
	b.await("three requests", func() bool { return len(w.Codes.Asks()) >= 3 })
	b.await("a button that can be pressed", func() bool { return eval[bool](b, `!!`+b.root+`.querySelector('#again:not([aria-disabled])')`) })
	b.click("#again")
	b.await("four requests", func() bool { return len(w.Codes.Asks()) >= 4 })
	asks := w.Codes.Asks()
	if asks[0].Key == "" || asks[0].Key != asks[1].Key || asks[1].Key != asks[2].Key || asks[3].Key == asks[2].Key {
		t.Errorf("the keys are %q, %q, %q, and then %q", asks[0].Key, asks[1].Key, asks[2].Key, asks[3].Key)
	}
}

func aWidgetsRefusal(t *testing.T, browser context.Context) {
	from := time.Now()
	w := sent(t) // by another person, a moment ago
	b, _ := embedded(t, browser, w, pagetest.Look{}, tag)
	b.tolerate = "status of 429"
	b.asked(pagetest.Address)
	b.card("enough", "A code was just sent", "1 code was sent to ana@example.com at", "Send code in 0:", "per minute", "next in 0:")
	if eval[bool](b, b.root+`.querySelectorAll('.pips-row').length !== 1`) {
		t.Error("the card shows more than the rule that refuses")
	}
	b.focused("heading")
	b.hears("refused", `"what":"send"`, `"blocked_by":"minute"`, `"retry_after":`)
	b.counts(from)
	b.click("#again") // it waits, can be reached, and does nothing
	b.focused("again")
	b.keys(kb.Enter)
	if got := len(w.Codes.Asks()); got != 2 {
		t.Errorf("%d requests", got)
	}
	if !eval[bool](b, b.root+`.querySelector('#again').getAttribute('aria-disabled') === 'true' && `+b.root+`.querySelector('#again-why').getAttribute('role') === 'timer'`) {
		t.Error("the waiting button is not what it should be")
	}
	w.Advance(61 * time.Second)
	eval[bool](b, `jump(61_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(b.root + `.querySelector('#again').innerText.trim() === 'Send code'`)
	b.until(`told.includes('You can request another code now.')`)
	b.click("#again")
	b.card("code", "Check your mail")
	for range 3 {
		w.Advance(61 * time.Second)
		eval[bool](b, `jump(61_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
		b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
		b.click("#again")
		b.until(b.root + `.querySelector('#again[aria-disabled]:not(.busy)')`)
	}
	b.card("code", "Next code at", "min")
	eval[bool](b, b.root+`.querySelector('#again').removeAttribute('aria-disabled') ?? true`) // the page believes that it may
	b.click("#again")
	b.card("enough", "Hourly limit reached", "5 codes were sent to a•••@example.com since", "Next code at", "The last code still works until")
	b.click(".aside [data-act=code]")
	b.card("code", "Next code at")
}

// aWidgetThroughAReload comes back with the time that is left, and keeps nothing of a person.
func aWidgetThroughAReload(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, pagetest.Look{}, tag)
	b.tolerate = "status of 404"
	b.asked(pagetest.Address)
	b.card("code", "Check your mail", "Send again in 0:")
	b.nothingKeptBut("verification-1")
	w.Advance(20 * time.Second)
	b.do(chromedp.Reload())
	b.card("code", "Code sent to a•••@example.com", "Send again in 0:")
	if left := b.left(); left > 40 {
		t.Errorf("%d s are left of 60 after 20", left)
	}
	b.focus("code")
	b.keys(pagetest.Code)
	b.card("approved")
	b.nothingKeptBut("")
	b.do(chromedp.Reload())
	b.card("ask")
	w.Codes.Erase()
	b.asked("ben@example.com")
	b.card("code")
	w.Codes.Erase()
	b.do(chromedp.Reload())
	b.card("ask") // what is not known any more is forgotten
	b.nothingKeptBut("")
}

// nothingKeptBut looks at what the site's storage holds beside names: the id alone.
func (b *tab) nothingKeptBut(id string) {
	b.Helper()
	kept := eval[string](b, `JSON.stringify([location.href, history.state, {...localStorage}, Object.values({...sessionStorage}), document.cookie])`)
	want := `"",null,{},[],""]`
	if id != "" {
		want = fmt.Sprintf(`,null,{},[%q],""]`, id)
	}
	if kept = strings.Replace(kept, eval[string](b, `JSON.stringify(location.href)`), `""`, 1); !strings.HasSuffix(kept, strings.TrimPrefix(want, `""`)) {
		b.Errorf("the site's storage holds %s", kept)
	}
}

func aWidgetsWrongCodes(t *testing.T, browser context.Context) {
	w := running(t)
	w.Codes.Immediately = store.Sent
	b, _ := embedded(t, browser, w, pagetest.Look{}, tag)
	b.tolerate = "status of 4"
	b.asked("noone")
	b.card("ask", "Include an @")
	b.focused("to")
	b.until(b.root + `.querySelector('#to').getAttribute('aria-invalid') === 'true' && ` + b.root + `.querySelector('#to').value === 'noone'`)
	eval[bool](b, b.root+`.querySelector('#to').value = '', true`)
	b.keys(kb.Enter)
	b.card("ask", "Enter your email address.")
	b.asked(pagetest.Address)
	b.card("code")
	for typed, words := range map[string]string{"48291": "The code has 6 digits.", "48291x": "digits only", " ": "Enter the code from the mail."} {
		b.emptied()
		b.paste(typed)
		b.keys(kb.Enter)
		b.card("code", words)
		b.focused("code")
	}
	if w.Codes.Checks() != 0 {
		t.Errorf("slips cost %d tries", w.Codes.Checks())
	}
	for n := 4; n >= 1; n-- {
		b.emptied()
		b.keys("11111" + fmt.Sprint(n) + kb.Enter)
		b.card("code", fmt.Sprintf("That code is wrong. %d tr", n))
		b.until(b.root + `.querySelector('#code').getAttribute('aria-describedby').includes('code-error')`)
	}
	b.until(`told.at(-1) === 'That code is wrong. 1 try left.'`)
	b.focus("code")
	b.keys("222222" + kb.Enter)
	b.card("ended", "Too many wrong codes", "A new one goes to a•••@example.com", "Send a new code in 0:")
	b.focused("heading")
}

// aWidgetsEnds: a mail that did not arrive, one whose outcome is unknown, an expired code, another address.
func aWidgetsEnds(t *testing.T, browser context.Context) {
	w := running(t)
	b, _ := embedded(t, browser, w, pagetest.Look{}, tag)
	b.asked(pagetest.Address)
	b.card("code", "On its way")
	w.Codes.Settle(store.Failed)
	b.card("failed", "Could not be delivered", "did not reach a•••@example.com", "didn't count. You can try again now")
	b.hears("failed", `"reason":"undelivered"`)
	b.click(`[data-act=change]`)
	b.card("ask", "Back to the code")
	eval[bool](b, b.root+`.querySelector('#to').value = '', true`)
	b.asked("ben@example.com")
	b.card("code", "Sending a code to b•••@example.com")
	w.Codes.Settle(store.Unknown)
	b.card("code", "It may still arrive", "A code may have reached b•••@example.com", "We're not sure it was sent")
	w.Advance(11 * time.Minute)
	eval[bool](b, `jump(660_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	b.card("ended", "This code has expired", "A code works for 10 min.", "A new one goes to b•••@example.com", "Send a new code")
	b.until(b.root + `.querySelector('#again:not([aria-disabled])')`)
	b.click("#again") // without typing the address again
	b.card("code", "On its way", "b•••@example.com")
}

// severalWidgets do not know of each other; one that is taken out stops at once, and goes on where it is put back.
func severalWidgets(t *testing.T, browser context.Context) {
	w := running(t, quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute})
	b, _ := embedded(t, browser, w, pagetest.Look{Width: 800, Height: 1400}, `<div>`+
		strings.Replace(tag, "<send-code", `<send-code id="one"`, 1)+strings.Replace(tag, "<send-code", `<send-code id="two" locale="zh-CN" to="ben@example.com"`, 1)+`</div>`)
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
	// The one, whose mail is still on its way, is taken out while it waits for an answer: that is given up and not asked for again.
	eval[bool](b, `window.asked = [], window.real = fetch, window.fetch = (url, options) => {
		asked.push(String(url));
		if (!String(url).includes('verification-1')) return real(url, options);
		return new Promise((_, no) => { options.signal.onabort = () => no(options.signal.reason) });
	}, document.dispatchEvent(new Event('visibilitychange'))`)
	b.until(`asked.join().includes('verification-1')`)
	eval[bool](b, `window.taken = document.querySelector('#one'), taken.remove(), asked = [], setTimeout(() => { window.rested = true }, 3200), true`)
	b.until(`window.rested`)
	// The answer, which says how long the wait is by the server's clock, is held until the page has shown its own.
	eval[bool](b, `window.held = new Promise((go) => { window.release = go }),
		window.fetch = (url, ...all) => { asked.push(String(url)); return held.then(() => real(url, ...all)) }, true`)
	eval[bool](b, `jump(59_000, 0), document.dispatchEvent(new Event('visibilitychange'))`)
	b.root = two
	b.until(b.root + `.querySelector('#again').innerText.includes('0:0') || ` + b.root + `.querySelector('#again:not([aria-disabled])')`)
	b.until(`asked.length > 0`)
	if got := eval[string](b, `asked.join()`); strings.Contains(got, "verification-1") || !strings.Contains(got, "verification-2") {
		t.Errorf("after one was taken out, %s was asked for", got)
	}
	eval[bool](b, `release() ?? document.querySelector('div').append(taken) ?? true`)
	b.root = one
	b.card("code", "Send again", "a•••@example.com")
	b.do(chromedp.Reload())
	b.card("code", "a•••@example.com")
	b.root = two
	b.card("code", "b•••@example.com")
}
