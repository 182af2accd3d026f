package page_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/quota"
)

// clocks is a script whose function jump moves the browser's clocks by milliseconds. wall moves
// Date. steady moves performance.now, which may stand still while a machine sleeps.
const clocks = `(() => {
	const date = Date.now.bind(Date), mono = performance.now.bind(performance);
	let wall = 0, steady = 0;
	Date.now = () => date() + wall;
	performance.now = () => mono() + steady;
	window.jump = (w, s) => { wall += w; steady += s; };
})();`

// confirmed returns a guest with a form and a proof, which is valid for 30 minutes.
func confirmed(t *testing.T, tab *browsertest.Tab, w *pagetest.World, script string) *guest {
	t.Helper()
	g := visits(t, tab, w, `<form method="post" target="out">`+tag(`name="proof" required`)+`<button>Go</button></form><iframe name="out"></iframe>`,
		clocks+script+`; addEventListener('submit', (e) => { e.preventDefault(); window.posted = new FormData(e.target).get('proof') ?? 'none'; })`)
	g.asks(pagetest.Address)
	g.enters(pagetest.Code)
	g.card("approved")
	g.run(`window.form = document.querySelector('form')`, `window.proof = el.value`)
	return g
}

const (
	minuteMS = int64(time.Minute / time.Millisecond)
	submits  = `window.posted = undefined, form.querySelector('button').click()`
)

// aProofEndsBeforeATick tests a person who returns to a tab that was frozen, and presses the form's
// button before any other script runs. A form that requires the proof is not submitted, and any
// other form is submitted without the proof.
func aProofEndsBeforeATick(t *testing.T, tab *browsertest.Tab) {
	g := confirmed(t, tab, accepting(t), "")
	g.world.Advance(31 * time.Minute)
	g.is(`el.value === proof && form.checkValidity()`)
	posted := browsertest.Value[bool](g.Page, fmt.Sprintf(`(jump(%[1]d, %[1]d), el.value === '' && (%[2]s, window.posted === undefined))`,
		31*minuteMS, submits))
	is(t, posted, true)
	g.card("ask", "Your confirmation has ended.")
	g.is(`!form.checkValidity() && el.shadowRoot.querySelector('#to').value === '` + pagetest.Address + `'`)
	g.wantNoScriptErrors()

	g = confirmed(t, tab, accepting(t), "") // here the element is not required
	g.run(`el.required = false`)
	is(t, browsertest.Value[string](g.Page, fmt.Sprintf(`(jump(%[1]d, %[1]d), %[2]s, window.posted)`, 31*minuteMS, submits)), "none")
}

// aClockThatIsWrong tests a clock that is hours fast or slow. The widget doesn't use such a clock
// to compute how long a proof is valid.
func aClockThatIsWrong(t *testing.T, tab *browsertest.Tab) {
	for _, hours := range []int{-5, 1, 24} {
		g := confirmed(t, tab, accepting(t), fmt.Sprintf(`jump(%d, 0);`, int64(hours)*60*minuteMS))
		g.rest()
		g.run(returnScript)
		g.rest()
		g.card("approved", "Use it ")
		g.is(`el.value === proof && form.checkValidity()`)
		g.world.Advance(11 * time.Minute) // the code has expired, but not the proof
		g.run(fmt.Sprintf(`jump(%[1]d, %[1]d)`, 11*minuteMS), returnScript)
		g.rest()
		g.card("approved")
		g.is(`el.value === proof`)
		g.run(`window.old = el`, `window.el = el.cloneNode(true)`, `el.value = proof`, `old.replaceWith(el)`) // restores the proof as v-model does
		g.rest()
		g.card("approved", "Use it ")
		g.is(`el.value === proof && form.checkValidity()`)
		g.world.Advance(20 * time.Minute)
		g.run(fmt.Sprintf(`jump(%[1]d, %[1]d)`, 20*minuteMS), returnScript)
		g.card("ask", "Your confirmation has ended.")
		g.wantNoScriptErrors()
	}
}

// aClockThatIsSet tests a clock that is set forward by an hour. That does not end a proof: the
// widget asks the service. Without an answer, the proof stays. After the machine has slept, the
// service answers that the proof has ended.
func aClockThatIsSet(t *testing.T, tab *browsertest.Tab) {
	g := confirmed(t, tab, accepting(t), "")
	g.run(fmt.Sprintf(`jump(%d, 0)`, 60*minuteMS))
	is(t, browsertest.Value[bool](g.Page, `(`+submits+`, window.posted === proof)`), true)
	g.run(returnScript)
	g.rest()
	g.card("approved", "Use it ")
	g.is(`el.value === proof`)
	g.run(`window.instead = () => new TypeError('Failed to fetch')`, fmt.Sprintf(`jump(%d, 0)`, 40*minuteMS), returnScript)
	g.rest()
	g.card("approved")
	g.world.Advance(40 * time.Minute)
	g.run(`window.instead = () => undefined`, returnScript)
	g.card("ask", "Your confirmation has ended.")
	g.says("Your confirmation has ended.")
	g.wantNoScriptErrors()
}

// aReloadWithAWrongClock tests that the confirmed card of our own page stays for as long as the
// proof is valid by the service's clock.
func aReloadWithAWrongClock(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "document.querySelector('send-code')?.shadowRoot"}, w}
	g.Go(w.URL)
	g.asks(pagetest.Address)
	g.enters(pagetest.Code)
	g.card("approved")
	g.Until(`history.state?.proof`)
	// the proof is an hour old by this browser's clock, but fresh by the service's
	w.Advance(-time.Hour)
	g.Go(w.URL + "?") // a second entry of the history; the test goes back to the first
	g.run(`setTimeout(() => history.back())`)
	g.Until(`history.state?.proof`)
	w.Advance(time.Hour)
	g.card("approved")
	g.Until(`document.querySelector('send-code').value.split('.').length === 3`)
	w.Advance(31 * time.Minute)
	g.run(`setTimeout(() => location.reload())`)
	g.card("ask", "Your confirmation has ended.")
}

// anOldAnswerToASend tests a send whose answer was lost. The person enters the same address again
// after its code has ended, and gets a new code. The card doesn't say that a code which the person
// never saw has expired.
func anOldAnswerToASend(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), `window.lost = Number(sessionStorage.lost ?? 3);
		window.instead = async (method, path, how, url) => {
			if (method !== 'POST' || lost-- <= 0) return undefined;
			await real(url, how);
			return new TypeError('Failed to fetch');
		};`)
	g.asks(pagetest.Address)
	g.Shows("#offline", "That didn't work.")
	is(t, w.Codes.Sends(), 1)
	w.Advance(11 * time.Minute)
	g.run(`sessionStorage.lost = 0`)
	g.run(`setTimeout(() => location.reload())`)
	g.Until(`window.lost === 0`)
	g.asks(pagetest.Address)
	g.card("code", "a•••@example.com")
	is(t, w.Codes.Sends(), 2)
}

// durationsGrowWithoutATimeZone tests a browser that reports no zone. The card shows durations
// instead of times, and updates them.
func durationsGrowWithoutATimeZone(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t, quota.Rule{Name: "own", Scope: quota.Recipient, Limit: 1, Window: 50 * time.Minute})
	sends(t, w, pagetest.Address)
	g := visits(t, tab, w, tag(""), clocks+`Intl.DateTimeFormat.prototype.resolvedOptions = () => ({ timeZone: 'UTC', hourCycle: 'h23' });`)
	g.asks(pagetest.Address)
	g.card("enough", "just now", "in 50 min")
	pass := func(d time.Duration) {
		g.Helper()
		w.Advance(d)
		g.run(fmt.Sprintf(`jump(%[1]d, %[1]d)`, d.Milliseconds()), returnScript)
	}
	pass(270 * time.Second)
	g.card("enough", "in the last 5 min", "in 46 min")
	pass(20 * time.Minute)
	g.card("enough", "in the last 25 min", "in 26 min")
	g.is(`!el.shadowRoot.querySelector('#card').innerText.includes('just now')`)
}

// endedProofUses has ways in which a page may use or show a proof that has expired. The script pass
// runs before the proof expires, in a tab that is then frozen. The script after runs as soon as the
// tab goes on, and must return true.
var endedProofUses = map[string]struct{ pass, after string }{
	"a script reads the form": {after: `new FormData(form).get('proof') === null`},
	"a script posts the form": {after: `(form.addEventListener('formdata', (e) => {
		 window.posted = e.formData.get('proof') ?? 'none'; }),
		HTMLFormElement.prototype.submit.call(form), posted === 'none')`},
	"a button that skips the check": {after: `(form.querySelector('button').formNoValidate = true, ` + submits + `,
		form.querySelector('button').formNoValidate = false, posted === 'none')`},
	"a script asks for it":     {after: `(form.requestSubmit(), window.posted === undefined)`},
	"a page from the cache":    {after: `(dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })), el.value === '')`},
	"taken out and put back":   {pass: `el.remove()`, after: `(form.prepend(el), el.value === '')`},
	"in a part that is hidden": {pass: `form.hidden = true`, after: `(form.hidden = false, el.value === '')`},
	"a framework's copy":       {after: `(() => { const old = el; window.el = old.cloneNode(true); el.value = proof; old.replaceWith(el); told(el); return true; })()`},
	"a script's reset":         {after: `(form.reset(), el.value === '')`},
	"in another language":      {after: `(el.setAttribute('locale', 'es'), el.removeAttribute('locale'), el.value === '')`},
}

// oftenAllowed lets one person request many codes.
var oftenAllowed = quota.Rule{Name: "often", Scope: quota.Recipient, Limit: 100, Window: 24 * time.Hour}

// eachUseOfAnEndedProofFails tests the ways in endedProofUses, one after the other in one page. In
// make nightly, each way has its own page.
func eachUseOfAnEndedProofFails(t *testing.T, tab *browsertest.Tab) {
	g := confirmed(t, tab, accepting(t, oftenAllowed), "")
	for _, name := range slices.Sorted(maps.Keys(endedProofUses)) {
		g.usesEndedProof(name)
	}
}

// usesEndedProof tests the way with this name in the map endedProofUses. The element then says that
// the confirmation has ended, its field has the confirmed address, and the next right code leads to
// another proof.
func (g *guest) usesEndedProof(name string) {
	g.Helper()
	g.Log(name)
	c := endedProofUses[name]
	g.run(`window.proof = el.value`, `window.posted = undefined`)
	g.run(cmp.Or(c.pass, "0"), `heard.length = 0`)
	g.world.Advance(31 * time.Minute)
	if !browsertest.Value[bool](g.Page, fmt.Sprintf(`(jump(%[1]d, %[1]d), !!(%[2]s))`, 31*minuteMS, c.after)) {
		g.Errorf("%s: %s does not hold", name, c.after)
	}
	g.run(returnScript)
	g.card("ask", "Your confirmation has ended.")
	g.is(`el.value === '' && !form.checkValidity() && heard.filter(([name]) => name === 'expired').length === 1`)
	if name != "a framework's copy" { // a copy of the element never had the address
		g.is(`el.shadowRoot.querySelector('#to').value === '` + pagetest.Address + `'`)
	}
	g.asks(pagetest.Address)
	g.enters(pagetest.Code)
	g.card("approved")
	g.is(`el.value && el.value !== proof && form.checkValidity()`)
	g.wantNoScriptErrors()
}

// aCodeEndsWhileATabSleeps tests a code that expires while its tab is frozen. If the right code is
// typed before any other script runs, the card says that the code has expired.
func aCodeEndsWhileATabSleeps(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	g := visits(t, tab, w, tag(""), clocks)
	g.asks(pagetest.Address)
	g.card("code")
	w.Advance(11 * time.Minute)
	// Keys of a WebDriver may arrive only after the card has been rendered again.
	g.run(fmt.Sprintf(`jump(%[1]d, %[1]d)`, 11*minuteMS), `(field => {
		field.value = '`+pagetest.Code+`';
		field.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' }));
	})(el.shadowRoot.querySelector('#code'))`)
	g.card("ended", "This code has expired")
	g.run(`el.shadowRoot.querySelector('#again').click()`)
	g.card("code")
	is(t, w.Codes.Sends(), 2)
	g.enters(pagetest.Code)
	g.card("approved")
	g.wantNoScriptErrors()
}

// anOfferEndsWhileATabSleeps tests a first card from a time when text messages could be sent. A
// person who requests one now is offered a mail instead. The card does not say that the page made a
// mistake.
func anOfferEndsWhileATabSleeps(t *testing.T, tab *browsertest.Tab) {
	for name, c := range map[string]struct {
		end        func(*pagetest.World)
		said, mail string // text on the card then, and selector of the link to the field for an address
	}{
		"paused":    {end: func(w *pagetest.World) { w.Codes.Pause(recipient.SMS) }, mail: "#instead"},
		"no longer": {end: func(w *pagetest.World) { w.Codes.SetCountries() }, said: "You can have the code sent by email."},
		"other countries": {
			end:  func(w *pagetest.World) { w.Codes.SetCountries("FR") },
			said: "You can have the code sent by email.", mail: "#by-email",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := accepting(t)
			w.Codes.SetCountries("AT", "DE")
			g := visits(t, tab, w, tag(`channels="sms email" country="DE"`), "")
			g.Shows("#country")
			c.end(w)
			g.run(`el.shadowRoot.querySelector('#country').value = 'DE'`)
			g.Fill("#phone", pagetest.Number+"\r")
			if c.said != "" {
				g.card("ask", c.said) // until then, the form is locked
			}
			if c.mail != "" {
				g.Shows(c.mail)
				g.run(g.Element(c.mail) + `.click()`)
			}
			g.Shows("#to")
			g.asks(pagetest.Address)
			g.card("code", "a•••@example.com")
			g.is(`!heard.some(([name, detail]) => detail?.reason === 'misplaced')`)
			g.wantNoScriptErrors()
		})
	}
	t.Run("beside a code by mail", func(t *testing.T) {
		w := accepting(t)
		w.Codes.SetCountries("AT", "DE")
		g := visits(t, tab, w, tag(`channels="email sms" country="DE"`), "")
		g.Shows("#to")
		g.asks(pagetest.Address)
		g.card("code")
		w.Advance(61 * time.Second)
		g.run(returnScript)
		g.Shows("#instead")
		g.run(g.Element("#instead") + `.click()`)
		g.Shows("#country")
		w.Codes.SetCountries()
		g.Fill("#phone", pagetest.Number+"\r")
		g.card("ask", "You can have the code sent by email.")
		g.run(g.Element("#go-back") + `.click()`)
		g.enters(pagetest.Code)
		g.card("approved")
		g.is(`!heard.some(([name, detail]) => detail?.reason === 'misplaced')`)
		g.wantNoScriptErrors()
	})
}

// aNumberBeforeTheCountries tests a person who submits a number without its country code before the
// service has sent the list of countries. The number stays, the likely country is chosen, and the
// card says what to do. One more press then leads to the code.
func aNumberBeforeTheCountries(t *testing.T, tab *browsertest.Tab) {
	for name, c := range map[string]struct {
		countries []string
		chosen    string
	}{"several": {[]string{"AT", "DE", "US"}, "DE"}, "one": {[]string{"DE"}, "DE"}} {
		t.Run(name, func(t *testing.T) {
			w := accepting(t)
			w.Codes.SetCountries(c.countries...)
			g := visits(t, tab, w, tag(`channels="sms email" country="DE" locale="en"`), `
				Object.defineProperty(Navigator.prototype, 'languages', { get: () => ['en'] });
				window.holding = (method, path) => path.endsWith('/channels');`)
			g.Shows("#phone")
			g.Fill("#phone", "0151 23456789\r")
			g.card("ask", "Begin the number with + and the country code")
			g.is(`!el.shadowRoot.querySelector('#country')`)
			g.run(`holding = () => false`, `held.splice(0).forEach((go) => go())`)
			g.card("ask", "Check the country of the number, then press Send code again.")
			is(t, browsertest.Value[string](g.Page, `el.shadowRoot.querySelector('#country').value`), c.chosen)
			g.is(`!el.shadowRoot.querySelector('#card').innerText.includes('Begin the number')`)
			is(t, browsertest.Value[string](g.Page, `el.shadowRoot.querySelector('#phone').value`), "0151 23456789")
			is(t, w.Codes.Sends(), 0)
			g.run(`el.shadowRoot.querySelector('#send').click()`)
			g.card("code", "+49 151•••789")
			is(t, w.Codes.Sends(), 1)
			g.wantNoScriptErrors()
		})
	}
}

// aChoiceShowsItsField tests a person who chooses between text message and email on the first card,
// and again on the card that calls the number wrong. Only the field of the chosen channel shows.
func aChoiceShowsItsField(t *testing.T, tab *browsertest.Tab) {
	w := accepting(t)
	w.Codes.SetCountries("AT", "DE")
	g := visits(t, tab, w, tag(`channels="sms email" country="DE"`), "")
	g.Shows("#country")
	shown := `['to', 'country', 'phone'].filter((id) => el.shadowRoot.getElementById(id).checkVisibility()).join()`
	switchChannels := func() {
		g.Helper()
		for range 2 {
			g.run(g.Element("#by-email") + `.click()`)
			is(t, browsertest.Value[string](g.Page, shown), "to")
			g.run(g.Element("#by-sms") + `.click()`)
			is(t, browsertest.Value[string](g.Page, shown), "country,phone")
		}
	}
	switchChannels()
	g.Fill("#phone", "12\r")
	g.Shows("#phone-error")
	switchChannels()
	g.wantNoScriptErrors()
}
