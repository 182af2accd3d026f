import { emphasised, h } from './dom.js';
import { choice, field, instead, patient } from './send-code-channels.js';
import { act, box, button, carrier, heading, lead, link, rules, spent, until, wrongCode } from './send-code-parts.js';
import { lasting, put, second } from './time.js';

// Which card is true, and what is on it. It is the page's (internal/page/look.go), from what the API says instead of the log.

const soon = 60;         // seconds: a longer wait, met by asking, is explained
const helpAfter = 15 * second;
const underway = new Set(['queued', 'sending']);
const slips = new Set(['required', 'foreign', 'length']); // notes on what was typed and is no code: it stays in the field

export const polls = ({ view }) => view?.status === 'pending' && underway.has(view.send.status);

// draw makes the card for a state:
//
//   view     the verification as the API tells it, if there is one
//   quota    what the rules say, told with view or by a refusal
//   refused  the last request for a code was refused
//   note     what the last act came to: {kind, text}
//   screen   change: another address; instead: the other channel; code: the code, although a rule is spent
//   channel  that it is about, of the channels that there are; asking is the one in whose field somebody is
//   to       the address or number as typed, while it is known; draft what was typed and not acted on
//   there    the same of the other channel: {view, to, wait}
//
// words are the catalogue by channel, countries those that numbers may be of, and country where they are dialled.
export function draw(words, state) {
  const w = words[state.channel] ?? words.email;
  const { kind, say, rev, next, body } = pick(w, state, words);
  const card = h('section', {
    id: 'card', class: 'card', part: 'card', 'data-kind': kind, 'data-say': say, 'data-next': next,
    'data-rev': JSON.stringify([kind, rev, state.note]), 'aria-labelledby': 'heading',
  }, body, supported(w, kind, state.view));
  return card;
}

// supported names the send to support.
function supported(w, kind, view) {
  const ref = view?.send?.support;
  return ref && ['code', 'enough', 'failed', 'ended'].includes(kind) && h('p', { class: 'support', part: 'support' }, put(w.SupportReference, { ref }));
}

const neverSent = ({ send }) => send.status === 'failed' && send.number <= 1;

function pick(w, state, words) {
  const { view, quota, refused, note, screen } = state;
  if (note?.kind === 'misplaced') return misplaced(w);
  if (note?.kind === 'loading') return { kind: 'loading', body: h('p', { class: 'lead' }, dots()) };
  if (screen === 'change' || screen === 'instead' || !view) {
    if (note?.kind === 'away') return away(w, state);
    return !screen && refused && !quota.allowed ? enough(w, state) : ask(words, state);
  }
  if (note?.kind === 'away' && note.reading) return away(w, state);
  if (view.status === 'approved') return note?.kind === 'used' ? ended(w, state) : approved(w, view);
  const held = quota.blocked_by === carrier && neverSent(view); // by the network, which told its wait
  if ((refused || held) && quota.retry_after > soon && screen !== 'code') return enough(w, state);
  if (view.status !== 'pending') return ended(w, state);
  if (neverSent(view)) return failed(w, state);
  return code(w, state);
}

const used = (quota) => quota?.rules.map((r) => r.remaining);

const dots = () => h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i'), h('i'), h('i'));

// again is the button for the next code, under the rules as they are.
function again(w, label, quota, more) {
  const rule = quota.rules.find((r) => r.name === quota.blocked_by);
  return button(w, { label, wait: quota.retry_after_ms ?? quota.retry_after * second, whole: (rule?.window ?? 0) * second, ...more });
}

const waiting = (w, quota) => quota.retry_after > 0 ? put(w.TimerElse, { d: lasting(quota.retry_after * second, w) }) : '';

// there is what a card says of the other channel that does not only pass with time.
const there = ({ channels, there: leg }) => [channels, leg?.to, leg?.view?.status, leg?.wait > 0];

function ask(words, { note, to, draft, view, channel, channels, asking, country, countries, screen, there: leg }) {
  const other = channels.find((c) => c !== channel), wanted = asking ?? (screen === 'instead' ? other : channel), on = channels.includes(wanted) ? wanted : channels[0];
  const w = words[on] ?? words.email, wrong = note?.kind === 'address' && note.text, either = channels.length > 1;
  const typed = (c) => c === on && draft !== undefined ? draft : c === channel ? to : leg?.to;
  return {
    kind: 'ask', say: wrong || (note?.kind === 'many' && w.TooManyChecks), rev: [on, typed(on), channels, countries.length],
    body: [
      heading(w.AskHeading, 'heading'), lead(h('slot', { name: 'lead' }, either ? w.AskLeadEither : w.AskLead)), locked(w, note),
      act('send', choice(w, channels, on),
        channels.map((c) => field(words[c] ?? words.email, c, { value: typed(c), wrong: c === on && wrong, focus: c === on, country, countries })),
        h('button', { id: 'send', class: 'button', part: 'button' }, w.SendCode)),
      h('p', { class: 'aside' }, view ? link('back', w.BackToCode) : w.HaveCode),
    ],
  };
}

function code(w, state) {
  const { view, quota, note } = state;
  const letters = view.code_format?.alphabet === 'unambiguous', n = view.code_format?.length, wrong = wrongCode(w, note, view);
  const flying = underway.has(view.send.status), [head, sent] = sending(w, view.send);
  const trouble = note?.kind === 'away' ? awayBox(w, note) : { failed: w.ResendFailed, undelivered: w.NotArrivedLead }[view.send.status] ?? '';
  const hint = n && !wrong;
  return {
    kind: 'code', rev: [view.id, view.send, view.attempts_remaining, used(quota), quota.allowed, there(state)], next: view.expires_in * second + second,
    say: wrong || trouble || (flying ? head : [head, waiting(w, quota) || w.AvailableNow].join(w.Stop)),
    body: [
      heading(head), lead(emphasised(sent, { to: view.to }), flying && dots(), ' ', link('change', w.Change)),
      box('bad', trouble),
      act('check', h('div', { class: 'field' },
        h('label', { for: 'code', part: 'label' }, w.CodeLabel),
        h('div', { class: 'code-row' },
          h('input', {
            id: 'code', class: 'code', type: 'text', inputmode: letters ? 'text' : 'numeric', autocapitalize: letters ? 'characters' : 'none',
            'data-letters': letters, autocomplete: 'one-time-code', autocorrect: 'off', spellcheck: 'false', required: true, dir: 'ltr', placeholder: ' ', maxlength: 1000,
            'data-length': n, 'data-focus': true, 'data-auto': hint && true, 'data-keep': slips.has(note?.kind), part: 'input code', 'aria-invalid': wrong && 'true',
            'aria-describedby': [wrong && 'code-error', hint && 'code-hint', 'code-expiry'].filter(Boolean).join(' '),
          }),
          h('button', { id: 'check', class: 'button quiet', part: 'button quiet' }, w.CheckCode)),
        wrong && h('p', { id: 'code-error', class: 'error', part: 'error' }, wrong),
        h('p', { class: 'under' },
          hint && h('span', { id: 'code-hint' }, put(letters ? w.CodeHintCharacters : w.CodeHint, { n }), w.Separator),
          h('span', { id: 'code-expiry' }, until(view.expires_in * second, w.WorksUntil))))),
      act('again', again(w, w.SendAgain, quota)), rules(w, quota), help(w, view, quota),
      instead(w, state, patient(view, quota)),
    ],
  };
}

// locked says that wrong codes keep another one from being sent.
const locked = (w, note) => note?.kind === 'many' && box('bad', w.TooManyChecks);

// sending says how far the mail has come.
function sending(w, { status, number }) {
  if (underway.has(status)) return [w.OnItsWay, w.SendingTo];
  if (status === 'unknown') return [w.MayArrive, w.MaybeSentTo];
  if (status === 'undelivered') return [w.NotArrived, w.SentTo];
  return [w.CheckMail, number > 1 && status === 'sent' ? w.SentAgainTo : w.SentTo];
}

// help is what one can do when no mail comes.
function help(w, view, quota) {
  const { status } = view.send;
  if (status === 'failed' || underway.has(status)) return null;
  return h('details', { class: 'help', part: 'help', open: status === 'unknown', 'data-open': status !== 'unknown' && helpAfter },
    h('summary', {}, w.NothingYet),
    h('ul', {},
      status === 'unknown' && h('li', {}, w.AcceptedHow),
      status === 'delivered' && h('li', {}, w.HasArrived),
      h('li', {}, w.LookInSpamElse),
      h('li', {}, emphasised(w.IsAddressRight, { to: view.to }), ' ', link('change', w.Change))));
}

function enough(w, state) {
  const { view, quota, to, note } = state;
  const why = spent(w, quota, view?.to ?? to), works = view?.status === 'pending' && view.expires_in > 0 && !neverSent(view);
  return {
    kind: 'enough', say: [why.heading, waiting(w, quota)].join(w.Stop), rev: [quota.blocked_by, used(quota), works, there(state)],
    next: works ? view.expires_in * second + second : null,
    body: [
      heading(why.heading), lead(why.lead, ' ', link('change', w.Change)), note?.kind === 'away' && box('bad', awayBox(w, note)),
      act('again', again(w, w.SendCode, quota)), rules(w, quota),
      works && h('p', { class: 'aside' }, until(view.expires_in * second, w.LastCodeUntil), ' ', link('code', w.EnterIt)),
      instead(w, state),
    ],
  };
}

function failed(w, state) {
  const { view, quota, note } = state;
  const text = note?.kind === 'away' ? awayBox(w, note) : quota.allowed ? w.DidNotCountNow : w.DidNotCount;
  return {
    kind: 'failed', say: [w.NotDelivered, text].join(w.Stop), rev: [view.send.id, quota.allowed, there(state)],
    body: [
      heading(w.NotDelivered), lead(emphasised(w.NotDeliveredLead, { to: view.to })),
      h('p', { class: 'act' }, h('button', { type: 'button', class: 'button', part: 'button', 'data-act': 'change' }, w.ChangeAddress)),
      act('again', again(w, w.TryAgain, quota, { quiet: true })), instead(w, state), box(note?.kind === 'away' ? 'bad' : 'note', text), locked(w, note),
    ],
  };
}

// ended shows a code that is no good any more; a new one is one press away.
function ended(w, state) {
  const { view, quota, note } = state;
  const [head, why] = {
    max_attempts_reached: [w.TooManyTries, w.TooManyTriesLead], canceled: [w.Canceled, w.CanceledLead], approved: [w.Used, w.UsedLead],
  }[view.status] ?? [w.Expired, put(w.ExpiredLead, { d: lasting(Date.parse(view.expires_at) - Date.parse(view.created_at), w) })];
  return {
    kind: 'ended', say: [head, waiting(w, quota)].filter(Boolean).join(w.Stop), rev: [view.status, used(quota), there(state)],
    body: [
      heading(head), lead(why, w.Separator, emphasised(w.GoesTo, { to: view.to }), ' ', link('change', w.Change)),
      note?.kind === 'away' && box('bad', awayBox(w, note)), locked(w, note), act('again', again(w, w.NewCode, quota)), rules(w, quota), instead(w, state),
    ],
  };
}

// awayBox says beside another card why a question came to nothing.
const awayBox = (w, { crowded, wait }) => crowded ? put(w.CrowdedCode, { d: lasting(wait * second, w) }) : w.AwayCode;

// away says that a part of the service does not answer, or that too many requests came from the network.
function away(w, { note, to }) {
  const [head, why] = note.crowded ? [w.Crowded, put(w.CrowdedLead, { d: lasting(note.wait * second, w) })] : [w.Away, w.AwayLead];
  return {
    kind: 'away', say: note.crowded ? [head, why].join(w.Stop) : head, rev: [note],
    body: [
      heading(head), lead(why), to && h('p', { class: 'kept' }, emphasised(w.AwayKept, { to })),
      act(note.reading ? 'look' : 'retry', button(w, { label: w.TryAgain, wait: note.wait * second, timer: false })),
    ],
  };
}

function approved(w, view) {
  return {
    kind: 'approved', say: [w.Approved, w.GoOn].join(w.Stop), rev: [view.id],
    body: [
      heading(w.Approved), lead(emphasised(w.ApprovedLead, { to: view.to })),
      h('p', { class: 'box good', part: 'note good' }, h('slot', { name: 'approved' }, w.GoOn)),
    ],
  };
}

// misplaced says that the page, not the person, is wrong.
function misplaced(w) {
  return { kind: 'misplaced', say: w.Misplaced, body: [heading(w.Misplaced), lead(w.MisplacedLead)] };
}
