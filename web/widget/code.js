import { CodeField } from '../static/code.js';
import { attempt } from '../static/browser.js';
import codes from '../static/code.css';
import outcome from '../static/outcome.css';
import { Countdown } from '../static/countdown.js';
import pips from '../static/pips.css';
import { moveFocus, Swap } from '../static/swap.js';
import { clockFrom, lasting, minute, put, second } from '../static/time.js';
import { cleared, guard, mirror } from './address.js';
import { emphasised, h, pieces } from './dom.js';
import { Flow } from './flow.js';
import { act, box, dots, heading, lead, link } from './parts.js';

// This module has the cards after a request for a code. It is loaded when the field of the first
// card gets the focus.

export const { lang, mails, phones } = SENDCODE;
export const styles = [outcome, pips, codes];
export { cleared, CodeField, Countdown, Flow, guard, mirror, moveFocus, pieces, Swap };

// tabs returns whether a key moves the focus to another control of a root. Some dialogs, such as
// react-aria's, answer Tab by moving it to the next element that they see, past the root's controls.
export const tabs = (root, { key, shiftKey }) => key === 'Tab' && root.activeElement !==
    [...root.querySelectorAll('input, select, button, summary, a')].filter((e) => e.tabIndex >= 0 && e.checkVisibility()).at(shiftKey ? 0 : -1);

const helpAfter = 15 * second;
const underway = new Set(['queued', 'sending']);
const slips = new Set(['required', 'foreign', 'length']); // kinds of notes on a typed text that is no code
const day = 24 * 60 * minute;
// roundedFrom is a window in seconds. The wait of a rule with at least this window may be rounded
// up, so that it does not tell the time of a send.
const roundedFrom = 3600;

export const cards = { code, enough, failed, ended, approved, away, misplaced };

const soon = 60; // seconds: if the wait after a refusal is longer, the card that explains the rule is shown

// polls returns whether the state will change soon.
export const polls = ({ view }) => view?.status === 'pending' && !view.send.final;

const first = ({ send }, ...ends) => send.number <= 1 && ends.includes(send.status); // whether the first message ended in one of these ways

// pick returns the kind of the card to show, by the API's answers. Only the answer to the check of
// a right code has the proof. If that answer was lost, the card 'ended' says that the code was used.
// Otherwise another tab has the proof.
export function pick({ view, quota, refused, note, screen, lost }) {
  if (note?.kind === 'misplaced' || note?.kind === 'loading') return note.kind;
  if (screen === 'change' || screen === 'instead' || !view) {
    if (note?.kind === 'away') return 'away';
    return !screen && refused ? 'enough' : 'ask';
  }
  if (note?.kind === 'away' && note.reading) return 'away';
  if (view.status === 'approved') return lost ? 'ended' : 'approved';
  const held = quota.blocked_by === 'carrier' && first(view, 'failed'); // by the carrier, whose wait is known
  if ((held || refused && quota.retry_after > soon) && screen !== 'code') return 'enough';
  if (view.status !== 'pending') return 'ended';
  return first(view, 'failed', screen !== 'code' && 'undelivered') ? 'failed' : 'code';
}

// supported returns the line with the send's reference for support, if cards of this kind have it;
// otherwise a false value.
export function supported(w, kind, view) {
  const ref = view?.send?.support;
  return ref && ['help', 'enough', 'failed', 'ended'].includes(kind) &&
      h('p', { class: 'support', part: 'support' }, emphasised(w.SupportReference, { ref }));
}

const plural = (w, text, n) => put(text[attempt(() => new Intl.PluralRules(w.Lang).select(n))] ?? text.other, { n });

const used = (quota) => quota?.rules.map((r) => r.remaining);

// until returns an element in which Countdown writes the time of the day that is ms after the
// answer. counted is its text as a duration, for a change of daylight saving time before that time,
// or without a time zone. now replaces counted in the first minute after that time.
const until = (ms, pattern, counted, now) => h('span', { 'data-at': ms, 'data-text': pattern, 'data-counted': counted, 'data-now': now });

// locked returns the box that says that no code is sent after too many wrong codes.
const locked = (w, note) => note?.kind === 'many' && box('bad', w.TooManyChecks);

// button returns a button that counts down ms, the rest of whole, and can then be pressed.
function button(w, { label, ms = 0, whole = 0, quiet, timer = true }) {
  // the wait was rounded up, so its texts show no duration
  const waits = ms > 0, tone = quiet ? ' quiet' : '', rounded = whole > 0 && ms > whole;
  return [
    h('button', {
      id: 'again', class: `button again${tone}`, part: `button${tone}`, 'aria-describedby': 'again-why',
      'data-ready': label, 'data-over': timer ? w.AvailableNow : label, 'aria-disabled': waits && 'true', 'data-total': waits &&
          Math.max(ms, whole),
    }, h('span', { class: 'label' }, ms >= clockFrom ? w.NextCode : label), waits && [
      ' ', h('span', { class: 'count', 'aria-hidden': 'true', 'data-wait': ms, 'data-short': w.AgainIn,
          'data-long': rounded ? w.AgainClock : w.AgainAt, 'data-done': '' }),
      h('svg', { class: 'bar', 'aria-hidden': 'true', viewBox: '0 0 100 1', preserveAspectRatio: 'none' }, h('rect', { height: 1 })),
    ]),
    h('p', { id: 'again-why', hidden: true, ...waits &&
        { 'data-wait': ms, 'data-minutes': true, 'data-short': w.AvailableWithin, 'data-long': w.AgainClock, 'data-done': '' } }),
    waits && h('p', {
      role: 'timer', class: 'visually-hidden', 'data-wait': ms, 'data-done': '',
      'data-short': timer ? w.TimerIn : w.AgainIn, 'data-long': rounded ? w.AnotherAt : timer ? w.TimerAt : w.AgainAt,
    }),
  ];
}

const waitOf = (quota) => quota.retry_after_ms ?? quota.retry_after * second;

// again returns the form with the button for the next code. The button waits as long as the rules
// require.
function again(w, label, quota, more) {
  const rule = quota.rules.find((r) => r.name === quota.blocked_by);
  return act('again', button(w, { label, ms: waitOf(quota), whole: (rule?.window ?? 0) * second, ...more }));
}

// waiting returns the sentence on the wait for the next code, by the rules at moment; '' if there
// is no wait.
function waiting(w, { quota, moment }) {
  const left = waitOf(quota) - moment.elapsed();
  return left > 0 ? put(w.TimerIn, { d: lasting(left, w) }) : '';
}

// there returns the part of a card's revision for the other channel: everything that is shown
// except times. instead returns the link to that channel.
const there = ({ channels, there: leg }) => [channels, leg?.to, leg?.view?.status, leg?.wait > 0];
const instead = (w, state, code) => state.phones?.instead(w, state, code);

const neverSent = ({ send }) => send.status === 'failed' && send.number <= 1;

// awayBox returns the box that says on another card why a request failed.
const awayBox = (w, note) => note?.kind === 'away' &&
    (note.unchecked ? [w.HumanNeeded, w.HumanNeededLead].join(w.Stop) : note.crowded ? w.CrowdedCode : note.slow ? w.SlowCode : w.AwayCode);

function code(w, state) {
  const { view, quota, note } = state;
  const letters = view.code_format?.alphabet === 'unambiguous', n = view.code_format?.length, wrong = wrongCode(w, note, view);
  const flying = underway.has(view.send.status), [head, sent] = sending(w, view.send),
      title = view.purpose_title && put(w.AndTitle, { title: view.purpose_title }), titled = head === w.CheckMail && title;
  const trouble = awayBox(w, note) ||
      ({ failed: w.ResendFailed + (view.send.counts ? '' : w.Separator + w.DidNotCount),
          undelivered: w.NotArrivedLead }[view.send.status] ?? '');
  return {
    rev: [view.id, view.send, view.attempts_remaining, used(quota), quota.allowed, there(state), state.elsewhere], next: view.expires_in * second + second,
    say: wrong || trouble || (flying ? head : [head, waiting(w, state) || w.AvailableNow].join(w.Stop)),
    body: [
      heading([head, titled, flying && dots()]),
      lead(emphasised([sent, titled ? '' : title, w.Stop].join(''), { to: view.to }),
          h('span', { id: 'code-expiry', class: 'fact' }, until(view.expires_in * second, w.WorksUntil, w.WorksElse))),
      box('bad', trouble), box('note', state.elsewhere && w.Elsewhere),
      act('check', h('div', { class: 'field' },
        h('label', { for: 'code', part: 'label' }, w.CodeLabel),
        h('div', { class: 'code-row' },
          h('input', {
            id: 'code', class: 'code', type: 'text', inputmode: letters ? 'text' : 'numeric',
                autocapitalize: letters ? 'characters' : 'none',
            'data-letters': letters, autocomplete: 'one-time-code', autocorrect: 'off', spellcheck: 'false', required: true, dir: 'ltr',
                maxlength: 1000,
            'data-1p-ignore': true, 'data-bwignore': true, 'data-lpignore': 'true', 'data-form-type': 'other', 'data-length': n,
                'data-sms': state.channel === 'sms', 'data-focus': true, 'data-keep': slips.has(note?.kind) ||
                    note?.kind === 'away', 'data-wrong': note?.kind === 'wrong', part: 'input code', 'aria-invalid': wrong && 'true',
            'aria-describedby': [wrong && 'code-error', n && 'code-hint', 'code-expiry'].filter(Boolean).join(' '),
          }),
          h('button', { id: 'check', class: 'button', part: 'button' }, w.CheckCode)),
        wrong && h('p', { id: 'code-error', class: 'error', part: 'error' }, wrong),
        n && h('p', { id: 'code-hint', hidden: true }, put(letters ? w.CodeHintCharacters : w.CodeHint, { n })))),
      state.unkept && h('p', { class: 'under' }, w.NotKept), again(w, w.SendAgain, quota, { quiet: true }), help(w, state, wrong),
    ],
  };
}

// sending returns the heading and the sentence that show the progress of the message.
function sending(w, { status, number }) {
  if (underway.has(status)) return [w.OnItsWay, w.SendingTo];
  if (status === 'unknown') return [w.MayArrive, w.MaybeSentTo];
  if (status === 'undelivered') return [w.NotArrived, w.SentTo];
  return [w.CheckMail, number > 1 && status === 'sent' ? w.SentAgainTo : w.SentTo];
}

// help returns the advice for a message that does not arrive. The advice opens by itself, but not
// after a wrong code was typed, since a message has arrived then.
function help(w, state, wrong) {
  const { view, quota } = state, { status } = view.send, flying = underway.has(status), lost = status === 'failed' ||
      status === 'undelivered' && view.channel === 'email';
  return h('details', { class: 'help', part: 'help', open: !wrong && (lost || status === 'unknown'), 'data-open': !wrong && !flying &&
      helpAfter },
    h('summary', { id: 'nothing' }, w.NothingYet),
    h('ul', {},
      !lost && h('li', {}, h('span', { class: 'fact' }, leaving(w, view))),
      h('li', {}, h('span', { class: 'fact' }, another(w, view, quota))),
      !lost && !flying && h('li', {}, spam(w, state))),
    h('p', { class: 'aside' }, link('change', w.WrongAddress)),
    rules(w, quota), instead(w, state, true), supported(w, 'help', view));
}

// leaving returns the text on the progress of a message.
function leaving(w, { send: { status, finished_at }, expires_at, expires_in }) {
  const age = Date.parse(expires_at) - expires_in * second - Date.parse(finished_at);
  return { delivered: w.HasArrived,
      unknown: w.AcceptedHow }[status] ?? (age >= 0 ? until(-age, w.AcceptedAt, w.AcceptedElse) : w.NotAcceptedYet);
}

// another returns the text that says when the next message can be requested, and whether it will
// have the same code.
function another(w, view, quota) {
  const ms = waitOf(quota), least = Math.min(2 * minute, (Date.parse(view.expires_at) - Date.parse(view.created_at)) / 5);
  const which = (view.expires_in * second - ms < least ? w.FreshCode : w.SameCode) + w.Separator;
  if (ms < clockFrom) return ms > 0 ? which : which + w.AnotherNow;
  return h('span', { 'data-at': ms, 'data-text': which + w.AnotherAt, 'data-counted': which + w.AnotherElse, 'data-round': 'up' });
}

const spam = (w, { channel, sender, subject }) => channel === 'sms' ||
    !sender ? w.LookInSpamElse : emphasised(subject ? w.LookInSpamFor : w.LookInSpam, { sender, subject });

function enough(w, state) {
  const { view, quota, to, note } = state;
  const why = spent(w, quota, view?.to ?? to), works = view?.status === 'pending' && view.expires_in > 0 && !neverSent(view);
  return {
    say: [why.heading, waiting(w, state)].join(w.Stop), rev: [quota.blocked_by, used(quota), works, there(state)],
    next: works ? view.expires_in * second + second : null,
    body: [
      heading(why.heading), lead(why.lead, ' ', link('change', w.ChangeAddress)), box('bad', awayBox(w, note)),
      again(w, w.SendCode, quota), rules(w, quota),
      works && last(w, view), instead(w, state),
    ],
  };
}

const last = (w, view) => h('p', { class: 'aside' }, until(view.expires_in * second, w.LastCodeUntil, w.LastCodeElse), ' ',
    link('code', w.EnterIt));

// failed returns the card for a first message that was refused at once, or came back.
function failed(w, state) {
  const { view, quota, note } = state, trouble = awayBox(w, note), back = view.send.status === 'undelivered';
  const text = trouble || (back || view.send.counts ? '' : quota.allowed ? w.DidNotCountNow : w.DidNotCount),
      head = back ? w.NotArrived : w.NotDelivered;
  return {
    say: [head, text].filter(Boolean).join(w.Stop), rev: [view.send.id, quota.allowed, there(state)],
        next: back ? view.expires_in * second + second : null,
    body: [
      heading(head), lead(back ? w.NotArrivedLead : emphasised(w.NotDeliveredLead, { to: view.to })),
      h('p', { class: 'act' }, h('button', { type: 'button', id: 'go-change', class: 'button', part: 'button', 'data-act': 'change' },
          w.ChangeAddress)),
      again(w, w.TryAgain, quota, { quiet: true }), instead(w, state), box(trouble ? 'bad' : 'note', text), locked(w, note),
      back && last(w, view),
    ],
  };
}

// ended returns the card for a code that is no longer valid. Its button requests a new code.
function ended(w, state) {
  const { view, quota, note } = state;
  const [head, why] = {
    max_attempts_reached: [w.TooManyTries, w.TooManyTriesLead], canceled: [w.Canceled, w.CanceledLead], approved: [w.Used, w.UsedLead],
  }[view.status] ?? [w.Expired, put(w.ExpiredLead, { d: lasting(Date.parse(view.expires_at) - Date.parse(view.created_at), w) })];
  return {
    say: [head, waiting(w, state)].filter(Boolean).join(w.Stop), rev: [view.status, used(quota), there(state)],
    body: [
      heading(head), lead(why, w.Separator, emphasised(w.GoesTo, { to: view.to }), ' ', link('change', w.ChangeAddress)),
      box('bad', awayBox(w, note)), locked(w, note), again(w, w.NewCode, quota), rules(w, quota), instead(w, state),
    ],
  };
}

// approved returns the card for an approved code. If this tab has the proof, the card leads on;
// otherwise another tab of the browser has the proof.
function approved(w, { view, quota, proof, ends, shared }) {
  return {
    say: [w.Approved, proof ? w.GoOn : w.UsedLead].join(w.Stop), rev: [view.id, !proof, quota.allowed], next: ends,
    body: [
      heading(w.Approved), lead(emphasised('{to}', { to: view.to }),
          ends && h('span', { class: 'fact' }, until(ends, w.ProofUntil, w.ProofElse))),
      h('div', { class: 'kept' }, proof ? h('slot', { name: 'approved' }, w.GoOn) : w.UsedLead),
      !proof && !shared && again(w, w.NewCode, quota, { quiet: true }),
    ],
  };
}

// away returns the card that says that a part of the service does not answer, that the network made
// too many requests, that messages would go out too late, or that a human check could not be done.
function away(w, state) {
  const { note } = state, to = state.draft ?? state.to, [head, why] = note.unchecked ? [w.HumanNeeded, w.HumanNeededLead]
    : note.crowded ? [w.Crowded, w.CrowdedLead] : note.slow ? [w.Slow, w.SlowLead] : [w.Away, w.AwayLead];
  return {
    say: note.unchecked || note.crowded || note.slow ? [head, why].join(w.Stop) : head, rev: [note, there(state)],
    body: [
      heading(head), lead(why), to && h('p', { class: 'kept' }, emphasised(w.AwayKept, { to })),
      act(note.reading ? 'look' : 'retry', button(w, { label: w.TryAgain, ms: note.ms, timer: false })),
      (note.unchecked || state.there?.view?.status === 'pending') && instead(w, state),
    ],
  };
}

// misplaced returns the card that says that the mistake is the page's, not the person's.
function misplaced(w) {
  return { say: w.Misplaced, body: [heading(w.Misplaced), lead(w.MisplacedLead)] };
}

// wide returns the displayed name of a rule of a network or of all recipients together, by its
// scope; undefined for other scopes.
const wide = (w, scope) => ({ ip: w.YourNetwork, network: w.YourNetwork, app: w.AllTogether, purpose: w.AllTogether, global: w.AllTogether,
    everything: w.AllTogether })[scope];

// rules draws the pips of the recipient's rules, and of a wider rule while it refuses.
function rules(w, quota) {
  const own = quota?.rules.filter((r) => r.scope === 'recipient' || r.retry_after > 0 && wide(w, r.scope)) ?? [];
  return own.length > 0 && h('div', { class: 'rules', part: 'rules' }, w.PipsLabel,
      h('ul', { class: 'pips', role: 'list' }, own.map((r) => row(w, r))));
}

const longest = 12; // marks in a row; a longer row is one bar, as in web/pips.go

function row(w, r) {
  const taken = Math.min(r.limit - r.remaining, r.limit), waits = r.retry_after > 0;
  const name = wide(w, r.scope); // the API does not tell how much of such a rule is used
  const marks = name ? [] : r.limit > longest
    ? h('svg', { class: 'pip-bar', viewBox: `0 0 ${r.limit} 1`, preserveAspectRatio: 'none' },
        h('rect', { class: 'pip-used', width: taken, height: 1 }))
    : Array.from({ length: r.limit }, (_, i) => h('i', { class: i < taken ? 'pip used' : 'pip' }));
  const note = waits
    ? { 'data-wait': r.retry_after * second, 'data-short': w.PipsIn, 'data-long': w.PipsAt, 'data-done': plural(w, w.PipsLeft, 1) }
    : {};
  return h('li', { class: waits ? 'pips-row blocked' : 'pips-row' },
    h('span', { class: 'pips-name' }, name ?? ruleName(w, r)),
    h('span', { class: 'marks', 'aria-hidden': 'true' }, marks),
    !name && h('span', { class: 'visually-hidden' }, put(w.PipsSpoken, { used: taken, limit: r.limit })),
    h('span', { class: 'pips-note', ...note }, plural(w, w.PipsLeft, r.remaining)));
}

// periodOf returns the calendar period of a rule; undefined: it has none, or more than one date.
const periodOf = ({ per, days }) => per || (days === 1 ? 'day' : undefined);

// ruleName returns the time that a rule is about. The window of a rule by dates has an hour more or
// less around a change of daylight saving time, so its dates are told.
function ruleName(w, rule) {
  const { name, days, window } = rule;
  if (name === 'carrier') return w.CarrierRule; // the carrier's own limit, which the policy does not have
  const period = { hour: w.ThisHour, day: w.Today, week: w.ThisWeek, month: w.ThisMonth }[periodOf(rule)];
  if (period) return period;
  const ms = days ? days * day : window * second;
  const usual = { minute: [minute, w.PerMinute], hour: [60 * minute, w.PerHour], day: [day, w.PerDay] }[name];
  if (usual?.[0] === ms) return usual[1];
  if (ms >= 2 * day && ms % day === 0) return put(w.Within, { d: plural(w, w.Days, ms / day) });
  return put(w.Within, { d: lasting(ms, w) });
}

// spent returns the heading and the sentence that explain the rule that refuses.
function spent(w, quota, to) {
  const r = quota.rules.find((each) => each.name === quota.blocked_by);
  if (r?.scope !== 'recipient') {
    const all = [w.EnoughAll, w.EnoughAllLead];
    const failures = [w.EnoughFailures, w.EnoughFailuresLead], backoff = [w.EnoughBackoff, w.EnoughBackoffLead];
    const [head, why] = { failures, backoff, app: all, purpose: all, global: all, everything: all }[r?.scope] ?? [w.EnoughNetwork,
        w.EnoughNetworkLead];
    return { heading: head, lead: emphasised(why, { to }) };
  }
  if (r.name === 'carrier') return { heading: w.EnoughCarrier, lead: emphasised(w.EnoughCarrierLead, { to }) };
  const when = ruleName(w, r), taken = r.limit - r.remaining;
  const head = {
    [w.PerMinute]: w.EnoughMinute, [w.PerHour]: w.EnoughHour, [w.ThisHour]: w.EnoughHour, [w.PerDay]: w.EnoughDay, [w.Today]: w.EnoughDay,
    [w.ThisWeek]: w.EnoughWeek, [w.ThisMonth]: w.EnoughMonth,
  }[when] ?? w.Enough;
  if (periodOf(r)) return { heading: head, lead: emphasised(put(plural(w, w.SentWithin, taken), { when }), { to }) };
  if (r.window >= roundedFrom) return { heading: head, lead: emphasised(put(plural(w, w.AtMost, r.limit), { when }), { to }) };
  const since = r.window - r.reset_after; // the oldest counted send leaves when its age is the window
  const [named, counted, now] = [w.SentSince, w.SentElse, w.SentNow].map((text) => plural(w, text, taken).split('{to}'));
  const [before, after] = named.map((text, i) => until(-since * second, text, counted[i], now[i]));
  return { heading: head, lead: [before, emphasised('{to}', { to }), after] };
}

// wrongCode returns the text about a wrong code; undefined: the code is not wrong.
function wrongCode(w, note, view) {
  const letters = view.code_format?.alphabet === 'unambiguous', n = view.code_format?.length;
  switch (note?.kind) {
    case 'wrong': return plural(w, w.WrongCode, view.attempts_remaining);
    case 'many': return w.TooManyChecks;
    case 'required': return w.CodeRequired;
    case 'length': return put(letters ? w.CodeLengthCharacters : w.CodeLength, { n });
    case 'foreign': return letters ? w.CodeNotCharacters : w.CodeNotDigits;
    default: return undefined;
  }
}
