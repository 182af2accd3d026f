package page_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
)

// humanCheckScript simulates a service that requires a human check. answers are the next answers to
// a send; after them a send is accepted. sends has the key and the token of each send. The widget's
// waits of 8 s for a vendor end only when the test calls late.
const humanCheckScript = `(() => {
	const real = fetch;
	Object.assign(window, { sends: [], answers: [], bars: [], workers: 0, told: [] });
	window.fetch = async (url, init = {}) => {
		if (init.method !== 'POST' || !String(url).endsWith('v1/verifications')) return real(url, init);
		const { human_check, ...body } = JSON.parse(init.body), next = answers.shift();
		sends.push([init.headers['Idempotency-Key'], human_check]);
		if (next) return new Response(JSON.stringify({ type: '/problems/human-check', status: next[0], detail: 'A check is needed.', request_id: 'r', ...next[1] }), { status: next[0] });
		return real(url, { ...init, body: JSON.stringify(body) });
	};
	const W = window.Worker;
	window.Worker = class extends W { constructor(...all) { super(...all); this.addEventListener('message', () => { workers++; }, { once: true }); } };
	const make = document.createElement.bind(document);
	document.createElement = (name) => { const e = make(name); if (name === 'progress') { bars.push(e); e.onfocus = () => told.push('bar'); } return e; };
	const set = setTimeout.bind(window), clear = clearTimeout.bind(window);
	window.lates = new Map();
	window.setTimeout = (f, ms, ...all) => {
		if (ms !== 8000) return set(f, ms, ...all);
		const id = set(() => {}, 1e8);
		lates.set(id, f);
		return id;
	};
	window.clearTimeout = (id) => { lates.delete(id); clear(id); };
	window.late = () => { for (const f of lates.values()) f(); lates.clear(); };
})()`

// challenge returns a challenge of ALTCHA's version 1 whose solution is number.
func challenge(number int, salt string) string {
	return fmt.Sprintf(`{"algorithm":"SHA-256","challenge":"%x","maxNumber":%d,"salt":%q,"signature":"signed"}`,
		sha256.Sum256(fmt.Append([]byte(salt), number)), number+5000, salt)
}

// aRule is the part of an answer that says that a rule refuses the send. noRule is the same part if
// only the human check is missing.
const (
	aRule = `,"retry_after":90,"blocked_by":"all","quota":` +
		`{"allowed":false,"retry_after":90,"blocked_by":"all","rules":[{"name":"all","scope":"app","limit":9,"window":3600,"remaining":0,"reset_after":90,"retry_after":90}]}`
	noRule = ""
)

// asksFor returns an answer that requires a check by a vendor or, with a challenge, by work.
func asksFor(status int, by, challenge, rule string) string {
	return fmt.Sprintf(`[%d,{"type":"https://s/problems/human-check","human_check":{"by":%q,"site_key":"key","work":%s}%s}]`, status, by,
		challenge, rule)
}

// openHumanCheckSite opens a site with the widget and this policy, and requests a code. The service
// gives these answers first. vendor is a script that simulates a vendor of human checks.
func openHumanCheckSite(t *testing.T, browser context.Context, policy, vendor string, answers ...string) *tab {
	t.Helper()
	w := accepting(t)
	base := strings.TrimSuffix(w.URL, "/")
	site := pagetest.NewSite("", func() (string, string, string) {
		return strings.ReplaceAll(policy, "BASE", base),
			`<link rel="icon" href="data:,"><link rel="stylesheet" href="/own.css"><script type="module" src="` + base +
				`/widget.js"></script>`,
			"<main>" + tag("") + "</main>"
	})
	t.Cleanup(site.Close)
	w.Allow(site.Origin())
	b := open(t, browser, w, browsertest.Look{Width: 320, Height: 640})
	b.tolerate = "e" // any message: each browser words a blocked request in its own way
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(eventScript)
	b.first(humanCheckScript)
	b.first(vendor)
	b.do(chromedp.Navigate(site.URL))
	b.run(`window.answers = [` + strings.Join(answers, ",") + `]`)
	b.asked(pagetest.Address)
	return b
}

const (
	openPolicy   = "default-src 'none'; script-src 'self' BASE https://challenges.cloudflare.com; connect-src BASE; img-src data:; style-src 'self'; worker-src blob: BASE"
	strictPolicy = "default-src 'none'; script-src 'self' BASE; connect-src BASE; img-src data:; style-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
	// vendorComes answers each request for a vendor's script at once. The first window.failing
	// requests fail. The next window.another requests get a script without the vendor's object.
	vendorComes = `document.addEventListener('DOMContentLoaded', () => {
		window.failing ??= 0;
		window.another ??= 0;
		document.head.append = (e) => {
			told.push(e.src);
			window.turnstile ??= window.theirs;
			setTimeout(() => {
				if (failing-- > 0) return e.onerror();
				if (another-- > 0) { window.theirs = turnstile; delete window.turnstile; }
				e.onload();
			});
		};
	});`
	// turnstileScript simulates Cloudflare's script.
	turnstileScript = vendorComes + `(() => {
		window.turnstile = { render(place, all) {
			told.push(['render', place.isConnected, place.assignedSlot !== null, all.sitekey, all.action].join());
			place.append(Object.assign(document.createElement('button'), { textContent: 'I am human', style: 'padding: 8px', onclick: () => all.callback('token') }));
			Object.assign(window, { fails: all['error-callback'], options: [all.size, all.theme, all.language].join() });
			return 'id';
		}, remove(id) { told.push('remove ' + id); } };
	})()`
)

// tokens waits for this many sends, checks whether all had the same key, and returns their tokens.
func (t *tab) tokens(sends int) string {
	t.Helper()
	t.until(fmt.Sprintf("sends.length === %d", sends))
	is(t.T, eval[int](t, `new Set(sends.map(([key]) => key)).size`), 1)
	return eval[string](t, `sends.map(([, token]) => token ?? '').join(' ')`)
}

// works waits for the card of the code. It checks that the last send contained the solution of the
// challenge, and that the widget has removed the progress bar.
func (t *tab) works(number int) {
	t.Helper()
	t.card("code")
	is(t.T, eval[string](t, `atob(sends.at(-1)[1].slice(5))`),
		strings.NewReplacer(`"maxNumber":`+fmt.Sprint(number+5000), `"number":`+fmt.Sprint(number)).
			Replace(challenge(number, workSalt)))
	is(t.T, eval[string](t, `[...bars].at(-1).getAttribute('aria-label')`), "Progress of the calculation")
	is(t.T, eval[int](t, t.root+`.querySelectorAll('progress, [name=human]').length + document.querySelectorAll('[slot=human]').length`), 0)
}

// strangersAreAsked tests an app whose codes are hardly ever entered: the service itself requires
// work before the first send. This needs no setting, and people notice nothing on our page or in
// the element. The browser does the work, and its second request is the same one with the solution.
func strangersAreAsked(t *testing.T, browser context.Context) {
	for name, open := range map[string]func(w *pagetest.World) *tab{
		"on our page": func(w *pagetest.World) *tab { return visiting(t, browser, w) },
		"in the element": func(w *pagetest.World) *tab {
			b := embedded(t, browser, w, browsertest.Look{}, tag(""))
			b.tolerate = "e" // any message: each browser says in its own way that the site's policy allows no worker
			return b
		},
	} {
		w := accepting(t)
		w.Codes.AskStrangers([]string{"shop"})
		b := open(w)
		b.tolerate = cmp.Or(b.tolerate, "Failed to load resource") // the browser's message for every answer with an error
		b.asked(pagetest.Address)
		b.card("code", "a•••@example.com")
		requests := w.Codes.SendRequests()
		if len(requests) != 2 || requests[0].HumanCheck != "" || !strings.HasPrefix(requests[1].HumanCheck, "work:") ||
			requests[0].IdempotencyKey == "" || requests[0].IdempotencyKey != requests[1].IdempotencyKey || w.Codes.Sends() != 1 {
			t.Errorf("%s: %d sends after the requests %+v", name, w.Codes.Sends(), requests)
		}
		b.getsIn()
	}
}

const workSalt = "0123456789abcdef?expires=1796000000&for=0123456789abcdef0123456789abcdef&key=k1&"

// aWidgetSolvesAWorkChallenge tests the challenge when there are many strangers. It is solved in a
// worker or, if the site's policy allows none, in the page. The second request has the same key.
func aWidgetSolvesAWorkChallenge(t *testing.T, browser context.Context) {
	const ourPolicy = "; require-trusted-types-for 'script'; trusted-types sendcode-worker"
	for policy, workers := range map[string]bool{openPolicy: true, openPolicy + ourPolicy: true, strictPolicy: false} {
		b := openHumanCheckSite(t, browser, policy, "", asksFor(428, "work", challenge(9000, workSalt), aRule))
		b.works(9000)
		contains(t, b.tokens(2), " work:")
		is(t, eval[bool](b, `workers > 0`), workers)
		is(t, eval[bool](b, `said.some((s) => s.startsWith('Your browser is doing a calculation first'))`), true)
	}
}

// aWidgetShowsAVendor tests that the vendor's challenge is in the light DOM, and is shown again
// after each answer. After two refused tokens, or if the person chooses so, the widget uses work
// instead.
func aWidgetShowsAVendor(t *testing.T, browser context.Context, engine *pagetest.Axe) {
	work := challenge(20, workSalt)
	b := openHumanCheckSite(t, browser, openPolicy, turnstileScript, asksFor(428, "turnstile", work, aRule),
		asksFor(422, "turnstile", work, aRule), asksFor(422, "turnstile", work, aRule))
	b.until(`document.querySelector('[slot=human] button')`)
	contains(t, eval[string](b, b.q("#card")+`.innerText`), "Please complete this check")
	is(t, eval[string](b, `options`), "compact,light,en")
	is(t, eval[string](b, `getComputedStyle(`+b.q(".box.note")+`).borderInlineStart.slice(0, 9)`), "3px solid")
	fits(&browsertest.Page{TB: t, Tab: browsertest.InChromium(b.ctx), Root: b.root}, engine, "a vendor's check", narrowAndWide, "send-code")
	b.run(`document.querySelector('[slot=human] button').focus()`)
	b.keys(kb.Enter)
	b.until(`sends.length === 2 && document.querySelectorAll('[slot=human] button').length === 1`)
	b.run(`document.querySelector('[slot=human] button').click()`)
	b.works(20)
	contains(t, b.tokens(4), " token token work:")
	is(t, eval[string](b, `told.join()`), "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit,"+
		"render,true,true,key,sendcode,remove id,render,true,true,key,sendcode,remove id")

	for name, decline := range map[string]string{"the person": b.q(".box .link") + `.click()`, "the vendor": `fails('300010')`} {
		b := openHumanCheckSite(t, browser, openPolicy, turnstileScript, asksFor(428, "turnstile", work, aRule))
		b.until(`document.querySelector('[slot=human] button')`)
		b.run(decline)
		b.works(20)
		contains(t, name+b.tokens(2), " work:")
		b.focused("code")
		chose := name == "the person"
		is(t, eval[bool](b, `told.includes('bar')`), chose)
		is(t, eval[bool](b, `said.some((s) => s.startsWith("The check didn't work here."))`), !chose)
		is(t, eval[bool](b, `said.some((s) => s.startsWith('Your browser is doing a calculation first'))`), chose)
	}
}

// aWidgetsVendorIsTakenAway tests several ways in which a page can remove the vendor's challenge.
// The widget shows the challenge once more. If the page removes it again, the widget uses work.
func aWidgetsVendorIsTakenAway(t *testing.T, browser context.Context) {
	work := challenge(20, workSalt)
	const (
		place  = `document.querySelector('[slot=human]')`
		widget = `document.querySelector('send-code')`
	)
	for name, take := range map[string]string{
		"a patch":            place + `.remove()`,
		"a patch within":     place + `.replaceChildren()`,
		"another's slot":     place + `.slot = 'lead'`,
		"text":               widget + `.textContent = 'x'`,
		"a move":             `document.body.append(document.createElement('aside')); document.querySelector('aside').append(` + widget + `)`,
		"a move of a parent": `document.body.prepend(document.querySelector('main'))`,
		"later":              `(() => { const w = ` + widget + `; w.remove(); setTimeout(() => document.body.append(w), 300); })()`,
		"another language":   widget + `.setAttribute('locale', 'es')`,
	} {
		b := openHumanCheckSite(t, browser, openPolicy, turnstileScript, asksFor(428, "turnstile", work, aRule))
		b.until(place + `?.querySelector('button')`)
		b.run(`window.old = `+place+`.firstChild`, take)
		b.until(place + `?.firstChild && ` + place + `.firstChild !== old && ` + place + `.assignedSlot && ` + b.q(".box.note"))
		is(t, eval[int](b, `document.querySelectorAll('[slot=human]').length`), 1)
		is(t, eval[string](b, `options`), "compact,light,"+map[bool]string{true: "es", false: "en"}[name == "another language"])
		if name == "a patch" {
			b.run(take)
			b.works(20)
			continue
		}
		b.run(place + `.firstChild.click()`)
		b.card("code")
		contains(t, name+": "+b.tokens(2), " token")
	}
}

// aVendorUnderADialog tests a vendor that shows its challenge in the body of the page. Under a
// modal dialog a person cannot reach the body, so the widget uses work instead.
func aVendorUnderADialog(t *testing.T, browser context.Context) {
	const hcaptcha = vendorComes + `window.hcaptcha = { render(place, all) { place.append('I am human'); told.push(all.theme + all.hl); }, remove() {} };`
	into := func(html, act string) string {
		return `document.addEventListener('DOMContentLoaded', () => { document.body.insertAdjacentHTML('beforeend', '` + html +
			`'); const e = document.body.lastChild; (e.shadowRoot?.host ?? e).append(document.querySelector('send-code')); ` + act + ` });`
	}
	for name, put := range map[string]string{
		"dialog": into(`<dialog></dialog>`, `e.showModal()`), "popover": into(`<div popover></div>`, `e.showPopover()`),
		"a library's": into(`<div role="dialog" aria-modal="true"></div>`, ``),
		"no pointer":  into(`<div role="dialog"></div>`, `document.body.style.pointerEvents = 'none'; e.style.pointerEvents = 'auto'`),
		"a component": into(`<div></div>`, `e.attachShadow({ mode: 'open' }).innerHTML = '<dialog><slot></slot></dialog>'; e.shadowRoot.firstChild.showModal()`),
	} {
		b := openHumanCheckSite(t, browser, openPolicy, hcaptcha+put, asksFor(428, "hcaptcha", challenge(20, workSalt), aRule))
		b.works(20)
		is(t, name+eval[string](b, `told.join()`), name)
		is(t, eval[bool](b, `said.some((s) => s.startsWith('Your browser is doing a calculation first'))`), true)
	}
	const dark = `document.documentElement.style.colorScheme = 'dark'`
	for put, options := range map[string]string{"": "lighten", into(`<dialog></dialog>`, `e.show(); `+dark): "darken"} {
		b := openHumanCheckSite(t, browser, openPolicy, hcaptcha+put, asksFor(428, "hcaptcha", challenge(20, workSalt), aRule))
		b.until(`document.querySelector('[slot=human]')?.textContent === 'I am human'`)
		contains(t, eval[string](b, `told.join()`), "&hl=en", options)
	}
}

// workReplacesAVendorThatFails tests vendors that show nothing or throw: the widget uses work, or
// says that a check is needed. It loads a vendor's script once more if the script failed to load,
// or if another script came in its place.
func workReplacesAVendorThatFails(t *testing.T, browser context.Context) {
	work := challenge(20, workSalt)
	for recaptcha, next := range map[string]string{
		`ready() {}`: `late()`,
		`ready(f) { setTimeout(f); }, render() { throw new Error('no'); }`: `true`,
	} {
		b := openHumanCheckSite(t, browser, openPolicy, vendorComes+`window.grecaptcha = { `+recaptcha+` }`,
			asksFor(428, "recaptcha", work, noRule))
		b.until(`told.length === 1 && (lates.size === 1 || bars.length)`)
		b.until(`said.some((s) => s.includes('Please complete this check'))`)
		b.run(next)
		b.works(20)
		contains(t, b.tokens(2), " work:")
		is(t, eval[bool](b, `said.some((s) => s.startsWith("The check didn't work here."))`), true)
	}

	b := openHumanCheckSite(t, browser, openPolicy, turnstileScript, asksFor(428, "turnstile", "null", noRule))
	b.until(`document.querySelector('[slot=human] button')`)
	is(t, eval[int](b, `lates.size`), 0) // the challenge is shown, so no timeout runs
	is(t, eval[string](b, b.q(".box .link")+`.textContent`), "I can't do this check")
	b.run(b.q(".box .link")+`.focus()`, b.q(".box .link")+`.click()`)
	b.card("away", "A check is needed first")
	b.focused("heading")
	is(t, b.tokens(1), "")

	for _, how := range []string{`window.failing = 1;`, `window.another = 1;`} {
		b := openHumanCheckSite(t, browser, openPolicy, how+turnstileScript, asksFor(428, "turnstile", work, noRule),
			asksFor(422, "turnstile", work, noRule))
		solve := func() {
			b.until(`document.querySelector('[slot=human] button')`)
			b.run(`late()`, `document.querySelector('[slot=human] button').click()`)
		}
		solve()
		b.card("code")
		contains(t, b.tokens(3), " work:", " token")
		b.pass(61 * time.Second)
		b.ready()
		b.run(`answers.push(` + asksFor(428, "turnstile", work, noRule) + `)`)
		b.click("#again")
		solve()
		b.until(`sends.length === 5`)
		is(t, eval[int](b, `told.filter((src) => src.startsWith('https:')).length`), 2)
	}
}

// aWidgetWhoseVendorIsBlocked tests that the widget uses work, and shows this. Without work it
// shows how long the wait is.
func aWidgetWhoseVendorIsBlocked(t *testing.T, browser context.Context) {
	for _, policy := range []string{openPolicy, strictPolicy} {
		b := openHumanCheckSite(t, browser, policy, "", asksFor(428, "hcaptcha", challenge(20, workSalt), aRule))
		b.works(20)
		is(t, eval[bool](b, `said.some((s) => s.startsWith("The check didn't work here."))`), true)
	}
	b := openHumanCheckSite(t, browser, openPolicy, "", asksFor(428, "http", "null", aRule))
	b.card("enough", "Send code in")
	b.awaitEvent("refused", `"retry_after":90`)
	is(t, b.tokens(1), "")
}

// aWidgetWithoutACheck tests that the widget says that a human check is needed, and what the person
// can do, if no wait would help.
func aWidgetWithoutACheck(t *testing.T, browser context.Context) {
	const needed = "A check is needed first. It couldn't be done here"
	b := openHumanCheckSite(t, browser, openPolicy, "", asksFor(428, "http", "null", noRule))
	b.card("away", "A check is needed first", "It couldn't be done here", pagetest.Address)
	b.says(needed)
	b.awaitEvent("refused", `"what":"send"`, `"blocked_by":"human_check"`, `"retry_after":0`)
	is(t, eval[bool](b, `heard.some(([name]) => name === 'failed')`), false)
	b.world.Codes.SetCountries("DE")
	b.run(`document.querySelector('send-code').setAttribute('channels', 'email sms')`)
	b.card("away", "Send a text message instead")
	b.click("#again")
	b.card("code", "Check your mail")
	is(t, b.tokens(2), " ")
	b.pass(61 * time.Second)
	b.ready()
	b.run(`answers.push(` + asksFor(428, "http", "null", noRule) + `)`)
	b.click("#again")
	b.card("code", needed)

	work := challenge(20, workSalt)
	b = openHumanCheckSite(t, browser, openPolicy, "", asksFor(428, "work", work, noRule), asksFor(422, "work", work, noRule),
		asksFor(422, "work", work, noRule), asksFor(422, "work", work, noRule), asksFor(422, "work", work, noRule))
	b.card("away", "A check is needed first")
	b.tokens(5)
}

// aPageShowsItsOwnCheck tests a page that handles the event humancheck, and shows its own check.
// The widget sends the token with which the page responds.
func aPageShowsItsOwnCheck(t *testing.T, browser context.Context) {
	own := `addEventListener('humancheck', (e) => { told.push(e.detail.by + e.detail.site_key); e.preventDefault(); setTimeout(() => e.detail.respond('mine')); })`
	b := openHumanCheckSite(t, browser, strictPolicy, own, asksFor(428, "http", "null", aRule))
	b.card("code")
	is(t, b.tokens(2), " mine")
	is(t, eval[string](b, `told.join()`), "httpkey")
}

// theWorkIsSHA256 tests the hash for salts of 40 to 69 characters and numbers of several lengths.
func theWorkIsSHA256(t *testing.T, browser context.Context) {
	b := visiting(t, browser, accepting(t))
	b.holdWidget()
	for length := 40; length < 70; length++ {
		for _, number := range []int{7, 1007, 10007} {
			got := eval[string](b, fmt.Sprintf(
				`(() => { const s = widget.search(%s); let r; do r = s.next(); while (!r.done); return String(r.value) })()`,
				challenge(number, strings.Repeat("s", length))))
			is(t, got, fmt.Sprint(number))
		}
	}
}
