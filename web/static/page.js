import { Cards, working } from './cards.js';
import { codeIn } from './code.js';
import { Inquiry } from './inquiry.js';
import { attendPhones } from './phone.js';
import { loaded } from './time.js';

// The page is complete without this file: forms post, links lead, the server draws every state. This makes it smoother:
// the countdown moves, forms are sent without leaving the page, and the card is asked for again when it may have
// changed. Nothing is stored; what the card says is all there is to know.

const { plans, hm, h, m, s, available, offline, trouble } = document.body.dataset;

const inquiry = new Inquiry({ look, polls: () => 'poll' in cards.card.dataset });

const cards = new Cards(document, {
  submit, over: () => inquiry.soon(), refresh: () => inquiry.refresh(), unsure: (moment) => inquiry.unsure(moment), busy: () => inquiry.posting, codeIn,
});
attendPhones(document, plans);

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

function show(answer, mine, force) {
  const again = () => { show(answer); inquiry.follow(); };
  if (!cards.show(answer.card, answer.moment, { mine, force, again })) return;
  if (location.href !== answer.url) history.replaceState(null, '', answer.url);
  document.title = answer.card.dataset.title;
}

async function submit(form, button) {
  inquiry.posting = true;
  working(button, true);
  const body = form.method === 'post' ? new URLSearchParams(new FormData(form)) : undefined;
  const answer = await ask(form.action, { method: form.method, body }).catch(() => null);
  inquiry.posting = false;
  const wrong = answer ? '' : navigator.onLine ? trouble : offline;
  cards.warn(wrong, form);
  if (answer) {
    show(answer, form);
    return inquiry.follow();
  }
  working(button, false);
  cards.say(wrong, form);
  inquiry.follow(true); // until the server answers again
}

document.title = cards.card.dataset.title;
cards.speak({ HoursMinutes: hm, Hours: h, Minutes: m, Seconds: s, AvailableNow: available }, document.documentElement.lang);
cards.begin(loaded());
if (matchMedia('(pointer: fine)').matches && document.activeElement === document.body) cards.find('[data-focus]')?.focus(); // elsewhere a keyboard would cover the page
inquiry.follow();
inquiry.attend({ woke: () => cards.tick(), connected: (yes) => cards.warn(yes ? '' : offline) });
