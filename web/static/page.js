// The page is complete without this file: forms post, links lead, the server draws every state. This makes it smoother:
// the countdown moves, forms are sent without leaving the page, and the card is asked for again when it may have
// changed. Nothing is stored; what the card says is all there is to know.

const words = document.body.dataset;
const lang = document.documentElement.lang;
const second = 1000, minute = 60 * second;
const clockFrom = 10 * minute; // from here on the time of the day says more than a count of seconds
const patience = 15 * second;

const find = (selector) => document.querySelector(selector);
const card = () => find('#card');
const put = (pattern, values) => pattern.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/* Time. The server tells waits in milliseconds from the moment its answer came in. performance.now can stand still while
   a machine sleeps, and the clock can be set back: the larger of the two counts, so a wait can only end too early, and
   the server then says so. */

let received;

function receive(at) {
  received = { steady: at, wall: Date.now() - (performance.now() - at) };
}

const elapsed = () => Math.max(performance.now() - received.steady, Date.now() - received.wall, 0);

function digits(ms) {
  const s = Math.ceil(ms / second);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

function lasting(ms) {
  const s = Math.ceil(ms / second), all = Math.ceil(s / 60), h = Math.floor(all / 60), m = all % 60;
  if (s < 60) return put(words.s, { s });
  if (h === 0) return put(words.m, { m });
  return put(m === 0 ? words.h : words.hm, { h, m });
}

// clock is the time of the day that lies ms after the answer, rounded up to the minute where a wait must be over by then.
function clock(ms, round) {
  const exact = received.wall + Number(ms);
  const date = new Date(round === 'up' ? Math.ceil(exact / minute) * minute : exact);
  const parts = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  if (round === 'second') parts.second = '2-digit';
  if (date.toDateString() !== new Date().toDateString()) parts.weekday = 'short';
  return new Intl.DateTimeFormat(lang, parts).format(date);
}

/* The countdown. Every step is worked out from the deadline, so a throttled or frozen tab is right again at once. */

let ticking;

function tick() {
  clearTimeout(ticking);
  const gone = elapsed(), steps = [minute];
  for (const each of card().querySelectorAll('[data-wait]')) {
    const left = each.dataset.wait - gone;
    if (left > 0) steps.push(count(each, left));
    else done(each);
  }
  const after = (element, name, run) => {
    if (!element || !(name in element.dataset)) return;
    const left = element.dataset[name] - gone;
    if (left > 0) return void steps.push(left);
    delete element.dataset[name];
    run();
  };
  const help = find('#card details');
  after(card(), 'next', () => refresh());
  after(help, 'open', () => { help.open = true; });
  ticking = setTimeout(tick, Math.max(10, Math.min(...steps)));
}

// count writes what is left and returns the milliseconds until that changes.
function count(each, left) {
  const { wait, short, long } = each.dataset, far = left >= clockFrom, step = far ? minute : second;
  each.textContent = put(far ? long : short, { t: digits(left), d: lasting(left), c: far ? clock(wait, 'up') : '' });
  const button = each.closest('#again');
  if (button) button.querySelector('.bar rect').style.width = `${100 * Math.max(0, left - second) / button.dataset.total}px`;
  return left % step || step;
}

function done(each) {
  const button = each.closest('#again');
  each.removeAttribute('data-wait');
  each.textContent = each.dataset.done;
  each.closest('.blocked')?.classList.remove('blocked');
  if (!button) return;
  button.removeAttribute('aria-disabled');
  button.querySelector('.label').textContent = button.dataset.ready;
  button.querySelector('.bar').remove();
  each.remove();
  say(words.available);
  setTimeout(refresh, second); // the marks beside it have changed too
}

/* The card. */

function prepare() {
  for (const each of card().querySelectorAll('[data-scripted]')) each.hidden = false;
  for (const each of card().querySelectorAll('[data-at]')) {
    each.textContent = put(each.dataset.text, { c: clock(each.dataset.at, each.dataset.round) });
  }
  document.title = card().dataset.title;
  tick();
  follow();
}

// show takes an answer in. mine is the form that somebody sent for it, so focus and voice follow; without one the page
// asked by itself, and stays as it is unless there is something new.
function show(answer, mine, force) {
  const old = card(), next = answer.card, address = find('#to'), field = find('#code'), active = document.activeElement;
  const heading = find('#heading').textContent, focused = old.contains(active) && active.id;
  if (!mine && !force && old.dataset.rev === next.dataset.rev && sameWaits(old, next, answer.at)) return;
  if (!mine && address && address.value !== address.defaultValue) return; // somebody is typing
  const same = old.dataset.kind === next.dataset.kind, open = same && old.querySelector('details')?.open;
  receive(answer.at);
  old.replaceWith(next);
  if (same && field && !mine?.contains(field)) find('#code').value = field.value;
  if (open && next.querySelector('details')) next.querySelector('details').open = true;
  if (location.href !== answer.url) history.replaceState(null, '', answer.url);
  prepare();
  if (mine || find('#heading').textContent !== heading) say(next.dataset.say, mine);
  if (!mine && !focused) return;
  const kept = same && focused && document.getElementById(focused);
  (mine && next.querySelector('[aria-invalid="true"]') || kept || next.querySelector('[data-focus]') || find('#heading')).focus();
  if (kept && kept === find('#code')) kept.setSelectionRange(field.selectionStart, field.selectionEnd);
  check(find('#code')); // typed in the meantime
}

// sameWaits moves the deadlines of a card that has not changed otherwise.
function sameWaits(old, next, at) {
  const waits = (c) => [...c.querySelectorAll('[data-wait]')];
  const ours = waits(old), theirs = waits(next), help = old.querySelector('details[data-open]');
  if (ours.length !== theirs.length) return false;
  receive(at);
  ours.forEach((each, i) => { each.dataset.wait = theirs[i].dataset.wait; });
  if (next.dataset.next) old.dataset.next = next.dataset.next;
  if (help) help.dataset.open = next.querySelector('details').dataset.open ?? 0;
  tick();
  follow();
  return true;
}

let said = '';

function say(text, anew) {
  if (!text || text === said && !anew) return;
  said = text;
  find('#say').textContent = text;
}

function warn(text) {
  find('#offline').hidden = !text;
  find('#offline').textContent = text ?? '';
}

/* Asking the server: one question at a time; those that the page asks by itself are at least a second apart. */

let flight, posting, asked = 0, later, follows = 0;

async function ask(url, options) {
  flight?.abort();
  const mine = flight = new AbortController();
  const signal = AbortSignal.any([mine.signal, AbortSignal.timeout(patience)]);
  try {
    const answer = await fetch(url, { ...options, headers: { 'X-Fragment': 'card', Accept: 'text/html' }, signal });
    const at = performance.now();
    const found = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('#card');
    if (!found) throw new Error(`no card, status ${answer.status}`);
    return { at, url: answer.url, card: document.adoptNode(found) };
  } finally {
    if (flight === mine) flight = undefined;
  }
}

async function refresh(force) {
  if (flight) return;
  clearTimeout(later);
  const rest = asked + second - performance.now();
  if (rest > 0) { later = setTimeout(refresh, rest, force); return; }
  asked = performance.now();
  let answer;
  try {
    answer = await ask(location.href, { cache: 'no-store' });
    if (!force && answer.card.dataset.kind === 'away' && card().dataset.kind !== 'away') throw new Error('away');
  } catch {
    if (!posting) follow(); // what is shown stays, and the countdown goes on; what was under way is asked for again
    return;
  }
  warn();
  show(answer, null, force);
}

// follow asks again while a mail is on its way, ever less often.
function follow() {
  if (!('poll' in card().dataset)) { follows = 0; return; }
  clearTimeout(later);
  later = setTimeout(refresh, Math.min(second + 500 * follows++, 5 * second));
}

async function submit(form, button) {
  posting = true;
  button.setAttribute('aria-disabled', 'true');
  button.classList.add('busy');
  const body = form.method === 'post' ? new URLSearchParams(new FormData(form)) : undefined;
  const answer = await ask(form.action, { method: form.method, body }).catch(() => null);
  posting = false;
  const trouble = answer ? '' : navigator.onLine ? words.trouble : words.offline;
  warn(trouble);
  if (answer) return show(answer, form);
  button.removeAttribute('aria-disabled');
  button.classList.remove('busy');
  say(trouble, form);
}

document.addEventListener('submit', (event) => {
  const button = event.submitter ?? event.target.querySelector('button');
  event.preventDefault();
  if (!posting && button.getAttribute('aria-disabled') !== 'true') submit(event.target, button);
});

// A code is checked as soon as its characters are in, but not while one that was wrong is being mended: there the card says
// no data-auto.
function check(field) {
  if (posting || !field || !('auto' in field.dataset)) return;
  const counted = 'letters' in field.dataset ? /\p{L}/gu : /\p{Nd}/gu;
  if (field.value.match(counted)?.length !== Number(field.dataset.length)) return;
  delete field.dataset.auto;
  field.form.requestSubmit();
}

document.addEventListener('input', (event) => {
  if (event.target.id === 'code' && !event.isComposing) check(event.target);
});
document.addEventListener('compositionend', (event) => { // an input method gives its letters at the end, with no input event after it
  if (event.target.id === 'code') check(event.target);
});

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') { tick(); refresh(); }
});
addEventListener('pageshow', (event) => {
  if (event.persisted) { tick(); refresh(true); }
});
addEventListener('online', () => { warn(); refresh(); });
addEventListener('offline', () => warn(words.offline));

receive(performance.getEntriesByType('navigation')[0]?.responseStart || performance.now());
prepare();
if (!navigator.onLine) warn(words.offline);
setTimeout(say, 100, card().dataset.say); // a live region speaks of changes, so it must have been there before
