package page_test

import (
	"fmt"
	"net/http"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// denied is a script of a browser that calls itself offline for good, as behind some VPNs.
const denied = `Object.defineProperty(Navigator.prototype, 'onLine', { get: () => false });`

// aConnectionThatIsDenied, and one lost answer: the promised "We'll continue" is kept as soon as
// the service answers, since the browser will never say that it is back online.
func aConnectionThatIsDenied(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), denied+`window.left = 0; window.instead = (method) => method === 'POST' && left-- > 0 ? new TypeError('Failed to fetch') : undefined;`)
	g.asks(pagetest.Address)
	g.card("code")
	g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	for _, lost := range []int{1, 3} { // repeated at once, and given up
		g.run(fmt.Sprintf(`left = %d`, lost))
		g.enters(fmt.Sprint(111110 + lost))
		g.card("code", "That code is wrong")
		g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	}
	g.enters(pagetest.Code)
	g.card("approved")
	is(t, w.Codes.Checks(), 3)
	g.sound()
}

// aConnectionThatIsDeniedAtTheFirstCard is the same where there is nothing yet to look at.
func aConnectionThatIsDeniedAtTheFirstCard(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), denied+`window.away = true; window.instead = () => away ? new TypeError('Failed to fetch') : undefined;`)
	g.asks(pagetest.Address)
	g.Shows("#offline", "You're offline.")
	g.Until(`!el.shadowRoot.querySelector('.busy')`)
	g.run(`away = false`)
	g.card("code", "a•••@example.com")
	is(t, w.Codes.Sends(), 1)
	g.Until(`el.shadowRoot.querySelector('#offline').hidden`)
	g.sound()
}

// backAfterTheConfirmation leads to the confirmed card, with its proof, also on a page that no
// cache keeps, and so does a reload. A visit that is no return begins anew, and so does an element
// that the page's script draws later.
func backAfterTheConfirmation(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	s := siteOf(t, w, `<form method="post">`+tag(`name="proof" required`)+`</form>`, "")
	s.Header = http.Header{"Cache-Control": {"no-store"}}
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "window.el?.shadowRoot"}, w}
	g.Go(s.URL)
	g.asks(pagetest.Address)
	g.enters(pagetest.Code)
	g.card("approved")
	proof := browsertest.Value[string](g.Page, `el.value`)
	valid := func() {
		g.Helper()
		g.card("approved", "a•••@example.com")
		is(t, browsertest.Value[string](g.Page, `el.value`), proof)
		g.is(`document.querySelector('form').checkValidity()`)
	}
	g.Go(s.URL + "own.css")
	g.run(`setTimeout(() => history.back())`)
	valid()
	g.run(`window.left = true`, `setTimeout(() => location.reload())`)
	g.Until(`window.left === undefined`)
	valid()
	g.run(`document.querySelector('form').innerHTML = '`+tag(`name="proof" required`)+`'`, `window.el = document.querySelector('send-code')`)
	g.card("ask") // as a router draws the view once more
	g.Go(s.URL + "?")
	g.card("ask") // a new visit
	g.is(`!Object.entries(sessionStorage).some(([name]) => name.endsWith('proof'))`)
}

// aDuplicatedTab hears of the approval, and can go on by itself.
func aDuplicatedTab(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), "")
	g.asks(pagetest.Address)
	g.card("code")
	entersElsewhere(t, w)
	g.run(looks)
	g.card("approved", "Email confirmed", "If you used it in another tab, continue there.", "Send a new code")
	g.says("Email confirmed. If you used it in another tab, continue there.")
	g.is(`el.value === '' && !el.shadowRoot.querySelector('#card').innerText.includes('already used')`)
	g.sound()
}

// entersElsewhere enters the right code of the newest verification elsewhere.
func entersElsewhere(t *testing.T, w *pagetest.World) {
	t.Helper()
	w.ID = fmt.Sprintf("verification-%d", w.Codes.Verifications())
	if err := w.Check(pagetest.Code); err != nil {
		t.Fatal(err)
	}
}

// aFillersMark: a password manager draws 36 px behind the last digit. The field has room for it, in
// each width and each length of codes.
func aFillersMark(t *testing.T, tab *browsertest.Tab) {
	g := visits(t, tab, accepting(t), tag(""), "")
	g.asks(pagetest.Address)
	g.card("code")
	const behind = `(() => {
		const field = el.shadowRoot.querySelector('#code'), s = getComputedStyle(field), probe = document.createElement('span');
		probe.style.cssText = 'position:absolute;white-space:pre;font:' + s.font;
		probe.textContent = '0'.repeat(20);
		field.after(probe);
		const n = Number(field.dataset.length), digit = probe.getBoundingClientRect().width / 20, gap = parseFloat(s.letterSpacing);
		probe.remove();
		return field.getBoundingClientRect().width - parseFloat(s.borderLeftWidth) - parseFloat(s.paddingLeft) - n * digit - (n - 1) * gap;
	})()`
	for _, width := range []int{230, 239, 260, 288, 300, 322, 323, 340, 400} {
		g.run(fmt.Sprintf(`el.style.inlineSize = '%dpx'`, width))
		for _, n := range []int{6, 7, 8} {
			g.run(fmt.Sprintf(`el.shadowRoot.querySelector('#code').dataset.length = %d`, n))
			if got := browsertest.Value[float64](g.Page, behind); got < 36 {
				t.Errorf("at %d px, %.1f px are left behind %d digits", width, got, n)
			}
		}
	}
}
