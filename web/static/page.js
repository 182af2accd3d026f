import { attempt } from './browser.js';
import { Cards } from './cards.js';
import { CodeField } from './code.js';
import { Countdown } from './countdown.js';
import { Inquiry } from './inquiry.js';
import { loaded, second } from './time.js';

// The page is complete without this file: forms post, links lead, the server draws every state. This makes it smoother:
// the countdown moves, forms are sent without leaving the page, and the card is asked for again when it may have
// changed. Nothing is stored; what the card says is all there is to know.

const inquiry = new Inquiry({ look, polls: () => 'poll' in cards.card.dataset });

const cards = new Cards(document, inquiry, act);
cards.code = new CodeField(cards);
cards.countdown = new Countdown(cards);

// What groups a number's digits comes with the first field for one.
let phones;
document.addEventListener('focusin', ({ target }) => {
  const { numbers, plans } = document.body.dataset;
  if (target.id !== 'phone' && target.id !== 'country') return;
  phones ??= import(numbers).then(({ attendPhones }) => {
    attendPhones(document, plans);
    if (target.value !== target.defaultValue) target.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' })); // was typed meanwhile
  }).catch(() => { phones = undefined; });
});

async function ask(url, options) {
  const { answer, moment, text } = await inquiry.ask(url, { ...options, headers: { 'X-Fragment': 'card', Accept: 'text/html' } });
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

// acceptToken gives the field for a token its nonce back: on a page with a content security policy, a browser hides this
// attribute of each element, and Chromium then fills no token in.
function acceptToken() {
  const field = cards.find('[name=evt]');
  field?.setAttribute('nonce', field.nonce);
}

function show(answer, mine, force) {
  const again = () => { show(answer); inquiry.follow(); };
  if (!cards.show(answer.card, answer.moment, { mine, force, again })) return;
  acceptToken();
  if (location.href !== answer.url) attempt(() => history.replaceState(null, '', answer.url)); // browsers bound how often
  document.title = answer.card.dataset.title;
}

async function act(form) {
  const body = form.method === 'post' ? new URLSearchParams(new FormData(form)) : undefined;
  const answer = await ask(form.action, { method: form.method, body }).catch(() => null);
  if (!answer) return undefined;
  return () => {
    show(answer, form);
    inquiry.follow();
    setTimeout(() => cards.find('[data-return]')?.click(), second); // who comes back later stays
  };
}

document.title = cards.card.dataset.title;
cards.speak(JSON.parse(document.body.dataset.words), document.documentElement.lang);
cards.begin(loaded());
acceptToken();
if (attempt(() => matchMedia('(pointer: fine)').matches) && document.activeElement === document.body) cards.find('[data-focus]')?.focus(); // elsewhere a keyboard would cover the page
inquiry.follow();
inquiry.attend({ woke: () => cards.tick(), connected: (yes) => cards.connected(yes) });
