package page_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"sendcode/internal/bundle"
	"sendcode/internal/page/pagetest"
	"sendcode/web"
)

// drawing has the widget's scripts draw each row of the table, and gives the rows that are drawn otherwise.
const drawing = `(async (cases) => {
  const { draw, cards, phones: numbers } = window.widget, { mails, phones } = await import('/static/widget/words.en.js');
  const words = { email: mails, sms: { ...mails, ...phones } };
  const windows = { minute: 60, hour: 3600, day: 86400 };
  const notes = { wrong: 'wrong', many: 'many', away: 'away', required: 'required', foreign: 'foreign', length: 'length' };
  const parts = { help: 'details.help', rules: '.rules', instead: '.instead', last: '[data-act="code"]' };
  const differ = [];
  for (const { name, state, card } of cases) {
    const channel = state.channel ?? 'email', w = words[channel], tries = state.tries ?? 5, wait = state.wait ?? 0;
    const window = Math.max(windows[state.rule] ?? 7200, wait);
    const rule = state.rule
      ? { name: state.rule, scope: state.scope ?? 'recipient', limit: 1, window, remaining: 0, reset_after: wait, retry_after: wait }
      : { name: 'own', scope: 'recipient', limit: 9, window: 7200, remaining: 9, reset_after: 0, retry_after: 0 };
    const quota = { allowed: wait === 0, retry_after: wait, blocked_by: wait > 0 ? state.rule : null, rules: [rule] };
    const at = Date.parse('2026-03-04T14:02:20Z'), iso = (s) => new Date(at + s * 1000).toISOString();
    const view = state.status && {
      id: 'v', status: state.status, channel, to: 'a•••@example.com', created_at: iso(-60), expires_at: iso(540), expires_in: state.status === 'expired' ? 0 : 540,
      attempts_remaining: tries, code_format: { length: 6, alphabet: 'digits' }, send: { id: 's', status: state.send, number: state.number ?? 1 },
    };
    const drawn = draw(words, {
      view, quota, channel, refused: state.refused, note: state.note && { kind: notes[state.note], wait: 5 }, screen: state.screen,
      channels: ['email', 'sms'], cards, phones: numbers, country: 'DE', countries: [], to: 'ana@example.com',
    });
    const text = (key) => !key ? '' : (w[key].one ? w[key][tries === 1 ? 'one' : 'other'].replace('{n}', tries) : w[key].replace('{n}', 6));
    const find = (selector) => drawn.querySelector(selector)?.textContent ?? '';
    const got = {
      kind: drawn.dataset.kind, heading: find('#heading'), again: drawn.querySelector('#again')?.dataset.ready ?? '', message: find('.box.warn, .box.bad, .box.note'),
      error: find('#code-error'), parts: Object.keys(parts).filter((p) => drawn.querySelector(parts[p])).sort(),
    };
    const want = {
      kind: card.kind, heading: text(card.heading), again: text(card.again), message: text(card.message), error: text(card.error), parts: card.parts,
    };
    if (JSON.stringify(got) !== JSON.stringify(want)) differ.push(name + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want));
  }
  return [cases.length, differ];
})`

// theTableOfCards is held by the browser's drawing as by the server's (cases_test.go).
func theTableOfCards(t *testing.T, browser context.Context) {
	cases, err := os.ReadFile("testdata/cards.json")
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, browser, running(t), pagetest.Look{})
	b.visit("")
	script, err := bundle.Of(web.FS, "all.js", map[string]string{"all.js": `
		import { draw } from './widget/draw.js';
		import { cards } from './widget/code.js';
		import * as numbers from './widget/phones.js';
		import { put } from './static/time.js';
		window.widget = { draw, cards, phones: numbers, put };`})
	if err != nil {
		t.Fatal(err)
	}
	eval[int](b, "(() => { const SENDCODE = {};\n"+strings.ReplaceAll(string(script), "import.meta.url", "location.href")+"\nreturn 0 })()")
	if got := eval[string](b, `widget.put('a {c}. {c}, {n}.{x}', { c: '7:34 p. m.', n: 0 })`); got != "a 7:34 p. m. 7:34 p. m., 0.{x}" {
		t.Errorf("a time that ends with a dot: %q", got)
	}
	eval[int](b, `((`+drawing+`)(`+string(cases)+`).then((r) => { window.cards = r; }, (e) => { window.cards = [0, [String(e)]]; }), 0)`)
	b.until("window.cards")
	got := eval[struct {
		Cases  int
		Differ []string
	}](b, `({ Cases: window.cards[0], Differ: window.cards[1] })`)
	if got.Cases < 30 {
		t.Errorf("%d cases", got.Cases)
	}
	for _, differs := range got.Differ {
		t.Error(differs)
	}
}
