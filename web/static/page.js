import { attempt } from './browser.js';
import { Cards } from './cards.js';
import { CodeField } from './code.js';
import { Countdown } from './countdown.js';
import { Inquiry } from './inquiry.js';
import { loaded, second } from './time.js';

// The page works without this file: forms post, links lead, and the server renders each state. This script counts waits
// down, sends forms without leaving the page, and asks for the card again when it may have changed. It stores nothing:
// the card has the whole state.

const inquiry = new Inquiry({ look, polls: () => 'poll' in cards.card.dataset });

const cards = new Cards(document, inquiry, act);
cards.code = new CodeField(cards);
cards.countdown = new Countdown(cards);

// The module that groups a phone number's digits is loaded when such a field first gets the focus.
let phones;
document.addEventListener('focusin', ({ target }) => {
  const { numbers, plans } = document.body.dataset;
  if (target.id !== 'phone' && target.id !== 'country') return;
  phones ??= import(numbers).then(({ attendPhones }) => {
    attendPhones(document, plans);
    if (target.value !== target.defaultValue) target.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' })); // typed while the module was loaded
  }).catch(() => { phones = undefined; });
});

async function ask(url, options) {
  const { answer, moment, text } = await inquiry.ask(url, { ...options, headers: { 'X-Fragment': 'card', Accept: 'text/html' } });
  if (answer.status === 428) return { work: JSON.parse(text) };
  const found = new DOMParser().parseFromString(text, 'text/html').querySelector('#card');
  if (!found) throw new Error(`no card, status ${answer.status}`);
  return { moment, url: answer.url, card: document.adoptNode(found) };
}

async function look(force) {
  const answer = await ask(location.href, { cache: 'no-store' });
  if (!force && answer.card.dataset.kind === 'away' && cards.card.dataset.kind !== 'away') throw new Error('away');
  cards.warn();
  show(answer, null, force);
}

function show(answer, mine, force) {
  const again = () => { show(answer); inquiry.follow(); };
  if (!cards.show(answer.card, answer.moment, { mine, force, again })) return;
  if (location.href !== answer.url) attempt(() => history.replaceState(null, '', answer.url)); // throws if it was called too often
  document.title = answer.card.dataset.title;
}

async function act(form) {
  const body = form.method === 'post' ? new URLSearchParams(new FormData(form)) : undefined;
  const post = () => ask(form.action, { method: form.method, body }).catch(() => null);
  let answer = await post();
  if (answer?.work) { // strangers are many: the same send again, with work that is done
    const { prove } = await import(document.body.dataset.work).catch(() => ({})), { HumanWork, HumanProgress } = cards.words;
    body.set('human_check', await prove?.(cards, form, answer.work, HumanWork, HumanProgress) ?? 'work:'); // without the module: a token that is none
    answer = await post();
  }
  if (!answer) return undefined;
  return () => {
    show(answer, form);
    inquiry.follow();
    setTimeout(() => cards.find('[data-return]')?.click(), second); // not on a later visit to the card
  };
}

document.title = cards.card.dataset.title;
cards.speak(JSON.parse(document.body.dataset.words), document.documentElement.lang);
cards.begin(loaded());
if (attempt(() => matchMedia('(pointer: fine)').matches) && document.activeElement === document.body) cards.find('[data-focus]')?.focus(); // on a touch screen the keyboard would cover the page
inquiry.follow();
inquiry.attend({ woke: () => cards.tick(), connected: (yes) => cards.connected(yes) });
