import { emphasised, h } from './dom.js';
import { clockFrom, lasting, minute, put, second } from './time.js';

// The parts of the widget's cards, as the page's templates draw them: the same classes, the same data for the countdown.

const day = 24 * 60 * minute;

export const carrier = 'carrier'; // the rule that a mobile network makes by itself

const plural = (text, n) => put(n === 1 ? text.One : text.Other, { n });

// act is a form that does one thing.
export const act = (does, ...children) => h('form', { class: does === 'send' ? 'act ask' : 'act', 'data-act': does, novalidate: true }, children);

export const box = (tone, text) => text && h('p', { class: `box ${tone}`, part: `note ${tone}` }, text);

export const link = (does, text) => h('button', { type: 'button', class: 'link change', part: 'link', 'data-act': does }, text);

export const lead = (...children) => h('p', { class: 'lead', part: 'lead' }, children);

// heading has a slot where a site may put its own words.
export const heading = (text, slot) => h('h2', { id: 'heading', tabindex: -1, part: 'heading' }, slot ? h('slot', { name: slot }, text) : text);

// until is a time of the day that lies ms from the answer: the countdown's card writes it.
export const until = (ms, pattern, round) => h('span', { 'data-at': ms, 'data-text': pattern, 'data-round': round });

// button counts wait milliseconds down, of whole at most, and can then be pressed.
export function button(w, { label, wait = 0, whole = 0, quiet, timer = true }) {
  const waits = wait > 0, long = wait >= clockFrom;
  return [
    h('button', {
      id: 'again', class: `button again${quiet ? ' quiet' : ''}`, part: quiet ? 'button quiet' : 'button', 'aria-describedby': 'again-why',
      'data-ready': label, 'aria-disabled': waits && 'true', 'data-total': waits && Math.max(wait, whole),
    }, h('span', { class: 'label' }, long ? w.NextCode : label), waits && [
      ' ', h('span', { class: 'count', 'aria-hidden': 'true', 'data-wait': wait, 'data-short': w.In, 'data-long': w.At, 'data-done': '' }),
      h('svg', { class: 'bar', 'aria-hidden': 'true', viewBox: '0 0 100 1', preserveAspectRatio: 'none' }, h('rect', { height: 1 })),
    ]),
    h('p', {
      id: 'again-why', role: 'timer', class: 'visually-hidden', 'data-wait': waits && wait, 'data-done': waits && '',
      'data-short': waits && (timer ? w.TimerIn : w.In), 'data-long': waits && (timer ? w.TimerAt : w.At),
    }),
  ];
}

// rules draws the pips: what the recipient's rules have left, and the one of a network or of all while it refuses.
export function rules(w, quota) {
  const own = quota?.rules.filter((r) => r.scope === 'recipient' || r.retry_after > 0 && wide[r.scope]) ?? [];
  return own.length > 0 && h('div', { class: 'rules', part: 'rules', role: 'group', 'aria-label': w.PipsLabel },
    h('ul', { class: 'pips', role: 'list' }, own.map((r) => row(w, r))));
}

const wide = { ip: 'YourNetwork', network: 'YourNetwork', app: 'AllTogether', purpose: 'AllTogether', global: 'AllTogether', everything: 'AllTogether' };
const longest = 12; // marks in a row; more are one bar, as in web/pips.go

function row(w, r) {
  const used = Math.min(r.limit - r.remaining, r.limit), waits = r.retry_after > 0;
  const name = wide[r.scope]; // how much of such a rule is used is not told
  const marks = name ? [] : r.limit > longest
    ? h('svg', { class: 'pip-bar', viewBox: `0 0 ${r.limit} 1`, preserveAspectRatio: 'none' }, h('rect', { class: 'pip-used', width: used, height: 1 }))
    : Array.from({ length: r.limit }, (_, i) => h('i', { class: i < used ? 'pip used' : 'pip' }));
  const note = waits
    ? { 'data-wait': r.retry_after * second, 'data-short': w.PipsIn, 'data-long': w.PipsAt, 'data-done': plural(w.PipsLeft, 1) }
    : {};
  return h('li', { class: waits ? 'pips-row blocked' : 'pips-row' },
    h('span', { class: 'pips-name' }, name ? w[name] : ruleName(w, r)),
    h('span', { class: 'marks', 'aria-hidden': 'true' }, marks),
    !name && h('span', { class: 'visually-hidden' }, put(w.PipsSpoken, { used, limit: r.limit })),
    h('span', { class: 'pips-note', ...note }, plural(w.PipsLeft, r.remaining)));
}

// ruleName says which time a rule is about.
export function ruleName(w, { name, per, window }) {
  if (name === carrier) return w.CarrierRule;
  const period = { hour: w.ThisHour, day: w.Today, week: w.ThisWeek, month: w.ThisMonth }[per];
  if (period) return period;
  const ms = window * second;
  const usual = { minute: [minute, w.PerMinute], hour: [60 * minute, w.PerHour], day: [day, w.PerDay] }[name];
  if (usual?.[0] === ms) return usual[1];
  if (ms >= 2 * day && ms % day === 0) return put(w.Within, { d: put(w.Days, { n: ms / day }) });
  return put(w.Within, { d: lasting(ms, w) });
}

// spent says which rule is, in the person's words: a heading, and since when.
export function spent(w, quota, to) {
  const r = quota.rules.find((each) => each.name === quota.blocked_by);
  const others = { failures: 'EnoughFailures', app: 'EnoughAll', purpose: 'EnoughAll', global: 'EnoughAll', everything: 'EnoughAll' };
  if (r?.scope !== 'recipient') {
    const which = others[r?.scope] ?? 'EnoughNetwork';
    return { heading: w[which], lead: emphasised(w[`${which}Lead`], { to }) };
  }
  if (r.name === carrier) return { heading: w.EnoughCarrier, lead: put(w.EnoughCarrierLead, { to }) };
  const when = ruleName(w, r), used = r.limit - r.remaining;
  const name = { [w.PerMinute]: 'Minute', [w.PerHour]: 'Hour', [w.ThisHour]: 'Hour', [w.PerDay]: 'Day', [w.Today]: 'Day', [w.ThisWeek]: 'Week', [w.ThisMonth]: 'Month' }[when] ?? '';
  const heading = w[`Enough${name}`];
  if (r.per) return { heading, lead: put(plural(w.SentWithin, used), { to, when }) };
  const since = r.window - r.reset_after; // the oldest counted send leaves when it is as old as the window
  return { heading, lead: until(-since * second, put(plural(w.SentSince, used), { to })) };
}

// wrongCode says what is the matter with what was typed. Empty: nothing.
export function wrongCode(w, note, view) {
  const letters = view.code_format?.alphabet === 'unambiguous', n = view.code_format?.length;
  switch (note?.kind) {
    case 'wrong': return plural(w.WrongCode, view.attempts_remaining);
    case 'many': return w.TooManyChecks;
    case 'required': return w.CodeRequired;
    case 'length': return put(letters ? w.CodeLengthCharacters : w.CodeLength, { n });
    case 'foreign': return letters ? w.CodeNotCharacters : w.CodeNotDigits;
  }
  return '';
}
