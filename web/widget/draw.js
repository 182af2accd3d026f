import { put } from '../static/time.js';
import { h } from './dom.js';
import { act, box, choice, dots, field, heading, lead, link } from './parts.js';

// The first cards. The cards after a request for a code are in code.js, which also decides which
// card is shown. The parts for phone numbers are in phones.js.

// draw makes the card for a state:
//
// view     the verification from the API, if there is one
// quota    the state of the rules, from the answer with view or from a refusal
// refused  the last request for a code was refused
// note     the result of the last act: {kind, text, tone}
// screen   change: another address; instead: the other channel; code: the code, although a rule is spent
// channel  of the card, one of the offered channels; asking is the channel whose field has the focus
// to       the address or number as typed, if it is known; draft: what was typed since, and where: its country
// there    the same for the other channel: {view, to, wait}
// title    what a code of the purpose is for
// moment   of the answer with quota
// proof    of a right code: the value of the element; ends: in how many ms from moment it ends
// unkept   a reload does not find the view again
// known    there are tokens of earlier codes, which can be forgotten
//
// words are the texts by channel. countries are the countries from which numbers may come, and
// country is where they are dialled. pick, cards, supported and pieces are those of code.js; phones
// is the module. A part that is not yet loaded is awaited. A card that begins with mail does not
// wait for phones.
export function draw(words, state) {
  const w = words && (words[state.channel] ?? words.email), name = words &&
      (state.channel !== 'sms' || state.phones) ? state.pick?.(state) ?? (state.note ? '' : 'ask') : '';
  const drawn = { ask: () => ask(words, state), ...state.cards }[name], kind = drawn ? name : 'loading';
  const { say, rev, next, body } = (drawn ?? loading)(w, state);
  return h('section', {
    id: 'card', class: 'card', part: 'card', 'data-kind': kind, 'data-say': say, 'data-next': next,
    'data-rev': JSON.stringify([kind, rev, state.note, state.known, !state.phones]), 'aria-labelledby': drawn && 'heading',
  }, body, drawn && [state.known && name === 'ask' &&
      h('p', { class: 'aside' }, link('forget', w.ForgetDevice)), state.supported?.(w, kind, state.view)]);
}

const loading = () => ({ body: h('p', { class: 'lead' }, dots()) });

function ask(words, { note, to, draft, view, channel, channels, asking, country, countries, screen, there, phones, title, pieces }) {
  const other = channels.find((c) => c !== channel), wanted = asking ?? (screen === 'instead' ? other : channel),
      on = channels.includes(wanted) ? wanted : channels[0];
  const w = words[on] ?? words.email, wrong = note?.kind === 'address' &&
      note.text, either = channels.length > 1, told = note?.kind !== 'address' && note?.text;
  const { question, asIs, use } = note ?? {};
  const typed = (c) => c === on && draft !== undefined ? draft : c === channel ? to : there?.to;
  const one = (c) => {
    const its = { value: typed(c), wrong: c === on && wrong, focus: c === on, doubt: c === on && question &&
        [h('strong', {}, pieces(question)), w.Separator, pieces(asIs)] };
    return c === 'sms' ? phones?.field(words.sms, its, countries, country) ?? h('div', { class: 'field by-sms' }, dots())
      : field(words.email, 'to', { type: 'email', autocomplete: 'email', autocapitalize: 'none', maxlength: 320 }, its);
  };
  return {
    say: wrong || told || question, rev: [on, typed(on), channels, countries.length, title],
    body: [
      heading([w.AskHeading, title && put(w.AndTitle, { title })], 'heading'),
          lead(h('slot', { name: 'lead' }, either ? w.AskLeadEither : w.AskLead)), box(note?.tone ?? 'bad', told),
      act('send', either && choice(w, channels, on), channels.map(one),
          h('button', { id: 'send', class: 'button', part: 'button' }, w.SendCode)),
      use && h('p', { class: 'act' },
          h('button', { type: 'button', id: 'use', class: 'button quiet', part: 'button quiet', 'data-act': 'use' }, pieces(use))),
      h('p', { class: 'aside' }, view ? link('back', w.BackToCode) : w.HaveCode),
    ],
  };
}
