import { emphasised, h } from './dom.js';
import { act, box, button, heading, lead, link, rules, spent, until, wrongCode } from './send-code-parts.js';
import { lasting, put, second } from './time.js';

// Which card is true, and what is on it. It is the page's (internal/ui/look.go), from what the API says instead of the log.

const soon = 60;         // seconds: a longer wait, met by asking, is explained
const helpAfter = 15 * second;
const underway = new Set(['queued', 'sending']);

export const polls = ({ view }) => view?.status === 'pending' && underway.has(view.send.status);

// draw makes the card for a state:
//
//   view     the verification as the API tells it, if there is one
//   quota    what the rules say, told with view or by a refusal
//   refused  the last request for a code was refused
//   note     what the last act came to: {kind, text}
//   screen   change: another address; code: the code, although a rule is spent
//   to       the address as typed, while it is known
export function draw(w, state) {
  const { kind, say, rev, next, body } = pick(w, state);
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

function pick(w, state) {
  const { view, quota, refused, note, screen } = state;
  if (note?.kind === 'misplaced') return misplaced(w);
  if (note?.kind === 'loading') return { kind: 'loading', body: h('p', { class: 'lead' }, dots()) };
  if (screen === 'change' || !view) {
    if (note?.kind === 'away') return away(w, state);
    return screen !== 'change' && refused && !quota.allowed ? enough(w, state) : ask(w, state);
  }
  if (note?.kind === 'away' && note.reading) return away(w, state);
  if (view.status === 'approved') return note?.kind === 'used' ? ended(w, state) : approved(w, view);
  if (refused && quota.retry_after > soon && screen !== 'code') return enough(w, state);
  if (view.status !== 'pending') return ended(w, state);
  if (view.send.status === 'failed' && view.send.number <= 1) return failed(w, state);
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

function ask(w, { note, to, view }) {
  const wrong = note?.kind === 'address' && note.text;
  return {
    kind: 'ask', say: wrong, rev: [to],
    body: [
      heading(w.AskHeading, 'heading'), lead(h('slot', { name: 'lead' }, w.AskLead)),
      act('send',
        h('div', { class: 'field' },
          h('label', { for: 'to', part: 'label' }, w.AddressLabel),
          h('input', {
            id: 'to', type: 'email', autocomplete: 'email', autocapitalize: 'none', spellcheck: 'false', required: true, maxlength: 320, dir: 'ltr',
            value: to ?? '', part: 'input', 'data-focus': true, 'aria-invalid': wrong && 'true', 'aria-describedby': wrong && 'to-error',
          }),
          wrong && h('p', { id: 'to-error', class: 'error', part: 'error' }, wrong)),
        h('button', { id: 'send', class: 'button', part: 'button' }, w.SendCode)),
      view && h('p', { class: 'aside' }, link('back', w.BackToCode)),
    ],
  };
}

function code(w, { view, quota, note }) {
  const letters = view.code_format?.alphabet === 'unambiguous', n = view.code_format?.length, wrong = wrongCode(w, note, view);
  const flying = underway.has(view.send.status), [head, sent] = sending(w, view.send);
  const trouble = note?.kind === 'away' ? w.AwayCode : view.send.status === 'failed' ? w.ResendFailed : '';
  const hint = n && !wrong;
  return {
    kind: 'code', rev: [view.id, view.send, view.attempts_remaining, used(quota)], next: view.expires_in * second + second,
    say: wrong || trouble || (flying ? head : [head, waiting(w, quota) || w.AvailableNow].join(w.Stop)),
    body: [
      heading(head), lead(emphasised(sent, { to: view.to }), flying && dots(), ' ', link('change', w.Change)),
      box('bad', trouble),
      act('check', h('div', { class: 'field' },
        h('label', { for: 'code', part: 'label' }, w.CodeLabel),
        h('div', { class: 'code-row' },
          h('input', {
            id: 'code', class: 'code', type: 'text', inputmode: letters ? 'text' : 'numeric', autocapitalize: letters ? 'characters' : 'none',
            'data-letters': letters, autocomplete: 'one-time-code', autocorrect: 'off', spellcheck: 'false', required: true, dir: 'ltr', maxlength: 64,
            'data-length': n, 'data-focus': true, 'data-auto': hint && true, part: 'input code', 'aria-invalid': wrong && 'true',
            'aria-describedby': [wrong && 'code-error', hint && 'code-hint', 'code-expiry'].filter(Boolean).join(' '),
          }),
          h('button', { id: 'check', class: 'button quiet', part: 'button quiet' }, w.CheckCode)),
        wrong && h('p', { id: 'code-error', class: 'error', part: 'error' }, wrong),
        h('p', { class: 'under' },
          hint && h('span', { id: 'code-hint' }, put(letters ? w.CodeHintCharacters : w.CodeHint, { n }), w.Separator),
          h('span', { id: 'code-expiry' }, until(view.expires_in * second, w.WorksUntil))))),
      act('again', again(w, w.SendAgain, quota)), rules(w, quota), help(w, view, quota),
    ],
  };
}

// sending says how far the mail has come.
function sending(w, { status, number }) {
  if (underway.has(status)) return [w.OnItsWay, w.SendingTo];
  if (status === 'unknown') return [w.MayArrive, w.MaybeSentTo];
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
      h('li', {}, w.LookInSpamElse),
      h('li', {}, emphasised(w.IsAddressRight, { to: view.to }), ' ', link('change', w.Change))));
}

function enough(w, { view, quota, to, note }) {
  const why = spent(w, quota, view?.to ?? to), works = view?.status === 'pending' && view.expires_in > 0;
  return {
    kind: 'enough', say: [why.heading, waiting(w, quota)].join(w.Stop), rev: [quota.blocked_by, used(quota), works],
    next: works ? view.expires_in * second + second : null,
    body: [
      heading(why.heading), lead(why.lead, ' ', link('change', w.Change)), note?.kind === 'away' && box('bad', w.AwayCode),
      act('again', again(w, w.SendCode, quota)), rules(w, quota),
      works && h('p', { class: 'aside' }, until(view.expires_in * second, w.LastCodeUntil), ' ', link('code', w.EnterIt)),
    ],
  };
}

function failed(w, { view, quota, note }) {
  const text = note?.kind === 'away' ? w.AwayCode : quota.allowed ? w.DidNotCountNow : w.DidNotCount;
  return {
    kind: 'failed', say: [w.NotDelivered, text].join(w.Stop), rev: [view.send.id, quota.allowed],
    body: [
      heading(w.NotDelivered), lead(emphasised(w.NotDeliveredLead, { to: view.to })),
      h('p', { class: 'act' }, h('button', { type: 'button', class: 'button', part: 'button', 'data-act': 'change' }, w.ChangeAddress)),
      act('again', again(w, w.TryAgain, quota, { quiet: true })), box('bad', text),
    ],
  };
}

// ended shows a code that is no good any more; a new one is one press away.
function ended(w, { view, quota, note }) {
  const [head, why] = {
    max_attempts_reached: [w.TooManyTries, w.TooManyTriesLead], canceled: [w.Canceled, w.CanceledLead], approved: [w.Used, w.UsedLead],
  }[view.status] ?? [w.Expired, put(w.ExpiredLead, { d: lasting(Date.parse(view.expires_at) - Date.parse(view.created_at), w) })];
  return {
    kind: 'ended', say: [head, waiting(w, quota)].filter(Boolean).join(w.Stop), rev: [view.status, used(quota)],
    body: [
      heading(head), lead(why, w.Separator, emphasised(w.GoesTo, { to: view.to }), ' ', link('change', w.Change)),
      note?.kind === 'away' && box('bad', w.AwayCode), act('again', again(w, w.NewCode, quota)), rules(w, quota),
    ],
  };
}

// away says that a part of the service does not answer.
function away(w, { note, to }) {
  return {
    kind: 'away', say: w.Away, rev: [note],
    body: [
      heading(w.Away), lead(w.AwayLead), to && h('p', { class: 'kept' }, emphasised(w.AwayKept, { to })),
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
