import { Moment, put, second } from '../static/time.js';
import { gets } from './address.js';
import { claimsOf } from '../static/browser.js';
import { Client, mistaken } from './client.js';
import { codeIn, slipIn } from '../static/code.js';
import { Kept } from './kept.js';

// The widget's requests to the service, and the states that follow from the answers.

const hour = 3600 * second; // tabs that share a verification keep it for at least this long
const shortWait = 5; // seconds, if a service that is away gives no wait
const mostKnown = 5; // tokens of a known browser
const checks = 4, vendorChecks = 2; // human checks for one send; after the vendor's, they are by work

// kindOf returns the last segment of a problem's type. The address before it belongs to the
// service.
const kindOf = (problem) => String(problem?.type).split('/').pop();

// slips maps the API's reasons why a text is no code to the cards' words.
const slips = { required: 'required', not_digits: 'foreign', not_in_alphabet: 'foreign', too_short: 'length', too_long: 'length' };

// Reasons after which only a mail is offered, and no other number.
const numbersAlone = ['country_not_served', 'voip', 'number_not_allowed'];

// Flow changes the element's core, and the element shows it. An action returns `lost` if its
// outcome is unknown.
export class Flow {
  #wanted; // the last send that was tried
  #undelivered; // the last send that the service reported as failed
  #ended; // the last verification that the service reported as ended
  #tried; // {id, code} of a check whose answer was lost
  #previous; // the ID of the verification that a refused request left
  #life; // {proof, moment, ms}: how long the element's proof lives, from a moment on

  constructor(core) {
    this.core = core;
    const key = core.element.publicKey, api = this.#get('api') ?? core.home, { era } = core;
    const ask = async (...all) => {
      if (era !== core.era) throw new DOMException('', 'AbortError'); // a repetition whose answer is no longer awaited
      return core.inquiry.ask(...all);
    };
    this.mistaken = mistaken(key);
    core.ours = (id) => [this.#previous, core.there?.view?.id].includes(id); // whether this tab, and no other one, has requested it
    core.intent = new Kept('sessionStorage', key, this.#get('purpose') ?? '', core.element.id, 'intent');
    if (!this.mistaken) this.client = new Client({ key, api, ask, kept: core.intent });
  }

  #get(name) { return this.core.element.getAttribute(name) ?? undefined; }

  get #state() { return this.core.state; }
  set #state(state) { this.core.state = state; }

  #tell(name, detail) {
    this.core.element.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }

  // misplaced shows that the page is set up wrongly, and logs the mistake for its developers, once.
  misplaced(why) {
    const { note } = this.#state;
    this.#note('misplaced');
    if (!this.core.inquiry.posting) this.core.show();
    if (note?.kind === 'misplaced') return 'misplaced';
    console.error(`<send-code>: ${why}`);
    this.#tell('failed', { reason: 'misplaced' });
    return 'misplaced';
  }

  // turn shows another card, without a request.
  turn(to) {
    if (to === 'besides') this.#cross();
    const screen = { change: 'change', instead: 'instead', code: 'code' }[to], { note, screen: before } = this.#state;
    this.#state = { ...this.#state, note: undefined, asking: undefined, draft: undefined, where: undefined, screen };
    if (to === 'use') Object.assign(this.#state, { draft: note.better, asking: 'email', screen: before });
    if (to === 'besides') this.core.inquiry.refresh();
  }

  // #cross changes to the other channel, with its known state.
  #cross() {
    const { moment, ...there } = this.core.there, ms = this.core.phones().left(there.quota, moment, this.core.moment);
    if (there.view) there.view = { ...there.view, expires_in: there.view.expires_in - (this.core.moment.steady - moment.steady) / second };
    if (there.quota) there.quota = { ...there.quota, allowed: ms === 0, retry_after_ms: ms, retry_after: Math.ceil(ms / second) };
    this.core.there = this.#leg();
    this.#state = there;
  }

  // #leg returns the state of a channel. It is kept when the person changes to the other channel.
  #leg() {
    const { view, quota, to, country, refused } = this.#state;
    return view || to ? { channel: this.core.channel(), view, quota, to, country, refused, moment: this.core.moment } : undefined;
  }

  // The acts, by their names in the cards' forms.

  // While an answer is awaited, the form is locked, since the answer belongs to the submitted text.
  async send(form) {
    hold(form, true);
    const came = await this.#typed(form);
    hold(form, false);
    return came;
  }

  #typed(form) {
    const channel = form.querySelector('[name=channel]:checked')?.value ?? this.core.channels()[0], sms = channel === 'sms';
    const field = (name) => form.querySelector(`#${name}`)?.value ?? '';
    return this.#send({ channel, to: field(sms ? 'phone' : 'to').trim(), country: sms && field('country') || undefined });
  }

  again() {
    const { view, to, country } = this.#state, channel = this.core.channel();
    if (!view) return this.#send({ channel, to: to ?? '', country });
    return this.#ask({ channel, to, country, id: view.id, body: this.#asking({ verification_id: view.id }) });
  }

  retry() { return this.#ask(this.#wanted); }

  // other changes to the known recipient of the other channel, and requests a code there. If the
  // request has to wait, it only changes.
  async other() {
    const { screen } = this.#state;
    this.#cross();
    if (this.#state.view) await this.look().catch(() => {});
    if (this.#state.view && !this.#state.quota?.allowed) {
      this.#state = { ...this.#state, refused: true };
      return undefined;
    }
    const came = await this.again();
    if (came === 'lost') { // if the button is pressed again, it leads to the same channel
      this.#cross();
      this.#state = { ...this.#state, screen };
    }
    return came;
  }

  async check(form) {
    const { view, before } = this.#state, { alphabet, length } = view.code_format ?? {}, { era } = this.core,
        { value } = form.querySelector('#code');
    const letters = alphabet === 'unambiguous', code = codeIn(value, length, letters);
    if (length && !code) return this.#note(slipIn(value, letters));
    this.#tried = { id: view.id, code: code || value };
    let a = await this.client.check(view.id, this.#tried.code);
    if (before && a.ok && !a.body.valid) { // the earlier message may have arrived after the last one
      const earlier = await this.client.check(before, this.#tried.code);
      if (earlier.body?.valid) a = earlier;
    }
    if (era !== this.core.era) return undefined;
    if (a.ok) return this.#checked(a.body, a.moment);
    if (a.status === 422) return this.#note(slips[a.body.reason] ?? 'foreign');
    if (kindOf(a.body) === 'not-found') return this.#forgotten();
    if (a.status === 429 && kindOf(a.body) === 'too-many-checks') {
      this.#note('many');
      return this.#tell('refused', { what: 'check', retry_after: a.body.retry_after });
    }
    return this.#elsewise(a, {});
  }

  // look reads the current state. If it gets no answer, it throws, so that the card stays.
  async look() {
    const { core } = this, asked = () => this.#state.view?.id ?? this.#state.id, id = asked(), { era } = core;
    if (this.lapsed) return this.#lapse();
    const began = performance.now(), a = await this.client.get(id), tried = a.body?.status === 'approved' && this.#tried?.id === id && this.#tried;
    const again = tried && await this.client.check(id, tried.code); // for its proof
    if (!core.element.isConnected || era !== core.era || id !== asked()) return; // the person has changed to the other channel meanwhile
    if (a.status > 0 && a.status < 500) core.cards.reached(began);
    if (kindOf(a.body) === 'not-found') await this.#forgotten();
    else if (a.ok) this.#take(a);
    else if (this.#state.view || a.error?.name === 'AbortError') throw a.error ?? new Error(`status ${a.status}`);
    else if (this.#elsewise(a, { reading: true }) === 'misplaced') return;
    if (again?.ok) this.#checked(again.body, again.moment);
    if (!core.inquiry.posting) core.show();
  }

  // learn reads the current channels and served countries, and reports mistakes of the page. If it
  // gets no answer, all channels are offered.
  async learn() {
    if (this.mistaken) return this.misplaced(this.mistaken);
    const { core } = this, { era } = core, began = performance.now(), a = await this.client.offer(this.#get('purpose'), core.locale());
    if (!core.element.isConnected || era !== core.era) return undefined;
    if (!a.ok) return a.barred || a.status >= 400 && a.status < 500 && a.status !== 429 ? this.#elsewise(a, {}) : undefined;
    if (this.#state.note?.kind === 'misplaced') this.#note();
    core.learn(a.body);
    core.cards.reached(began);
    return core.inquiry.posting ? undefined : core.show();
  }

  #send({ channel, to, country }) {
    if (to === '') return this.#badAddress('empty', { channel, to, country });
    const { view, to: before, country: where } = this.#state;
    if (view && channel === this.core.channel() && to === before && country === where) return this.again();
    return this.#ask({ channel, to, country,
        body: this.#asking({ channel, to, country, purpose: this.#get('purpose'), sure: this.#state.note?.sure ?? '' }) });
  }

  // #asking returns the body of a request, with values of the element's attributes.
  #asking(what) {
    const known = this.#known();
    return { ...what, locale: tag(this.core.locale()), reference: this.#get('reference'), known: known[0] && known };
  }

  // #known returns the tokens of a known browser, the newest first. A storage may have been changed,
  // and the service refuses more tokens, or a longer request.
  #known() { return this.core.known.get().split('.').filter((token) => /^[\w-]{1,500}$/.test(token)).slice(0, mostKnown); }

  async #ask(wanted) {
    if (this.mistaken) return this.misplaced(this.mistaken);
    const { era } = this.core;
    this.#wanted = wanted;
    const send = () => this.client.send(wanted.body);
    let a = await send();
    const { view } = this.#state;
    // the answer to an earlier press: look has already shown its send, or its code has ended since
    if (a.ok && (a.body.send.id === view?.send.id || a.body.status !== 'pending' || a.body.expires_in === 0)) a = await send();
    for (let n = 0; a.body?.human_check?.by && n < checks && era === this.core.era; n++) {
      const { human_check: offer } = a.body,
          token = await (await this.core.human())?.answer(this.core, n < vendorChecks ? offer : { ...offer, by: 'work' });
      if (!token || era !== this.core.era) break;
      a = await this.client.send({ ...wanted.body, human_check: token });
    }
    if (era !== this.core.era) return undefined;
    if (a.ok) return this.#sent(a, wanted);
    if (a.body?.human_check?.by) {
      if (!a.body.quota) return this.#unchecked(wanted);
      a.status = 429; // a request without a pass has to wait
    }
    if (a.status === 429 && a.body.quota) return this.#refused(a, wanted);
    if (a.status === 429 && kindOf(a.body) === 'too-many-checks') return this.#lockedOut(a.body, wanted);
    if (a.status === 422 && ['domain_typo', 'landline'].includes(a.body.reason)) return this.#doubted(a.body, wanted);
    if (a.status === 422 && a.body.field === 'to') return this.#badAddress(a.body.reason, wanted);
    if (kindOf(a.body) === 'not-found' && wanted.id) return this.#forgotten(wanted);
    if (a.body?.field === 'channel' && await this.#withdrawn(wanted)) return undefined;
    return this.#elsewise(a, { wanted });
  }

  // #withdrawn returns whether the service no longer offers the wanted channel, and offers another
  // one. Then the card asks for a recipient on the other channel. A code that was sent stays valid.
  async #withdrawn({ channel }) {
    const { core } = this, { era } = core;
    await this.learn();
    const [other] = core.channels();
    if (era !== core.era || core.channels().includes(channel) || !core.offered?.includes(other)) return false;
    const { view } = this.#state, note = { kind: 'withdrawn', tone: 'warn', text: core.words().email.MailInstead };
    this.#state = view ? { ...this.#asked(), draft: undefined, asking: other, note, screen: 'change' }
      : { channel: other, to: this.#get('to') ?? '', note };
    return true;
  }

  // #arrive changes to the requested recipient. The previous recipient stays known only if it is on
  // the other channel: on the same channel, another person may be here now. The ID of the previous
  // verification is kept until a code is sent, so that it is not taken for another tab's.
  #arrive({ channel, to, country, id }) {
    this.#previous = this.#state.view?.id ?? this.#previous;
    if (channel !== this.core.channel()) this.core.there = this.#leg();
    else if (!id && to !== this.#state.to) this.core.there = undefined;
    return { channel, to, country };
  }

  #sent(a, wanted) {
    const { view: before, to: last } = this.#state, { id, send, to, channel } = a.body;
    this.#state = { ...this.#arrive(wanted), before: wanted.id === id ? this.#state.before : wanted.id };
    this.#take(a, true);
    this.#previous = undefined; // this tab no longer shows it
    if (before && (before.channel !== channel || wanted.to !== last)) this.#tell('changed', { id, to, channel });
    this.#tell('sent', { id, number: send.number, to, channel });
  }

  async #refused(a, wanted) {
    const { quota, blocked_by, retry_after, retry_after_ms } = a.body, view = wanted.id && this.#state.view;
    this.#state = { ...this.#arrive(wanted), refused: true, quota: { ...quota, retry_after_ms }, view };
    this.core.moment = a.moment;
    if (wanted.id) await this.look().catch(() => {}); // its life counts from another moment
    this.#tell('refused', { what: 'send', blocked_by, retry_after });
  }

  // #lockedOut shows that no code is sent, because the person could not enter it: too many codes
  // were wrong.
  #lockedOut({ retry_after }, wanted) {
    if (!wanted.id) this.#state = this.#arrive(wanted);
    this.#note('many', this.core.words().email.TooManyChecks);
    this.#tell('refused', { what: 'send', blocked_by: 'checks', retry_after });
  }

  // #unchecked shows that the request lacks only a human check, which this browser could not do.
  #unchecked(wanted) {
    this.#state = { ...this.#asked(wanted), note: { kind: 'away', unchecked: true, ms: 0 } };
    this.#tell('refused', { what: 'send', blocked_by: 'human_check', retry_after: 0 });
  }

  // #asked returns the state with the wanted recipient, before its answer. A view belongs to the
  // recipient of before, so beside it the wanted one is only a draft.
  #asked(wanted) {
    if (wanted && wanted.channel !== this.core.channel()) return this.#arrive(wanted);
    const { to, country } = wanted ?? this.#state;
    return { ...this.#state, where: undefined, ...this.#state.view ? { draft: to } : { to, country, draft: undefined } };
  }

  // #doubted asks the person whether the recipient has a typing mistake, before anything is sent.
  #doubted({ suggestion: better }, { channel, to, country }) {
    const w = this.core.words()[channel], domain = (text) => text.split('@').pop(), sure = better ? domain(to) : to;
    const [question, asIs, use] = better ? [put(w.DidYouMean, { domain: domain(better) }), put(w.MeantAsIs, { domain: sure }),
        put(w.UseInstead, { domain: domain(better) })]
      : [w.Landline, w.LandlineAsIs];
    this.#state = { ...this.#state, draft: to, asking: channel, where: country, note: { kind: 'doubt', sure, better, question, asIs, use },
        screen: 'change' };
  }

  #badAddress(reason, { channel, to, country }) {
    const words = this.core.words(), w = words[channel] ?? words.email,
        known = w.BadAddress[reason === 'required' ? 'empty' : reason] ?? w.BadAddressElse;
    const text = numbersAlone.includes(reason) && this.core.channels().includes('email') ? known + w.Separator + w.MailInstead : known;
    this.#state = { ...this.#state, draft: to, asking: channel, where: country, note: { kind: 'address', text }, screen: 'change' };
  }

  // #forgotten: the service no longer knows the verification. If an address is given, a code is
  // requested as if for the first time.
  #forgotten({ to, country } = {}) {
    const channel = this.core.channel();
    this.core.kept.forget();
    this.core.prove('');
    this.#state = { channel, to, country };
    return to ? this.#send({ channel, to, country }) : undefined;
  }

  #note(kind, text) {
    this.#state = { ...this.#state, note: { kind, text } };
  }

  // #checked shows the answer to a check, which may be about the verification of before.
  #checked({ id, status, valid, attempts_remaining, proof, test, known }, moment) {
    const view = { ...this.#state.view, id, status, attempts_remaining: attempts_remaining ?? 0 };
    const wrong = status === 'pending';
    this.#tried = undefined;
    const { quota, to, country, before, screen } = this.#state;
    this.#state = { channel: this.core.channel(), view, quota, to, country, before, elsewhere: this.#elsewhere(view), lost: !valid,
        ...wrong && { screen, note: { kind: 'wrong' } } };
    if (status === 'approved') this.core.kept.forget();
    if (wrong) this.#tell('wrong', { id, attempts_remaining: view.attempts_remaining });
    if (!valid) return this.#over();
    if (known) this.core.known.set([known, ...this.#known()].slice(0, mostKnown).join('.'));
    this.core.there = undefined;
    this.core.moment = moment;
    this.core.prove(proof);
    this.#lasts(claimsOf(proof)?.iat * second);
    gets(this.core.element);
    return this.#tell('approved', { id, proof, test: test === true });
  }

  // #elsewhere returns whether another tab has requested a code since then.
  #elsewhere({ id }) {
    const { shared, kept, ours } = this.core, last = kept.get();
    return shared && !['', id].includes(last) && !ours(last);
  }

  // #take stores a verification from an answer; sent: it is the answer to a send.
  #take(a, sent) {
    const { id, note, ...rest } = this.#state, view = a.body, over = note?.reading || ['loading', 'misplaced'].includes(note?.kind);
    this.core.moment = a.moment;
    this.#state = { ...rest, channel: view.channel, view, quota: view.quota, note: over ? undefined : note };
    if (view.status === 'approved') {
      this.core.kept.forget();
      this.#state.lost = this.#tried?.id === view.id; // the answer with the proof
      this.#lasts(view.expires_in > 0 ? Date.parse(view.expires_at) - view.expires_in * second : a.moment.service);
      if (this.lapsed) return this.#lapse();
    } else {
      this.#state.elsewhere = !sent && this.#elsewhere(view);
      if (!this.#state.elsewhere) this.core.kept.set(view.id, this.core.shared && Math.max(hour, view.expires_in * second));
      this.core.prove(''); // the new verification has no proof yet
    }
    this.#over();
    if (view.send.status !== 'failed' || this.#undelivered === view.send.id) return;
    this.#undelivered = view.send.id;
    this.#tell('failed', { reason: 'undelivered', id: view.id, number: view.send.number });
  }

  // #lasts stores how long the proof lives. now is the service's time at the state's moment, or NaN:
  // the browser's clock may be wrong by hours.
  #lasts(now) {
    const { moment } = this.core, proof = this.core.proof(), ms = claimsOf(proof)?.exp * second - now;
    if (proof && ms < Infinity) this.#life = { proof, moment, ms };
    else if (this.#life?.proof !== proof) this.#life = undefined;
    this.#state.ends = this.#life && this.#life.ms - (moment.steady - this.#life.moment.steady);
  }

  // lapsed returns whether the proof has expired. If the machine has slept or its clock was set, only
  // the service knows (see Moment).
  get lapsed() {
    const { proof, moment, ms } = this.#life ?? {};
    return proof === this.core.proof() && (moment?.parted() ? moment.certain() : moment?.elapsed()) >= ms;
  }

  // lapse ends a proof that has ended, and returns whether it did.
  lapse() { return this.lapsed && (this.#lapse(), true); }

  // #lapse says that the confirmation has ended, and shows the first card with the same recipient.
  #lapse() {
    const { core } = this, { view, to, country } = this.#state, channel = core.channel();
    this.#state = { channel, to: to ?? this.#get('to'), country, note: { kind: 'lapsed', tone: 'warn', text: core.words()[channel].ProofEnded } };
    core.prove('');
    core.show();
    this.#tell('expired', { id: view.id, status: 'approved' });
  }

  // #over reports once that a code is no longer valid.
  #over() {
    const { id, status } = this.#state.view;
    if (status === 'pending' || status === 'approved' || this.#ended === id) return;
    this.#ended = id;
    this.#tell('expired', { id, status });
  }

  // #elsewise handles the failures that all requests have in common.
  #elsewise(a, { wanted, reading = false }) {
    if (a.barred && !this.core.offered) return this.misplaced( // otherwise the page could read an answer before
        `the service lets no page of this origin read its answers: ${location.origin} must be among the app's origins`);
    if (a.status === 403) return this.misplaced(`${a.body.detail} (${location.origin} must be among the app's origins)`);
    if (a.status > 0 && a.status < 500 && a.status !== 409 &&
        a.status !== 429) return this.misplaced(a.body.detail ?? `the service answers ${a.status}`);
    if (a.status === 0 && !reading) return 'lost';
    const now = this.#asked(wanted), crowded = kindOf(a.body) === 'too-many-requests', wait = a.status && a.retry ||
        shortWait, moment = a.moment ?? new Moment();
    if (!now.view) this.core.moment = moment; // otherwise the view's moment stays
    this.#state = { ...now, note: { kind: 'away', ms: wait * second + moment.steady - this.core.moment.steady, reading, crowded,
        slow: !!a.body?.slow } };
    this.#tell('failed', { reason: crowded ? 'too-many-requests' : 'unavailable' });
    return undefined;
  }
}

// hold locks a form's fields, or unlocks them.
function hold(form, on) {
  form.onclick = on ? (event) => { if (event.target.type === 'radio') event.preventDefault(); } : null;
  for (const field of form.elements) field[field.options ? 'disabled' : 'readOnly'] = on;
}

// tag returns a language in the API's form; undefined if the page's language is not valid.
const tag = (locale) => /^[a-z]{2,8}([-_][a-z0-9]{1,8})*$/i.test(locale) && locale.length <= 35 ? locale : undefined;
