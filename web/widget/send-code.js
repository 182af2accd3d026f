import { attempt, claimsOf, ours, within } from '../static/browser.js';
import { Cards } from '../static/cards.js';
import controls from '../static/controls.css';
import { Inquiry } from '../static/inquiry.js';
import tokens from '../static/tokens.css';
import { Moment, second } from '../static/time.js';
import { isOffer } from './answers.js';
import { h } from './dom.js';
import { draw } from './draw.js';
import { Kept } from './kept.js';
import own from './send-code.css';
import { addresses, learn, spoken, wordsOf } from './words.js';

// Adopted style sheets are no inline style, so no policy of the site forbids them.
const sheet = (text) => {
  const s = new CSSStyleSheet();
  s.replaceSync(text);
  return s;
};
let sheets = [tokens, controls, own].map(sheet);

const home = new URL('./', import.meta.url); // address of the service, which may have a path
const first = ['ask', 'loading']; // cards for which the site reserves room
const fallback = 'en'; // for readers whose language the service does not have
const rest = 5 * second; // ms before a module that did not load is requested again

const restored = {}; // the elements of this page that have begun, by the name under which each keeps its state

// modules are the loaded modules, by address: the cards after the first one, phone numbers, and
// other languages.
const modules = {}, asked = {};
let tries = 0; // counts tries, since browsers may remember that an address did not answer

// bring loads a module. It resolves to undefined if the module does not load.
async function bring(address) {
  try {
    const m = await (asked[address] ??= within(() => import(new URL(address + (tries ? `&again=${tries}` : ''), home))));
    if (!modules[address]) {
      modules[address] = m;
      learn(m);
      sheets = [...sheets, ...(m.styles ?? []).map(sheet)];
    }
    return m;
  } catch {
    delete asked[address];
    tries++;
    return undefined;
  }
}

// keys are the attributes that may have the public key. React writes publicKey as publickey while
// the element has no such property.
const keys = ['public-key', 'publickey', 'key'];

// identity lists the attributes that name the app and the purpose: if one changes, the element
// begins anew.
const identity = [...keys, 'api', 'purpose'];

// inner lists the events of fields that must not leave the shadow tree. Events of focus and the
// pointer may, since a page needs them.
const inner = ('beforeinput input compositionstart compositionupdate compositionend keydown keypress keyup copy cut paste ' +
    'drag dragstart dragend dragenter dragover dragleave drop').split(' ');

// chosenSize returns a style sheet with the font size that the reader chose in the browser; 1rem
// would be the site's size.
function chosenSize(root) {
  const probe = h('span');
  probe.style.font = 'medium serif';
  root.append(probe);
  const { fontSize } = getComputedStyle(probe);
  probe.remove();
  return sheet(`:host{--rem:${fontSize}}`);
}

const set = (element, name, value) => value == null ? element.removeAttribute(name) : element.setAttribute(name, value);

// SendCode is <send-code>. docs/widget.md describes its attributes, events, slots and parts. This
// file has the element with its first card; flow.js makes the requests.
export class SendCode extends HTMLElement {
  static formAssociated = true;
  static observedAttributes = [...identity, ...'channels channel country locale required to value'.split(' ')];

  #internals = this.attachInternals();
  #root = this.attachShadow({ mode: 'open', delegatesFocus: true });
  #words; // by channel; undefined: they are not loaded
  #cards;
  #flow;
  #proof = '';
  #fault = ''; // the mistake that the page gave to setCustomValidity
  #offered = false; // a field was there, for autofocus
  #attended = false; // numbers that are typed
  #starting = false;
  #wanted = ''; // the locale that was asked for
  #langs = new MutationObserver(() => this.#translate());
  #vetted; // the key and the purpose were checked
  #brand; // the style sheet of the app's accent
  #size; // the style sheet of the reader's font size
  #inquiry = new Inquiry({ look: () => this.#look(), polls: () => this.#code?.polls(this.#core.state) });

  // The state that the element and its flow share.
  #core = {
    state: {}, // see draw
    there: undefined, // the same for the channel used before, with the moment of its answer
    offered: undefined, // the channels that the service offers now, by name; undefined: unknown
    countries: [],
    moment: new Moment(), // when the state's answer came
    era: 0, // counts restarts: an answer to a request from before a restart is ignored
  };

  constructor() {
    super();
    this.#root.append(
      h('fieldset', { id: 'frame', role: 'presentation' }, h('section', { id: 'card' }),
          h('p', { id: 'offline', class: 'box warn', hidden: true }),
        h('p', { id: 'say', role: 'status', class: 'visually-hidden' })));
    this.#cards = new Cards(this.#root, this.#inquiry, (form) => this.#act(form));
    // A text that is typed, pasted or dragged here is not the element's value, and its keys are not
    // meant for the page: they come from a field that the page cannot see. Nor is a Tab that stays here.
    for (const name of inner) {
      this.#root.addEventListener(name,
          (event) => { if (!(event.key?.length > 1 || event.ctrlKey || event.metaKey) || this.#code?.tabs(this.#root, event)) event.stopPropagation(); });
    }
    // A press on a text may mark it, so the card gets the focus, and not its field: no keyboard appears.
    this.#root.addEventListener('mousedown', ({ target }) => {
      if (target.closest('input, select, button, a, summary, label')) return;
      const { card } = this.#cards;
      card.tabIndex = -1;
      setTimeout(() => card.removeAttribute('tabindex'));
    });
    this.#root.addEventListener('focusin', () => bring(addresses.code), { once: true });
    this.#root.addEventListener('click', (event) => {
      const pressed = event.target.closest?.('button[type="button"][data-act]');
      if (!pressed || this.#inquiry.posting) return;
      if (pressed.dataset.act === 'forget') this.#core.known.forget();
      else this.#flow.turn(pressed.dataset.act);
      this.#show({ mine: pressed });
    });
  }

  // If a page has set properties before the element was defined, they hide the element's own.
  connectedCallback() {
    for (const [name, value] of Object.entries(this)) {
      if (name in SendCode.prototype && delete this[name]) Reflect.set(this, name, value);
    }
    // Dialogs count what Tab reaches, and do not look into shadow trees. Since the element delegates the focus, it is no stop of its own.
    if (!this.hasAttribute('tabindex')) this.tabIndex = 0;
    this.#start();
  }

  // An element that is moved keeps its state, and so does one that is removed and added again.
  disconnectedCallback() { this.#start(); }
  connectedMoveCallback() { this.#start(); }

  // #start begins, or stops, in a microtask. So attributes that a framework sets one by one, before
  // or after it adds the element, cause one start.
  #start() {
    if (this.#starting) return;
    this.#starting = true;
    queueMicrotask(() => {
      this.#starting = false;
      this.#inquiry.stop();
      this.#langs.disconnect();
      if (this.isConnected) this.#startNow();
      else this.#cards.stop();
    });
  }

  #startNow() {
    const core = this.#core, key = this.publicKey, anew = !core.kept;
    this.#size ??= chosenSize(this.#root);
    if (anew) {
      core.shared = this.hasAttribute('shared');
      core.kept = new Kept(core.shared ? 'localStorage' : 'sessionStorage', key, this.getAttribute('purpose') ?? '', this.id);
      attempt(() => this.#learn(JSON.parse(this.getAttribute('offer')))); // our own page has it
      core.known = new Kept('localStorage', this.getAttribute('api') ?? home, key);
      if (!core.state.id) this.#expect(core.kept.get());
      this.#restore();
    }
    if (!core.state.id && !core.state.view) core.state.to ??= this.getAttribute('to') ?? '';
    this.#speak(anew);
    for (let root = this.getRootNode(); root; root = root.host?.getRootNode()) {
      this.#langs.observe(root, { subtree: true, attributeFilter: ['lang'] });
    }
    this.#inquiry.attend({ woke: () => this.#cards.tick(), connected: (yes) => this.#cards.connected(yes) });
    if (core.state.id) this.#inquiry.refresh();
    else this.#inquiry.follow();
    if (this.#channels.includes('sms')) this.#phone();
    else if (!core.state.id) this.#vet(key);
  }

  // #restore takes up the proof that this tab had when it left the page, if the person comes back by
  // Back or a reload. Firefox restores no field of a page with Cache-Control: no-store. A later element
  // of the page, which its script draws, is a new one.
  #restore() {
    const core = this.#core, { name } = core.kept;
    if (core.shared) return; // page.js keeps the proof
    core.proofs = new Kept('sessionStorage', name, 'proof');
    const returned = /^(re|b)/.test(attempt(() => performance.getEntriesByType('navigation')[0].type)), // reload, back_forward
        proof = this.#proof || returned && !restored[name] && core.proofs.get();
    restored[name] = true;
    core.proofs.set(proof);
    if (!proof || this.#proof) return;
    this.#expect(claimsOf(proof)?.jti);
    this.#prove(proof, true);
  }

  // #expect shows that a verification is being read, of which only the ID is known.
  #expect(id) {
    if (id) this.#core.state = { id, note: { kind: 'loading' } };
  }

  // #vet requests what the first card shows, and reports at once if the key, the origin or the
  // purpose is wrong.
  async #vet(key) {
    if (this.#vetted) return;
    this.#vetted = true;
    const began = performance.now(), address = `${this.api || home}`.replace(/\/?$/, `/v1/channels?purpose=${this.purpose}&locale=${this.#locale}`);
    const ask = async (signal) => {
      const answer = await fetch(new URL(address, document.baseURI), { headers: { Authorization: `Bearer ${key}` }, signal });
      const told = answer.ok && await answer.json();
      return isOffer(told) && told;
    };
    const a = key && !key.startsWith('sk_') && await within(ask).catch(() => {});
    if (a) this.#introduce(a, began);
    else (await this.#begun())?.learn();
  }

  // #learn stores what the service told about its channels, the purpose, and the app's accent. The
  // site's own style has precedence over the accent.
  #learn({ channels, purpose_title: title, accent }) {
    Object.assign(this.#core, { title, offered: channels.map((c) => c.channel),
        countries: channels.find((c) => c.channel === 'sms')?.countries ?? [] });
    this.#vetted = true;
    this.#brand = accent && sheet(`:host{--accent:light-dark(${accent.light},${accent.dark})}`);
  }

  #introduce(told, began) {
    this.#cards.reached(began);
    this.#learn(told);
    this.#show();
  }

  attributeChangedCallback(name, before, after) {
    if (before === after) return;
    if (name === 'required') this.#validate();
    if (name === 'value') this.value = after ?? '';
    if (['required', 'value'].includes(name) || !this.#core.known) return; // the element has not started
    if (identity.includes(name)) { this.#clear(); this.#core.kept = this.#core.offered = this.#vetted = undefined; }
    if (name === 'channels') this.#core.offered = undefined;
    if (name === 'to' && !this.#core.state.view) this.#core.state.to = after ?? '';
    if (name !== 'locale') this.#start();
    else this.#translate();
  }

  #translate() {
    if (!this.isConnected || !this.#wanted || this.#wanted === this.#locale) return;
    this.#speak();
    this.#vetted = undefined;
    this.#vet(this.publicKey);
  }

  // The members of a form's field, and the attributes as properties.
  get form() { return this.#internals.form; }
  set form(id) { set(this, 'form', id); }
  get publicKey() { return keys.map((name) => this.getAttribute(name)).find(Boolean) ?? ''; }
  set publicKey(key) { set(this, 'public-key', key); }
  get required() { return this.hasAttribute('required'); }
  set required(yes) { this.toggleAttribute('required', Boolean(yes)); }
  get disabled() { return this.hasAttribute('disabled'); }
  set disabled(yes) { this.toggleAttribute('disabled', Boolean(yes)); }
  get labels() { return this.#internals.labels; }
  get type() { return this.localName; }
  get value() { return this.#flow?.lapsed ? '' : this.#proof; }
  // Frameworks set '' when they begin, just when the card from before a reload appears. So '' only
  // removes a proof. Any other value must be a proof that the page got from an earlier element.
  set value(text) {
    if (this.#proof) return void (text === '' && this.reset());
    const id = claimsOf(text)?.jti;
    if (!id) return;
    this.#clear(true);
    this.#expect(id);
    this.#prove(text, true);
    if (!this.#core.kept) return; // the element has not started
    this.#begin([]);
    this.#start();
  }
  get validity() { return this.#internals.validity; }
  get validationMessage() { return this.#internals.validationMessage; }
  get willValidate() { return this.#internals.willValidate; }
  checkValidity() { return this.#internals.checkValidity(); }
  reportValidity() { return this.#internals.reportValidity(); }
  setCustomValidity(text) {
    this.#fault = String(text);
    this.#validate();
  }

  // Forms with method GET get no proof: see address.js.
  #guard = (event) => {
    if (this.#code) this.#code.guard(this, event, this.#flow);
    else if (event.target.method !== 'post') event.formData?.delete(this.name);
  };

  formAssociatedCallback(form) {
    for (const name of ['submit', 'formdata']) form?.addEventListener(name, this.#guard, true);
    if (window.jQuery) bring(addresses.code);
  }
  // A script's reset(), such as React's after each action of a form, forgets neither a proof nor a
  // code that was sent: the person would have to ask for another one.
  formResetCallback() {
    const { id, view } = this.#core.state;
    if ((this.#proof || id || view) && !this.#code?.cleared(this.form)) return;
    this.reset();
    this.value = this.getAttribute('value');
  }
  formDisabledCallback(yes) { this.#cards.find('#frame').disabled = yes; }
  formStateRestoreCallback(proof) { this.value = proof; }

  // focus moves the focus to the field of the card, or to its first control.
  focus(options) {
    const field = this.#cards.find('[data-focus]');
    if (field) field.focus(options);
    else super.focus(options);
  }

  // reset forgets the verification, the proof and the recipient, and shows the first card.
  reset() {
    this.#core.kept?.forget();
    this.#core.intent?.forget();
    this.#clear(true);
    if (this.isConnected) this.#begin([]); // whatever is being typed
  }

  #clear(quiet) {
    this.#core.era++;
    this.#flow = undefined;
    this.#inquiry.posting = false; // its answer is no longer awaited
    this.#core.there = undefined;
    this.#core.state = { to: this.getAttribute('to') ?? '' };
    this.#prove('', quiet);
  }

  // #prove sets the value of the form. If the element is required, the form is valid only with a
  // proof. Like an input, the element sends events only for changes that the page did not make.
  #prove(proof = '', quiet) {
    const same = proof === this.#proof;
    this.#proof = proof;
    this.#internals.setFormValue(proof || null);
    this.#core.proofs?.set(proof);
    this.#validate();
    if (!same && !quiet) for (const name of ['input', 'change']) this.dispatchEvent(new Event(name, { bubbles: true }));
  }

  #validate() {
    const field = this.#cards.find('[data-focus]') ?? this.#cards.card;
    this.#internals.setValidity({ customError: this.#fault !== '', valueMissing: this.required && !this.#proof }, this.#fault ||
        (this.#w?.Unconfirmed ?? '…'), field);
    this.#code?.mirror(this);
  }

  get #code() { return modules[addresses.code]; }
  get #phones() { return modules[addresses.numbers]; }

  // #begun returns the flow; undefined: a module could not be loaded.
  async #begun() {
    const [code, phones] = await Promise.all([bring(addresses.code), !this.#channels.includes('sms') || bring(addresses.numbers)]);
    this.#cards.broken = tries > 1; // for example, the service was updated after the page was loaded
    if (!code || !phones) return undefined;
    this.#cards.code ??= new code.CodeField(this.#cards);
    this.#cards.countdown ??= new code.Countdown(this.#cards);
    this.#cards.swap ??= new code.Swap(this.#cards);
    this.#dress();
    this.#flow ??= new code.Flow(Object.assign(this.#core, {
      element: this, home, human: () => bring(addresses.human), inquiry: this.#inquiry, cards: this.#cards, phones: () => this.#phones,
          channels: () => this.#channels, channel: () => this.#channel,
      words: () => wordsOf(this.#words.email.Lang), locale: () => this.#locale, learn: (told) => this.#learn(told),
          proof: () => this.#proof, prove: (proof) => this.#prove(proof), show: () => this.#show(),
    }));
    return this.#flow;
  }

  // #phone loads the module for phone numbers.
  async #phone() {
    const flow = await this.#begun();
    if (!this.isConnected) return;
    if (!flow) return setTimeout(() => this.isConnected && this.#phone(), rest);
    if (!this.#attended) this.#phones.attend(this.#root);
    this.#attended = true;
    const place = this.#cards.find('.by-sms > .dots'); // a person may be typing in the field beside it
    if (place) place.parentNode.replaceWith(this.#drawn().querySelector('.by-sms'));
    else this.#show();
    if (!this.#core.offered) flow.learn();
  }

  get #locale() {
    let found;
    for (let at = this; at && !found; at = at.getRootNode().host) found = at.closest('[lang]')?.lang;
    return this.getAttribute('locale') || found || navigator.language || fallback;
  }

  // #channels are the channels that both the site and the service offer.
  get #channels() {
    const wanted = (this.getAttribute('channels') ?? this.getAttribute('channel') ?? '').split(/\s+/).filter(Boolean);
    const all = wanted.length ? wanted : ['email'], had = all.filter((c) => this.#core.offered?.includes(c) ?? true);
    return had.length ? had : all;
  }

  get #channel() { return this.#core.state.channel ?? this.#channels[0]; }

  get #w() { return this.#words?.[this.#channel] ?? this.#words?.email; }

  // #speak draws the current state in the requested language, or in English if the service lacks
  // that language. While the words are loading, it shows a card without words.
  async #speak(anew) {
    const wanted = this.#wanted = this.#locale, lang = spoken(wanted) ?? fallback, frame = this.#cards.find('#frame');
    if (!spoken(wanted)) console.warn(`<send-code>: no texts in ${wanted}; speaks ${lang}`);
    let words = wordsOf(lang);
    if (!words) {
      if (!this.#words) this.#begin();
      words = await bring(addresses.languages[lang]) ? wordsOf(lang) : wordsOf(addresses.lang);
      if (this.#locale !== wanted || !this.isConnected) return;
    }
    this.#words = words;
    const { email: w } = words, same = !anew && frame.lang === w.Lang;
    frame.lang = w.Lang;
    frame.dir = w.Dir;
    if (same) this.#show();
    else this.#begin();
    if (same) this.#cards.begin(this.#core.moment);
  }

  // #begin draws a card anew, with the text that was typed.
  #begin(typed = this.#cards.typed) {
    const held = this.#cards.replace(this.#drawn());
    for (const { id, value, checked } of typed) Object.assign(this.#cards.find(`#${id}`) ?? {}, { value, checked });
    const same = held && this.#root.getElementById(held.id);
    if (held) this.#code?.moveFocus(this.#cards, same ?? this.#cards.find('[data-focus]'), same ? held.range : []);
    this.#cards.begin(this.#core.moment);
    this.#validate();
    if (!this.#cards.find('[data-focus]') || this.#offered) return;
    this.#offered = true;
    if (this.autofocus && ours(this)) this.focus();
  }

  // #dress applies the style sheets that have been loaded.
  #dress() {
    const worn = this.#root.adoptedStyleSheets, all = [...sheets, this.#size, this.#brand].filter(Boolean);
    if (all.some((each, i) => each !== worn[i])) this.#root.adoptedStyleSheets = all;
  }

  #drawn() {
    this.#dress();
    if (this.#words) {
      this.#words = wordsOf(this.#words.email.Lang); // a module may have brought some
      this.#cards.speak(this.#words.email);
    }
    const { state, there, countries, moment, title, shared } = this.#core, phones = this.#phones;
    const card = draw(this.#words, {
      ...this.#code, ...state, shared, unkept: !this.#core.kept?.get(), proof: this.#proof, title, sender: this.getAttribute('sender'),
          subject: this.getAttribute('subject'), moment, refused: state.refused &&
              (state.view || !moment.parted() && state.quota.retry_after * second > moment.certain()), countries, phones,
                  channel: this.#channel, channels: this.#channels, known: this.#core.known.get() !== '',
      country: state.where ?? state.country ?? phones?.here(countries, this.getAttribute('country')),
      there: there && { ...there, wait: phones.left(there.quota, there.moment, moment) },
    });
    const name = shared && card.querySelector('h2');
    if (name) name.replaceWith(h('h1', { id: name.id, part: name.id }, ...name.childNodes)); // the card's heading is that of the page
    attempt(() => this.#internals.states[first.includes(card.dataset.kind) ? 'delete' : 'add']('begun')); // some take dashed names alone
    return card;
  }

  async #show({ mine } = {}) {
    const { swap } = this.#cards, next = this.#drawn();
    if (!swap && next.dataset.rev !== this.#cards.card.dataset.rev) return this.#root.activeElement ? await this.#begun() &&
        this.#show({ mine }) : this.#begin();
    swap?.show(next, this.#core.moment, { mine, again: () => this.#show() });
    this.#validate();
    if (this.isConnected) this.#inquiry.follow();
    else this.#cards.stop();
  }

  async #act(form) {
    const { era } = this.#core, flow = await this.#begun();
    const done = flow && era === this.#core.era ? await flow[form.dataset.act](form) : 'lost';
    if (era !== this.#core.era) return false;
    if (done !== 'lost') return () => this.#show({ mine: form });
    this.dispatchEvent(new CustomEvent('failed', { detail: { reason: 'network' }, bubbles: true }));
    return undefined;
  }

  // #look requests the state. If it gets no answer, it throws, so that the card stays.
  async #look() {
    const { state: { view, id, note }, ours, shared, kept } = this.#core, other = kept.get();
    if (!view && !id && shared && !ours?.(other)) this.#expect(other);
    const begun = view || this.#core.state.id;
    // a refusal may be over
    if (!begun && note?.kind !== 'misplaced' && !this.#cards.unsent) return this.#show();
    const flow = await this.#begun();
    await (begun ? flow?.look() : flow?.learn());
    if (!flow || !begun && this.#cards.unsent) throw new Error('away');
  }
}

// The other attributes as properties, since frameworks set a property if an element has it.
for (const name of 'api channels country locale name purpose reference sender subject to'.split(' ')) {
  Object.defineProperty(SendCode.prototype, name, {
    enumerable: true,
    get() { return this.getAttribute(name) ?? ''; },
    set(value) { set(this, name, value); },
  });
}

if (!customElements.get('send-code')) customElements.define('send-code', SendCode);
