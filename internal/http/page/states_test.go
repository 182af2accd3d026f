package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// faults is a function of the element that contains the card. It lists faults that axe-core does
// not find, for example elements that are too small to hit, cannot be focused, have a border that
// is hard to see, or refer to nothing.
const faults = `((scope) => {
  const out = [], root = document.documentElement;
  const all = (s) => [...scope.querySelectorAll(s)].filter((e) => e.checkVisibility());
  if (root.scrollWidth > root.clientWidth) out.push('scrolls sideways: ' + root.scrollWidth + ' > ' + root.clientWidth);
  if (all('h1, h2').length !== 1) out.push('not one heading');
  for (const e of all('button:not(.link), .button, summary, input, select')) {
    const r = e.getBoundingClientRect();
    if (r.height < 45.9 || r.width < 45.9) out.push('too small to hit: ' + e.outerHTML.slice(0, 80) + ' ' + r.width + '×' + r.height);
  }
  for (const e of all('a, .link')) {
    const r = e.getBoundingClientRect();
    if (r.height < 40 || r.width < 24) out.push('too small to hit: ' + e.outerHTML + ' ' + r.width + '×' + r.height);
  }
  const ids = [...scope.querySelectorAll('[id]')].map((e) => e.id);
  for (const e of scope.querySelectorAll('[aria-describedby], [aria-labelledby]')) {
    for (const id of (e.getAttribute('aria-describedby') ?? e.getAttribute('aria-labelledby')).split(' ')) {
      if (!ids.includes(id)) out.push('describes nothing: ' + id);
    }
  }
  if (scope.querySelector('#code')?.type !== undefined) {
    const c = scope.querySelector('#code');
    const mode = 'letters' in c.dataset ? 'text characters' : 'numeric none';
    const { value } = c, check = scope.querySelector('#check'), typed = ('letters' in c.dataset ? 'W' : '8').repeat(c.dataset.length || 6);
    if ((check.getBoundingClientRect().top > c.getBoundingClientRect().top + 10) !== innerWidth < 340) out.push('the button is not where it belongs');
    c.value = typed;
    if (c.scrollWidth > c.clientWidth) out.push('the code does not fit its field: ' + c.scrollWidth + ' in ' + c.clientWidth);
    c.value = value;
    const word = new Range();
    word.selectNodeContents(check);
    if (!/\s/.test(check.textContent.trim()) && new Set([...word.getClientRects()].map((r) => Math.round(r.bottom))).size > 1) out.push('a word is broken: ' + check.textContent);
    if (c.type !== 'text' || c.inputMode + ' ' + c.autocapitalize !== mode || c.getAttribute('autocomplete') !== 'one-time-code' || c.maxLength < 20) out.push('not a field for codes');
  }
  for (const row of all('.pips-row')) {
    const [name, marks, note] = [row.firstElementChild, row.querySelector('.marks'), row.lastElementChild].map((e) => e.getBoundingClientRect());
    const own = row.querySelector('.marks').lastElementChild?.getBoundingClientRect() ?? marks, card = row.closest('.card').getBoundingClientRect();
    const [a, b, c] = [name, own, note].sort((x, y) => x.left - y.left);
    if (a.right > b.left + 1 || b.right > c.left + 1 || a.left < card.left || c.right > card.right) out.push('words over marks: ' + row.innerText);
    const whole = row.getBoundingClientRect(), rules = (row.closest('.rules') ?? row).getBoundingClientRect();
    if (whole.left > rules.left + 1 || whole.right < rules.right - 1) out.push('marks have an indent: ' + row.innerText);
  }
  const names = [...scope.querySelectorAll('#card :is(a, button)')].map((e) => e.textContent.replace(/\s+/g, ' ').trim());
  for (const [i, name] of names.entries()) if (names.indexOf(name) !== i) out.push('two controls are called ' + name);
  for (const e of all('strong').filter((e) => e.textContent.includes('@') || e.closest('.support'))) {
    const box = e.closest('p, li').getBoundingClientRect(), range = new Range();
    range.selectNodeContents(e);
    const rects = [...range.getClientRects()].filter((r) => r.width), width = Math.max(...rects.map((r) => r.right)) - Math.min(...rects.map((r) => r.left));
    const whole = document.createElement('strong'), lines = new Set(rects.map((r) => Math.round(r.bottom))).size;
    whole.textContent = e.textContent;
    Object.assign(whole.style, { position: 'absolute', whiteSpace: 'nowrap' });
    e.after(whole);
    if (lines > 1 && whole.getBoundingClientRect().width <= box.width) out.push('an address is broken: ' + e.textContent);
    whole.remove();
    if (width > box.width + 1) out.push('an address is cut: ' + e.textContent);
    if (/^\p{P}/u.test(e.closest('.whole')?.nextSibling?.textContent)) out.push('a sign may stand alone: ' + e.textContent);
  }
  if (scope.querySelector('[style]:not(rect)') || scope.querySelector('script:not([src]), style')) out.push('something is inline');
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const read = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
  const known = {}, rgba = (color) => known[color] ??= read(color);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
  for (const e of all('input, select')) {
    const r = ratio(rgba(getComputedStyle(e).borderTopColor), behind(e.parentElement));
    if (r < 3) out.push('contrast of a border ' + r.toFixed(2));
  }
  for (const e of all('button, a, summary, input, select')) {
    e.focus({ focusVisible: true });
    const s = getComputedStyle(e);
    if (scope.activeElement !== e) out.push('cannot be reached: ' + e.outerHTML.slice(0, 80));
    else if (s.outlineStyle !== 'solid' || s.outlineWidth !== '3px') out.push('no ring: ' + e.outerHTML.slice(0, 80) + s.outline);
    else if (ratio(rgba(s.outlineColor), behind(e.parentElement)) < 3) out.push('a ring that is not seen');
  }
  return out;
})`

// everyCard tests that the widget's cards can be used in each look, and that axe-core finds no
// problem in them.
func everyCard(t *testing.T, tab *browsertest.Tab, engine *pagetest.Axe, looks []browsertest.Look, widgets []pagetest.WidgetState,
	lang string,
) {
	t.Helper()
	p := browsertest.NewPage(t, tab, "about:blank", "")
	p.Root = `document.querySelector('send-code').shadowRoot`
	for _, s := range widgets {
		w, site := s.World(lang)
		t.Cleanup(w.Close)
		t.Cleanup(site.Close)
		p.Go(site.URL)
		if err := s.Reach(tab, w); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		fits(p, engine, s.Name+" in "+lang, looks, "send-code")
		if lang == "zh" && browsertest.Value[bool](p,
			`/[A-Za-z]{3,}/.test(`+p.Element("#card")+`.innerText.replaceAll(/\S+@?example\.com|S-\w{4}-\w{4}/g, ''))`) {
			t.Errorf("%s says in Chinese: %s", s.Name, p.Text("#card"))
		}
	}
}

// theMainCards tests the main cards in English. `make nightly` tests all cards in all languages.
func theMainCards(t *testing.T, browser context.Context, engine *pagetest.Axe) {
	main := strings.Fields(`widget-ask widget-code widget-code-wrong widget-enough-hour widget-failed widget-expired widget-away widget-approved widget-phone-ask`)
	widgets := slices.DeleteFunc(pagetest.WidgetStates(), func(s pagetest.WidgetState) bool { return !slices.Contains(main, s.Name) })
	is(t, len(widgets), len(main))
	everyCard(t, anotherTab(t, browser), engine, narrowAndWide, widgets, "en")
}

// narrowAndWide has a width of 320 CSS pixels in dark colours, which is also 1280 at 400 % zoom,
// and of 1280 in light colours.
var narrowAndWide = []browsertest.Look{{Width: 320, Height: 640, Dark: true}, {Width: 1280, Height: 640}}

func anotherTab(t *testing.T, browser context.Context) *browsertest.Tab {
	t.Helper()
	ctx, end := browsertest.ChromiumTab(browser)
	t.Cleanup(end)
	return browsertest.InChromium(ctx)
}

// fits tests that a page can be used in each look, and that axe-core finds no problem in a part of
// it.
func fits(p *browsertest.Page, engine *pagetest.Axe, name string, looks []browsertest.Look, part string) {
	p.Helper()
	for _, look := range looks {
		servertest.OK(p, p.Show(look))
		found, err := engine.Violations(p.Tab, part)
		servertest.OK(p, err)
		for _, fault := range append(found, browsertest.Value[[]string](p, faults+"("+p.Root+")")...) {
			p.Errorf("%s at %d px, dark %v: %s", name, look.Width, look.Dark, fault)
		}
		p.Shot(fmt.Sprintf("%s %d dark %v", name, look.Width, look.Dark))
	}
}

// accessible fails the test if axe-core finds a problem in a part of the page as it is shown now.
func (t *tab) accessible(engine *pagetest.Axe, name string, look browsertest.Look, part string) {
	t.Helper()
	found, err := engine.Violations(browsertest.InChromium(t.ctx), part)
	servertest.OK(t, err)
	for _, v := range found {
		t.Errorf("%s at %d px, dark %v: %s", name, look.Width, look.Dark, v)
	}
}

// drawing is a script that renders each row of the table of cards in a language, with the widget's
// scripts. It returns the rows that are rendered differently, and texts that must not be on them: a
// whole address beside a masked one, a word about mail if there are only text messages, a foreign
// word in Chinese, and different texts about one address.
const drawing = `(async (cases, lang) => {
  const { draw, pick, cards, phones: numbers, Moment } = window.widget, { mails, phones } = await import('/static/widget/words.' + lang + '.js');
  const words = { email: mails, sms: { ...mails, ...phones } };
  const ofMail = { en: /mail|inbox|spam/i, es: /correo|mail|bandeja|spam/i, ar: /بريد|رسالة إلكترونية/, 'zh-Hans': /邮/ }[lang];
  const letters = /[A-Za-z]{3,}/, ours = /\S*@?(example|other)\.com|to confirm your address/g;
  const windows = { minute: 60, hour: 3600, day: 86400 };
  const parts = { help: 'details.help', rules: '.rules', instead: '.instead', forget: '[data-act="forget"]', last: '[data-act="code"]' };
  const differ = [];
  for (const { name, state, card } of cases) {
    const channel = state.channel ?? 'email', w = words[channel], tries = state.tries ?? 5, wait = state.wait ?? 0;
    const window = Math.max(windows[state.rule] ?? 7200, wait);
    const rule = state.rule
      ? { name: state.rule, scope: state.scope ?? 'recipient', limit: 1, window, days: state.days, remaining: 0, reset_after: wait, retry_after: wait }
      : { name: 'own', scope: 'recipient', limit: 9, window: 7200, remaining: 9, reset_after: 0, retry_after: 0 };
    const left = state.left?.map((remaining, i) => {
      const name = ['minute', 'hour', 'day'][i];
      return { name, scope: 'recipient', limit: [1, 5, 10][i], window: windows[name], remaining, reset_after: 0, retry_after: 0 };
    });
    const quota = { allowed: wait === 0, retry_after: wait, blocked_by: wait > 0 ? state.rule : null, rules: left ?? [rule] };
    const at = Date.parse('2026-03-04T14:02:20Z'), iso = (s) => new Date(at + s * 1000).toISOString();
    const view = state.status && {
      id: 'v', status: state.status, channel, to: 'a•••@example.com', created_at: iso(-60), expires_at: iso(540), expires_in: state.status === 'expired' ? 0 : 540,
      attempts_remaining: tries, purpose_title: state.title, code_format: { length: 6, alphabet: 'digits' }, send: { id: 's', status: state.send, number: state.number ?? 1, counts: state.counts ?? false },
    };
    const drawnFor = (to, channels) => draw(words, {
      view: view && { ...view, to: to.replace(/^(.).*@/, '$1•••@') }, quota, channel, refused: state.refused, note: state.note === 'slow' ? { kind: 'away', slow: true } : state.note && { kind: state.note }, screen: state.screen, known: state.known,
      channels, moment: new Moment(), pick, cards, phones: numbers, country: 'DE', countries: [], to, proof: 'a.b.c',
    });
    const drawn = drawnFor('ana@example.com', ['email', 'sms']), alone = drawnFor('+4915123456789', ['sms']).textContent, other = drawnFor('ben@other.com', ['email', 'sms']);
    const says = drawn.textContent, told = (card, to) => card.innerHTML.replaceAll('<wbr>', '').replaceAll(to, '').replaceAll(to.replace(/^(.).*@/, '$1•••@'), '');
    if (view && says.includes('ana@')) differ.push(name + ' shows an address: ' + says);
    if (channel === 'sms' && ofMail.test(alone)) differ.push(name + ' speaks of mail: ' + alone);
    if (lang === 'zh-Hans' && letters.test(says.replace(ours, ''))) differ.push(name + ' says in Chinese: ' + says);
    if (told(drawn, 'ana@example.com') !== told(other, 'ben@other.com')) differ.push(name + ' says of another address: ' + other.textContent);
    const text = (keys) => keys.split(' ').map((key) => !key ? '' : w[key].other ? (w[key][new Intl.PluralRules(lang).select(tries)] ?? w[key].other).replace('{n}', tries) : w[key].replace('{n}', 6)).join(w.Separator);
    const find = (selector) => drawn.querySelector(selector)?.textContent ?? '';
    const got = {
      kind: drawn.dataset.kind, heading: find('#heading').replace(w.AndTitle.replace('{title}', state.title), ''), again: drawn.querySelector('#again')?.dataset.ready ?? '', message: find('.box.warn, .box.bad, .box.note'),
      error: find('#code-error'), parts: Object.keys(parts).filter((p) => drawn.querySelector(parts[p])).sort(),
    };
    if (state.title && find('#heading').concat(find('.lead')).includes(state.title)) got.parts.push('title');
    const want = {
      kind: card.kind, heading: text(card.heading), again: text(card.again), message: text(card.message), error: text(card.error), parts: card.parts,
    };
    if (JSON.stringify(got) !== JSON.stringify(want)) differ.push(name + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want));
  }
  return cases.length < 30 ? [cases.length + ' cases'] : differ;
})`

// misread is JavaScript that follows the table of internal/codes/code. It keeps the texts that the
// page's scripts read differently.
const misread = `.filter(({ in: text, code = '', reason = '', length, letters }) => {
  const slips = { required: 'required', not_digits: 'foreign', not_in_alphabet: 'foreign', too_short: 'length', too_long: 'length' }, got = widget.codeIn(text, length, letters);
  return got !== code || reason && widget.slipIn(text, letters) !== slips[reason];
}).map(({ in: text }) => text)`

// rounded is a script that returns the wrong texts among those with a time that the widget computes
// from a wait, which may have been rounded up. For rules whose periods are dates the texts count
// days, even across a change of daylight saving time.
const rounded = `(async () => {
  const { draw, pick, cards, phones, Moment } = widget, { mails } = await import('/static/widget/words.en.js');
  const shown = (wait, days, window = 3600) => {
    const rule = { name: 'hour', scope: 'recipient', limit: 1, window, days, remaining: 0, reset_after: wait, retry_after: wait };
    const quota = { allowed: false, retry_after: wait, blocked_by: 'hour', rules: [rule] };
    const card = draw({ email: mails }, { quota, pick, cards, phones, channel: 'email', channels: ['email'], moment: new Moment(), refused: true, to: 'ana@example.com' });
    return [card.querySelector('.lead').textContent, card.querySelectorAll('.lead [data-at]').length, card.querySelector('.count').dataset.long, card.querySelector('[role=timer]').dataset.long].join('; ');
  };
  const end = ' Change the address; 0; ', at = end + 'at {c} · {d}; You can request another code at {c}, in {d}.', most = 'At most 1 code per hour goes to ana@example.com.';
  return [[3600, most + at], [3693, most + end + 'at {c}; You can request it at {c}.'], [9999, '1 code was sent to ana@example.com today.' + at, 1, 82800], [9999, most.replace('per hour', 'in 7 days') + at, 7, 601200]]
    .map(([wait, want, ...by]) => [shown(wait, ...by), want]).filter(([got, want]) => got !== want).map(String);
})()`

// holdWidget makes the widget's parts available to scripts as window.widget.
func (t *tab) holdWidget() {
	t.Helper()
	script, err := pagetest.Bundle(os.DirFS("../../.."), "internal/http/page/testdata/widget.js", true)
	servertest.OK(t, err)
	t.run("(() => { const SENDCODE = {};\n" + strings.ReplaceAll(string(script), "import.meta.url", "location.href") + "\n})()")
}

// theTableOfCards renders the table testdata/cards.json, and runs other checks of the widget's
// functions.
func theTableOfCards(t *testing.T, browser context.Context) {
	b := visiting(t, browser, world(t))
	b.holdWidget()
	// a time may end with a dot
	is(t, eval[string](b, `widget.put('a {c}. {c}, {n}.{x}', { c: '7:34 p. m.', n: 0 })`), "a 7:34 p. m. 7:34 p. m., 0.{x}")
	const clocks = `((m) => { m.wall = Date.UTC(2026, 0, 1, 12, 49); return [60_000, 61_400, 63_000].map((ms) => /:(\d\d)/.exec(widget.clock(m, ms, {Lang: 'en', OtherDay: '{c}'}, 'up'))[1]).join() })(new widget.Moment())`
	is(t, eval[string](b, clocks), "50,50,51") // the time in which an answer is transmitted adds no minute
	another := eval[string](b, `widget.clock(new widget.Moment(), 5e8, {Lang: 'es', OtherDay: '{c} del {day}'})`)
	is(t, strings.Contains(another, "\u00a0del\u00a0") && !strings.Contains(another, " "), true) // a line must not break within it
	is(t, eval[bool](b, `widget.clock(new widget.Moment(), 864e6, {Lang: 'en', OtherDay: '{day}'}).endsWith('\u00a0' + new Date(Date.now() + 864e6).getDate())`), true)
	messages, err := json.Marshal(ourMessages(t))
	servertest.OK(t, err)
	// A field turns line ends into spaces, and takes 1000 characters.
	const unread = `.filter((m) => widget.codeIn(m.Text.replaceAll('\n', ' ').slice(0, 1000), m.Code.length, m.Letters) !== m.Code).map((m) => m.Text)`
	for what, wrong := range map[string]string{
		"from a rounded wait is reckoned":        rounded,
		"something else is made of a typed text": read(t, "../../codes/code/testdata/typed.json") + misread,
		"no code is read in a message":           string(messages) + unread,
	} {
		for _, one := range eval[[]string](b, wrong) {
			t.Errorf("%s: %s", what, one)
		}
	}
	for _, w := range texts.PageLanguages() {
		for _, one := range eval[[]string](b, fmt.Sprintf("(%s)(%s, %q)", drawing, read(t, "testdata/cards.json"), w.Lang())) {
			t.Errorf("in %s a card is not that of the table: %s", w.Lang(), one)
		}
	}
}
