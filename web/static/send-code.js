import controls from './controls.css.js';
import pips from './pips.css.js';
import own from './send-code.css.js';
import tokens from './tokens.css.js';
import { Cards, codeIn, working } from './cards.js';
import { h } from './dom.js';
import { Inquiry } from './inquiry.js';
import { here, left } from './send-code-channels.js';
import { Kept } from './send-code-kept.js';
import { draw, polls } from './send-code-looks.js';
import { Talk } from './send-code-talk.js';
import { Moment, second } from './time.js';
import { en, zh } from './words.js';

// Adopted sheets are no inline style, so no policy of the site around is in their way.
const sheets = [tokens, pips, controls, own].map((text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return sheet;
});

const home = new URL('../', import.meta.url); // where the service is, also below a path
const shortWait = 5; // seconds, where a service that is away names none

// slips are the API's reasons for a code that is none, in the cards' words.
const tooManyChecks = '/problems/too-many-checks';
const slips = { required: 'required', not_digits: 'foreign', not_in_alphabet: 'foreign', too_long: 'length' };

// spoken is a catalogue by channel: of text messages some things are said otherwise.
const spoken = ({ OnPhones, ...all }) => ({ email: all, sms: { ...all, ...OnPhones } });

const languages = { en: spoken(en), zh: spoken(zh) };

// Reasons for which another number would not do either, but a mail does.
const numbersAlone = ['country_not_served', 'voip', 'number_not_allowed'];

// SendCode is <send-code>. docs/widget.md describes its attributes, events, slots and parts.
export class SendCode extends HTMLElement {
  static formAssociated = true;
  static observedAttributes = ['locale'];

  #internals = this.attachInternals();
  #root = this.attachShadow({ mode: 'open' });
  #state = {}; // see draw
  #there; // the same of the channel that somebody came from, with the moment at which it was told
  #offered; // the channels that the service has now, by name; undefined: not known
  #countries = [];
  #moment = new Moment(); // when what the state says was told
  #wanted; // the last send that was tried
  #undelivered; // the send that was last told to have failed
  #words = languages.en; // by channel
  #inquiry = new Inquiry({ look: () => this.#look(), polls: () => polls(this.#state) });
  #talk = new Talk(this.#inquiry);
  #cards;
  #kept;

  constructor() {
    super();
    this.#root.adoptedStyleSheets = sheets;
    this.#root.append(
      h('div', { id: 'frame' }, h('section', { id: 'card' }), h('p', { id: 'offline', class: 'box warn', hidden: true })),
      h('p', { id: 'say', role: 'status', class: 'visually-hidden' }));
    this.#cards = new Cards(this.#root, {
      submit: (form, button) => this.#act(form.dataset.act, form, button), busy: () => this.#inquiry.posting,
      over: () => this.#inquiry.soon(), refresh: () => this.#inquiry.refresh(),
    });
    this.#root.addEventListener('click', (event) => {
      const pressed = event.target.closest?.('button[type="button"][data-act]');
      if (pressed && !this.#inquiry.posting) this.#turn(pressed.dataset.act, pressed);
    });
  }

  connectedCallback() {
    const api = this.getAttribute('api');
    this.#talk.to({ base: api ? new URL(api.replace(/\/?$/, '/'), document.baseURI) : home, key: this.getAttribute('key') ?? '' });
    this.#kept = new Kept(this.getAttribute('key'), this.#purpose ?? '', this.id);
    const id = this.#state.view ? '' : this.#kept.get();
    if (id) this.#state = { id, note: { kind: 'loading' } };
    else this.#state.to ??= this.getAttribute('to') ?? '';
    this.#speak();
    this.#inquiry.attend({ woke: () => this.#cards.tick(), connected: (yes) => this.#cards.warn(yes ? '' : this.#w.Offline) });
    if (!this.getAttribute('key')) this.#misplaced('it has no attribute key: a public key, pk_…');
    else if (id) this.#inquiry.refresh();
    else this.#inquiry.follow();
    if (this.getAttribute('key') && this.#channels.includes('sms') && !this.#offered) this.#learn();
  }

  disconnectedCallback() {
    this.#cards.stop();
    this.#inquiry.stop();
  }

  attributeChangedCallback() {
    if (this.isConnected && this.#kept) this.#speak();
  }

  get #locale() {
    return this.getAttribute('locale') || this.closest('[lang]')?.lang || navigator.language;
  }

  // #channels are those that the site wants, and that the service has.
  get #channels() {
    const wanted = (this.getAttribute('channels') ?? this.getAttribute('channel') ?? '').split(/\s+/).filter(Boolean);
    const all = wanted.length ? wanted : ['email'], had = all.filter((c) => this.#offered?.includes(c) ?? true);
    return had.length ? had : all;
  }

  get #channel() { return this.#state.channel ?? this.#channels[0]; }

  get #w() { return this.#words[this.#channel] ?? this.#words.email; }

  // #seen is the state as it is drawn.
  get #seen() {
    const there = this.#there && { ...this.#there, wait: left(this.#there.quota, this.#there.moment, this.#moment) };
    const country = this.#state.country ?? here(this.#countries, this.getAttribute('country'));
    return { ...this.#state, channel: this.#channel, channels: this.#channels, countries: this.#countries, country, there };
  }

  get #purpose() { return this.getAttribute('purpose') ?? undefined; }

  // #speak draws what is true in the language that is asked for.
  #speak() {
    this.#words = /^zh\b/i.test(this.#locale) ? languages.zh : languages.en;
    const w = this.#words.email, frame = this.#root.getElementById('frame');
    frame.lang = w.Lang;
    frame.dir = w.Dir;
    this.#cards.speak(w, w.Lang);
    this.#cards.replace(draw(this.#words, this.#seen));
    this.#cards.begin(this.#moment);
  }

  #show(mine) {
    this.#cards.show(draw(this.#words, this.#seen), this.#moment, { mine, again: () => this.#show() });
    this.#inquiry.follow();
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }

  // #misplaced shows that the page is wrong, and says to those who made it what is.
  #misplaced(why) {
    console.error(`<send-code>: ${why}`);
    this.#state = { ...this.#state, note: { kind: 'misplaced' } };
    if (!this.#inquiry.posting) this.#show();
    this.#tell('failed', { reason: 'misplaced' });
  }

  // #turn goes to another card of what is known.
  #turn(to, pressed) {
    if (to === 'besides') this.#cross();
    const screen = { change: 'change', instead: 'instead', code: 'code' }[to];
    this.#state = { ...this.#state, note: undefined, asking: undefined, draft: undefined, screen };
    this.#show(pressed);
    if (to === 'besides') this.#inquiry.refresh();
  }

  // #cross goes to the other channel, with all that is known of it.
  #cross() {
    const { moment, ...there } = this.#there, wait = left(there.quota, moment, this.#moment);
    if (there.quota) there.quota = { ...there.quota, allowed: wait === 0, retry_after_ms: wait, retry_after: Math.ceil(wait / second) };
    this.#there = this.#leg();
    this.#state = there;
  }

  // #leg is what is kept of a channel that somebody goes away from.
  #leg() {
    const { view, quota, to, country, refused } = this.#state;
    return view || to ? { channel: this.#channel, view, quota, to, country, refused, moment: this.#moment } : undefined;
  }

  async #act(does, form, button) {
    const field = (name) => this.#root.getElementById(name)?.value ?? '';
    this.#inquiry.posting = true;
    working(button, true);
    const done = await {
      send: () => this.#sendTo(form.querySelector('[name=channel]:checked')?.value ?? this.#channels[0], field),
      other: () => this.#other(), again: () => this.#again(), retry: () => this.#ask(this.#wanted),
      check: () => this.#check(field('code')), look: () => this.#look().catch(() => {}),
    }[does]();
    this.#inquiry.posting = false;
    if (!this.isConnected) return;
    if (done === 'lost') return this.#lost(form, button);
    if (navigator.onLine) this.#cards.warn();
    this.#show(form);
  }

  // #lost: nobody knows what came of it. Everything stays as it is, so asking again is the same request.
  #lost(form, button) {
    const text = navigator.onLine ? this.#w.Trouble : this.#w.Offline;
    working(button, false);
    this.#cards.warn(text, form);
    this.#cards.say(text, form);
    this.#inquiry.follow(true); // until the service answers again
    this.#tell('failed', { reason: 'network' });
  }

  #sendTo(channel, field) {
    const sms = channel === 'sms';
    return this.#send({ channel, to: field(sms ? 'phone' : 'to').trim(), country: sms && field('country') || undefined });
  }

  #send({ channel, to, country }) {
    if (to === '') return this.#badAddress('empty', { channel, to, country });
    const { view, to: before, country: where } = this.#state;
    if (view && channel === this.#channel && to === before && country === where) return this.#again();
    return this.#ask({ channel, to, country, body: this.#asking({ channel, to, country, purpose: this.#purpose }) });
  }

  #again() {
    const { view, to, country } = this.#state, channel = this.#channel;
    if (!view) return this.#send({ channel, to: to ?? '', country });
    return this.#ask({ channel, to, country, id: view.id, body: this.#asking({ verification_id: view.id }) });
  }

  // #other goes to the recipient that is known on the other channel, and asks for a code there; where that has to wait, it is
  // only gone to.
  async #other() {
    this.#cross();
    if (!this.#state.view) return this.#again();
    await this.#look().catch(() => {});
    if (this.#state.quota?.allowed) return this.#again();
    this.#state = { ...this.#state, refused: true };
    return undefined;
  }

  // #asking is what is asked for, with what the page adds.
  #asking(what) {
    return { ...what, locale: tag(this.#locale), reference: this.getAttribute('reference') ?? undefined };
  }

  async #ask(wanted) {
    this.#wanted = wanted;
    const a = await this.#talk.send(wanted.body);
    if (a.status === 202) return this.#sent(a, wanted);
    if (a.status === 429 && a.body.quota) return this.#refused(a, wanted);
    if (a.status === 429 && a.body.type === tooManyChecks) return this.#lockedOut(a.body, wanted);
    if (a.status === 422 && a.body.field === 'to') return this.#badAddress(a.body.reason, wanted);
    if (a.status === 404 && wanted.id) return this.#forgotten(wanted);
    return this.#elsewise(a, { wanted });
  }

  // #arrive goes to the recipient that was asked for. Who was there before stays known if that was on the other channel; in the
  // place of another one somebody else may be here now.
  #arrive({ channel, to, country, id }) {
    if (channel !== this.#channel) this.#there = this.#leg();
    else if (!id && to !== this.#state.to) this.#there = undefined;
    return { channel, to, country };
  }

  #sent(a, wanted) {
    this.#internals.setFormValue(null);
    this.#state = this.#arrive(wanted);
    this.#take(a);
    const { id, send, to: masked, channel } = a.body;
    this.#tell('sent', { id, number: send.number, to: masked, channel });
  }

  async #refused(a, wanted) {
    const { quota, blocked_by, retry_after, retry_after_ms } = a.body, view = wanted.id && this.#state.view;
    this.#state = { ...this.#arrive(wanted), refused: true, quota: { ...quota, retry_after_ms }, view };
    this.#moment = a.moment;
    if (wanted.id) await this.#look().catch(() => {}); // its life counts from another moment
    this.#tell('refused', { what: 'send', blocked_by, retry_after });
  }

  // #lockedOut: no code is sent that could not be checked.
  #lockedOut({ retry_after }, wanted) {
    if (!wanted.id) this.#state = this.#arrive(wanted);
    this.#note('many');
    this.#tell('refused', { what: 'send', blocked_by: 'checks', retry_after });
  }

  #badAddress(reason, { channel, to, country }) {
    const w = this.#words[channel] ?? this.#words.email, known = w.BadAddress[reason === 'required' ? 'empty' : reason] ?? w.BadAddressElse;
    const text = numbersAlone.includes(reason) && this.#channels.includes('email') ? known + w.Separator + w.MailInstead : known;
    this.#state = { ...this.#state, draft: to, asking: channel, country, note: { kind: 'address', text }, screen: this.#state.view && 'change' };
  }

  // #forgotten: the verification is not known any more. With an address it is asked for as if for the first time.
  #forgotten({ to, country } = {}) {
    const channel = this.#channel;
    this.#kept.forget();
    this.#state = { channel, to, country };
    return to ? this.#send({ channel, to, country }) : undefined;
  }

  async #check(typed) {
    const { view } = this.#state, { alphabet, length } = view.code_format ?? {};
    typed = codeIn(typed, length, alphabet === 'unambiguous') || typed;
    const slip = slipOf(typed, view.code_format);
    if (slip) {
      this.#note(slip);
      return;
    }
    const a = await this.#talk.check(view.id, typed);
    if (a.status === 200) return this.#checked(a.body);
    if (a.status === 422) return this.#note(slips[a.body.reason] ?? 'foreign');
    if (a.status === 404) return this.#forgotten();
    if (a.status === 429 && a.body.type === tooManyChecks) {
      this.#note('many');
      return this.#tell('refused', { what: 'check', retry_after: a.body.retry_after });
    }
    return this.#elsewise(a, {});
  }

  #note(kind) {
    this.#state = { ...this.#state, note: { kind } };
  }

  #checked({ id, status, valid, attempts_remaining, proof, test }) {
    const view = { ...this.#state.view, status, attempts_remaining: attempts_remaining ?? 0 };
    const kind = valid ? undefined : { pending: 'wrong', approved: 'used' }[status];
    const { quota, to, country } = this.#state;
    this.#state = { channel: this.#channel, view, quota, to, country, note: kind && { kind } };
    if (status === 'approved') this.#kept.forget();
    if (!valid) return;
    this.#there = undefined;
    this.#internals.setFormValue(proof ?? null);
    this.#tell('approved', { id, proof, test: test === true });
  }

  // #learn asks which channels there are now, and which countries' numbers are sent to. Without an answer all are tried.
  async #learn() {
    const channels = await this.#talk.channels(this.#purpose);
    if (!channels || !this.isConnected) return;
    this.#offered = channels.map((c) => c.channel);
    this.#countries = channels.find((c) => c.channel === 'sms')?.countries ?? [];
    if (!this.#inquiry.posting) this.#show();
  }

  // #look asks how things stand. It throws when it did not learn that, so that what is shown stays.
  async #look() {
    const id = this.#state.view?.id ?? this.#state.id;
    if (!id) return this.#reach();
    const a = await this.#talk.get(id);
    if (!this.isConnected) return;
    if (a.status > 0 && a.status < 500) this.#cards.warn();
    if (a.status === 404) await this.#forgotten();
    else if (a.status === 200) this.#take(a);
    else if (this.#state.view || a.error?.name === 'AbortError') throw a.error ?? new Error(`status ${a.status}`);
    else if (this.#elsewise(a, { reading: true }) === 'misplaced') return;
    if (!this.#inquiry.posting) this.#show();
  }

  // #reach asks whether the service answers again, where there is nothing else to ask.
  async #reach() {
    if (!this.#cards.warned) return;
    if (!await this.#talk.reachable()) throw new Error('away');
    if (this.isConnected) this.#cards.warn();
  }

  // #take takes in a verification as it was told.
  #take(a) {
    const { id, note, ...rest } = this.#state, view = a.body;
    this.#moment = a.moment;
    this.#state = { ...rest, channel: view.channel, view, quota: view.quota, note: note?.reading || note?.kind === 'loading' ? undefined : note };
    if (view.status === 'approved') this.#kept.forget();
    else this.#kept.set(view.id);
    if (view.send.status !== 'failed' || this.#undelivered === view.send.id) return;
    this.#undelivered = view.send.id;
    this.#tell('failed', { reason: 'undelivered', id: view.id, number: view.send.number });
  }

  // #elsewise is what all questions have in common when they come to nothing.
  #elsewise(a, { wanted, reading = false }) {
    if (a.barred || a.status === 401 || a.status === 403) {
      const why = a.body?.detail ?? 'the service lets no page of this origin read its answers';
      this.#misplaced(`${why} (${location.origin} must be among the app's origins)`);
      return 'misplaced';
    }
    if (a.status > 0 && a.status < 500 && a.status !== 409 && a.status !== 429) {
      this.#misplaced(a.body.detail ?? `the service answers ${a.status}`);
      return 'misplaced';
    }
    if (a.status === 0 && !reading) return 'lost';
    const now = wanted && wanted.channel !== this.#channel ? this.#arrive(wanted) : { ...this.#state, ...wanted && { to: wanted.to, country: wanted.country } };
    this.#moment = a.moment ?? new Moment();
    const crowded = a.body?.type === '/problems/too-many-requests';
    this.#state = { ...now, note: { kind: 'away', wait: a.retry || shortWait, reading, crowded } };
    this.#tell('failed', { reason: crowded ? 'too-many-requests' : 'unavailable' });
    return undefined;
  }
}

// tag is a language as the API takes it; what a page around has for one may be none.
const tag = (locale) => /^[a-z]{2,8}([-_][a-z0-9]{1,8})*$/i.test(locale) && locale.length <= 35 ? locale : undefined;

// slipOf says what no code of this format looks like: a slip of the finger must not cost a try.
function slipOf(typed, format) {
  const read = [...typed.normalize('NFKC').replace(/[\s\p{Pd}\p{Cf}]/gu, '')];
  if (read.length === 0) return 'required';
  if (format?.alphabet === 'digits' && !read.every((c) => /\p{Nd}/u.test(c))) return 'foreign';
  return format && read.length !== format.length ? 'length' : '';
}

if (!customElements.get('send-code')) customElements.define('send-code', SendCode);
