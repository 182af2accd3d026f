// Impatient people by seed, at the page's own script and at <send-code>. Nothing waits: time is
// what the next event says. The server is the real one; what it decides is asked at the person's
// time.
//
// The machine has a steady clock, which stands still while it sleeps, and a clock of the day, which
// is wrong from the beginning and is set forward and back. Timers run by the steady clock. What
// comes in during a sleep is there when the machine wakes; a tab may be frozen alone.

const second = 1000, minute = 60 * second;
const real = { fetch: window.fetch.bind(window), Date, requestSubmit: HTMLFormElement.prototype.requestSubmit };
const patience = second; // what the button may be late, and what another tab's send takes to be known
const way = second / 2; // to the server and back, at most
const glance = 6 * second; // the same for what is only learned by asking again
const right = '482913', wrong = '111111';
const origin = location.origin;

// Forms of a document without a window submit nothing.
HTMLFormElement.prototype.requestSubmit = function (submitter) {
  if (this.ownerDocument.defaultView) real.requestSubmit.call(this, submitter);
  else this.dispatchEvent(new SubmitEvent('submit', { submitter, bubbles: true, cancelable: true }));
};

const failures = []; // that no promise of ours holds
addEventListener('unhandledrejection', ({ reason }) => failures.push(String(reason?.stack ?? reason)));
addEventListener('error', ({ error, message }) => failures.push(String(error?.stack ?? message)));

// turn lets everything go on that promises hold back: each of them some steps, and no longer chain
// is anywhere.
async function turn() {
  for (let n = 0; n < 60; n++) await undefined;
}

// random numbers of a seed (mulberry32).
function chance(seed) {
  let a = seed * 2654435761 >>> 0;
  const next = () => {
    a = a + 0x6D2B79F5 | 0;
    let t = Math.imul(a ^ a >>> 15, 1 | a);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
  const between = (from, to) => from + (to - from) * next();
  return { next, between, one: (list) => list[Math.floor(next() * list.length)], scale: (from, to) => from * (to / from) ** next() };
}

// says finds a pattern of the catalogue in a text, with what stands for its names.
function says(text, pattern) {
  const found = text.match(new RegExp(pattern.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>.+?)')));
  return found && { ...found.groups };
}

// Store is a storage of a browser.
class Store extends Map {
  getItem(name) { return this.get(name) ?? null; }
  setItem(name, text) { this.set(name, text); }
  removeItem(name) { this.delete(name); }
}

class Machine {
  now = 0; // the true time, which is the server's
  slept = 0;
  wakes = 0; // until then the machine sleeps
  woke = 0;
  online = true;
  lying = false; // no answer comes, though the browser calls itself online
  away = false; // the service's database
  sighted = 0; // when the service could last be reached again
  events = [];
  tabs = [];
  accepts = 0; // when the server accepts the next send
  freed = -Infinity; // when it last came to accept one earlier
  sent = [undefined, -Infinity]; // the last send: its tab and when
  history = []; // what was true at the server, the newest last: {from, accepts, all}
  told = []; // what happened
  local = new Store();

  constructor(seed, world, kind, served) {
    Object.assign(this, { seed, world, kind, served, chance: chance(seed), address: `person${seed}@example.com` });
    this.ahead = this.chance.one([0, this.chance.between(-1, 1) * 24 * 60 * minute]);
  }

  get asleep() { return this.now < this.wakes; }
  get dark() { return !this.online || this.lying || this.away; }
  steady(at = this.now) { return at - this.slept + (at < this.wakes ? this.wakes - at : 0) + 5000; }
  wall() { return real.Date.UTC(2026, 0, 1) + this.now + this.ahead; }

  note(text) { this.told.push(`${(this.now / second).toFixed(3)} ${text}`); }

  // at has something happen at the server, at the machine (then not before it wakes), or by its
  // steady clock; of a tab, not while it is frozen.
  at(time, run, where = 'machine', tab = undefined) {
    const event = { time, run, where, tab };
    this.events.push(event);
    return event;
  }

  due({ time, where, tab }) {
    if (where === 'server') return time;
    const due = where === 'timer' ? this.now + Math.max(0, time - this.steady()) + Math.max(0, this.wakes - this.now) : Math.max(time, this.wakes);
    return Math.max(due, tab?.thaws ?? 0);
  }

  async run() {
    while (!this.ended) {
      let first, soonest = Infinity;
      for (const event of this.events) {
        const due = this.due(event);
        if (due < soonest) [first, soonest] = [event, due];
      }
      this.judge(soonest);
      this.now = Math.max(this.now, soonest);
      this.events.splice(this.events.indexOf(first), 1);
      await first.run();
      await turn();
      this.judge(this.now);
    }
  }

  // judge holds each tab to what the server would do, from now on until a time at which nothing has
  // changed yet.
  judge(until) {
    if (failures.length) this.wrong(failures.splice(0).join('\n'));
    if (this.asleep) return;
    for (const tab of this.tabs) {
      if (!tab.root || tab.posting || tab.find('.busy') || this.now < tab.thaws) continue;
      const button = tab.find('#again'), active = button && button.getAttribute('aria-disabled') !== 'true', blind = this.dark || this.now < this.sighted + glance;
      if (active && this.now < this.accepts - 1 && !this.news(tab) && !blind && tab.kind !== 'away') // which knows of no rules
        this.wrong(`tab ${tab.name} can be pressed ${this.accepts - this.now} ms too early`);
      const since = Math.max(this.accepts, tab.ready, this.woke, tab.thaws, this.freed + glance, this.sighted + glance);
      if (button && !active && !this.dark && until > since + tab.late && tab.kind !== 'away' && !tab.unaware) this.wrong(`tab ${tab.name} can still not be pressed ${until - since} ms after it could be`);
      if (tab.owes !== undefined && this.online && until > Math.max(tab.owes, this.woke, tab.thaws) + patience) this.wrong(`tab ${tab.name} does not send what it said it would`);
      tab.speak();
      if (!tab.leads()) this.wrong(`tab ${tab.name} leads nowhere: ${tab.kind}`);
      tab.plan(active && button);
    }
  }

  // news says that another tab has sent and this one need not know yet, or was being loaded and has
  // heard nothing of it, or has no verification to ask about; or that the answer to a send was
  // lost, and nothing was heard since.
  news(tab) {
    const [by, at, lost] = this.sent;
    if (tab.heard < at && (lost || by !== tab && tab.deaf)) return true;
    return by !== tab && (this.now < Math.max(at, this.woke, tab.thaws) + patience || tab.loaded < at && at < tab.begun);
  }

  wrong(text) {
    this.note(text);
    throw new Error(`person ${this.seed} at the ${this.kind}: ${text}\n${this.told.join('\n')}`);
  }

  // ask has the server answer.
  async ask(url, { method, body, headers } = {}) {
    const answer = await real.fetch(url, {
      method, body, headers: { ...headers, 'X-World': this.world, 'X-Seed': `${this.kind}${this.seed}`, 'X-Address': this.address, 'X-Now': Math.round(this.now * second) },
    });
    const truth = JSON.parse(answer.headers.get('X-Truth')), accepts = this.now + truth.Wait;
    if (accepts < this.accepts && this.accepts > this.now) this.freed = this.now;
    this.accepts = accepts;
    const all = (truth.All ?? []).map((v) => ({ ...v, expires: this.now + v.Expires }));
    this.history.push({ from: this.now, accepts, all, away: this.away });
    return { status: answer.status, url: answer.url, headers: answer.headers, body: method === 'HEAD' ? '' : await answer.text(), sends: truth.Sends };
  }

  // held says whether something was true at some time since one.
  held(since, holds) {
    return this.history.some((t, i) => {
      const next = this.history[i + 1]?.from ?? this.now;
      if (next < since) return false;
      const from = Math.max(t.from, since), times = [from, next, ...t.all.map((v) => v.expires).filter((at) => from <= at && at <= next)];
      return times.some((at) => holds({ ...t, at, all: t.all.map((v) => ({ ...v, State: v.State === 'pending' && at >= v.expires ? 'expired' : v.State })) }));
    });
  }

  latency() { return this.chance.scale(5, 200); }

  control(what) { return this.ask(`/control?${what}`, { method: 'POST' }); }

  // settle has the newest mail end: mostly it is sent.
  settle() {
    const { chance } = this, how = chance.one(['sent', 'sent', 'sent', 'sent', 'failed', 'unknown']);
    this.at(this.now + chance.scale(100, 2 * second), () => {
      this.note(`the mail is ${how}`);
      return this.control(`settle=${how}`);
    }, 'server');
  }

  // connect changes what the browser says of its connection.
  connect(yes) {
    if (this.online === yes) return;
    this.note(yes ? 'the connection is back' : 'the connection is lost');
    this.online = yes;
    if (yes) this.light();
    for (const tab of this.tabs) {
      if (yes && tab.owes !== undefined) tab.owes = this.now;
      const tell = () => tab.window?.dispatchEvent(new Event(yes ? 'online' : 'offline'));
      if (this.now < tab.thaws) this.at(this.now, tell, 'machine', tab);
      else tell();
    }
  }

  light() { if (!this.dark) this.sighted = this.now; }
}

class Tab {
  thaws = 0; // until then its scripts stand still
  heard = -Infinity; // when the server gave the last answer that came
  session = new Store();
  past = [];

  constructor(machine, name) {
    Object.assign(this, { machine, name });
    machine.tabs.push(this);
    this.load();
  }

  close() {
    this.leave();
    this.machine.tabs = this.machine.tabs.filter((tab) => tab !== this);
  }

  // leave has whatever went on in the tab be gone.
  leave() {
    this.root = this.id = this.owes = this.planned = undefined;
    this.posting = false;
    this.life = {};
  }

  find(selector) { return this.root?.querySelector(selector); }

  get late() { return patience + way; }

  get deaf() { return false; } // to what other tabs do

  get unaware() { return false; }

  get kind() { return this.find('#card')?.dataset.kind; }

  alive(life) { return this.life === life && this.machine.tabs.includes(this); }

  // globals are what scripts find around them.
  globals(life, began, since) {
    const { machine } = this;
    this.window = new EventTarget();
    const timer = (run, ms) => machine.at(machine.steady() + Math.max(1, ms), () => { if (this.alive(life)) run(); }, 'timer', this);
    return {
      navigator: { get onLine() { return machine.online; }, language: 'en', languages: ['en'] }, matchMedia: () => ({ matches: false }),
      window: { sessionStorage: this.session, localStorage: machine.local },
      addEventListener: (...all) => this.window.addEventListener(...all),
      performance: { timeOrigin: since, now: () => machine.steady(), getEntriesByType: () => [{ responseStart: began }] },
      Date: class extends real.Date {
        constructor(...all) { super(...all.length ? all : [machine.wall()]); }
        static now() { return Math.floor(machine.wall()); }
      },
      console: { error: (text) => failures.push(text), warn: (text) => failures.push(text) },
      setTimeout: timer,
      clearTimeout: (event) => { machine.events = machine.events.filter((each) => each !== event); },
      AbortSignal: {
        any: (all) => AbortSignal.any(all),
        timeout: (ms) => { const c = new AbortController(); timer(() => c.abort(new DOMException('', 'TimeoutError')), ms); return c.signal; }, // after a request it comes to nothing
      },
      BroadcastChannel: class {
        constructor() { (life.channels ??= []).push(this); }
        postMessage(data) {
          for (const tab of machine.tabs) {
            for (const c of tab.life.channels ?? []) {
              if (c !== this) machine.at(machine.now + machine.chance.between(0, 20), () => { if (tab.root) c.onmessage?.({ data }); }, 'machine', tab);
            }
          }
        }
        close() {}
      },
      fetch: (url, options) => this.fetch(life, String(url), options),
    };
  }

  fetch(life, url, options) {
    const { machine } = this, posts = Boolean(options.body), { signal, method = 'GET' } = options, way = posts && this.acts(url, String(options.body));
    if (posts && this.early) machine.wrong(`tab ${this.name} sends before it may`);
    if (posts) this.owes = undefined;
    this.posting ||= posts;
    const end = (settle, at = machine.now) => {
      if (!this.alive(life)) return;
      if (posts) machine.at(machine.now, () => { this.posting = false; });
      this.ready = posts ? machine.now : this.ready;
      this.heard = at;
      settle();
    };
    return new Promise((resolve, reject) => {
      const lost = (text) => machine.at(machine.now, () => end(() => {
        if (posts && !machine.online) this.owes ??= machine.now;
        if (posts) machine.note(`tab ${this.name} hears nothing: ${text}`);
        reject(new TypeError(text));
      }, this.heard), 'machine', this);
      signal?.addEventListener('abort', () => { if (posts) this.posting = false; reject(signal.reason); });
      machine.at(machine.now + machine.latency(), async () => {
        if (!machine.online || machine.lying) return lost('nothing went out');
        const before = machine.sends ?? 0, allowed = machine.now >= machine.accepts - 1, news = machine.news(this), answer = await machine.ask(url, { ...options, method });
        const at = machine.now, sends = answer.sends > before;
        machine.sends = answer.sends;
        if (sends) {
          machine.sent = [this, at];
          machine.settle();
          machine.note(`tab ${this.name} has sent`);
        } else if (posts) {
          machine.note(`tab ${this.name} is answered ${answer.status} to ${way}`);
        }
        if (!sends && posts && way === 'again' && this.pressed === 'again' && !allowed && !news && !machine.dark && machine.now > machine.sighted + glance && answer.status < 500) {
          machine.wrong(`tab ${this.name} was refused`);
        }
        return machine.at(machine.now + machine.latency(), () => {
          if (machine.online && !machine.lying) return end(() => { this.hear?.(answer, way); resolve({ ...answer, ok: answer.status < 300, text: async () => answer.body }); }, at);
          if (sends) machine.sent[2] = true;
          return lost('the answer was lost');
        }, 'machine', this);
      }, 'server');
    });
  }

  // see has the tab told that it is looked at again.
  see() { this.sight?.dispatchEvent(new Event('visibilitychange')); }

  // leads says that there is something to press, or that something goes on, or that all is done.
  leads() {
    if (this.kind === 'approved') return true;
    const button = [...this.root.querySelectorAll('#card :is(button, a)')].some((each) => each.getAttribute('aria-disabled') !== 'true');
    return button || this.machine.events.some((event) => event.tab === this);
  }

  // submit submits a form once, or twice at once.
  submit(form, button) {
    this.pressed = this.kind === 'away' ? '' : button.id; // which knows of no rules
    for (let n = this.machine.chance.one([1, 1, 1, 2]); n > 0 && form.isConnected; n--) {
      form.dispatchEvent(new SubmitEvent('submit', { submitter: button, bubbles: true, cancelable: true }));
    }
  }

  // plan has the person do what the card asks for.
  plan(active) {
    if (this.planned) return;
    const { machine } = this, { chance } = machine, { kind } = this, form = kind === 'ask' && this.find('.ask');
    if (!active && !form && !(machine.patient && this.find('#code'))) return;
    const plan = this.planned = {};
    machine.at(machine.now + chance.one([0, chance.scale(100, machine.patient ? 2 * second : 20 * second)]), () => {
      if (this.planned !== plan) return;
      this.planned = undefined;
      const button = this.find('#again'), to = this.find('#to');
      if (this.kind === 'ask' && to) {
        machine.note(`tab ${this.name} asks for a code`);
        this.type(to, machine.address);
        this.submit(to.form, this.find('#send'));
      } else if (machine.patient && this.kind === 'code') {
        this.enter(right);
        if (this.find('#code')) this.submit(this.find('#code').form, this.find('#check')); // a code of before may be typed for the next one
      } else if (button && button.getAttribute('aria-disabled') !== 'true') {
        machine.note(`tab ${this.name} is pressed`);
        this.submit(button.form, button);
      }
    }, 'machine', this);
  }

  type(field, text) {
    this.owes = undefined;
    field.value = text;
    field.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' }));
  }

  enter(text) {
    const field = this.find('#code');
    if (!field || this.posting) return;
    this.machine.note(`tab ${this.name}: ${text} is typed`);
    this.type(field, text);
  }

  // speak holds what the card says to what the server knows.
  speak() {
    const { machine, kind } = this, w = machine.served.words, text = (selector) => this.find(selector)?.textContent.trim() ?? '';
    if (!machine.dark && machine.now > Math.max(machine.sighted, machine.woke, this.thaws, this.begun) + glance) this.since = machine.now - glance;
    const { since } = this;
    const heading = text('#heading'), error = text('#code-error'), count = text('#again .count').match(/(\d+):(\d\d)/), offline = this.find('#offline');
    const must = (what, holds) => { if (!machine.held(since, holds)) machine.wrong(`tab ${this.name} says what is not true since ${since}: ${what} ${JSON.stringify(machine.history.slice(-2))} ${this.id}`); };
    const some = (holds) => ({ all }) => this.mine(all).some(holds);
    if (kind === 'misplaced') machine.wrong(`tab ${this.name} says that the page is wrong`);
    if (kind === 'approved') must(heading, some((v) => v.State === 'approved'));
    if (kind === 'enough' && !this.unaware) must(heading, ({ accepts, at }) => accepts >= at - patience);
    if (kind === 'failed') must(heading, some((v) => ['failed', 'undelivered'].includes(v.Status)));
    // what the last press came to
    if (kind === 'away' && !machine.history.some(({ away }) => away)) machine.wrong(`tab ${this.name} says that the service is away`);
    if (kind === 'ended') {
      const state = { [w.TooManyTries]: 'max_attempts_reached', [w.Expired]: 'expired', [w.Used]: 'approved', [w.Canceled]: 'canceled' }[heading];
      must(heading, some((v) => v.State === state));
    }
    if (kind === 'code') {
      const stages = { [w.OnItsWay]: ['queued', 'sending'], [w.MayArrive]: ['unknown'], [w.CheckMail]: ['sent', 'failed'], [w.NotArrived]: ['undelivered'] };
      const again = says(text('.lead'), w.SentAgainTo), said = says(text('.lead'), w.SentTo) ?? again;
      if (heading !== w.OnItsWay || machine.now > this.ready + 2 * patience) must(`${heading} ${text('.lead')}`, // a repetition is answered as the request was
        some((v) => v.State === 'pending' && stages[heading]?.includes(v.Status) && (!again || v.Number > 1) && (!said || v.Status !== 'queued')));
      const tries = error && Object.values(w.WrongCode).map((pattern) => says(error, pattern)).find(Boolean);
      if (tries) must(error, some((v) => !tries.n || v.Tries === Number(tries.n)));
    }
    if (offline && !offline.hidden && offline.textContent === w.Offline && machine.online && machine.now > Math.max(machine.sighted, machine.woke, this.thaws) + patience) machine.wrong(`tab ${this.name} says that it is offline`);
    const calm = Math.max(machine.sighted, machine.woke, machine.stepped ?? 0, this.thaws, this.ready, machine.freed, machine.sent[1]) + glance;
    const left = (machine.accepts - machine.now) / second, shown = count && Number(count[1]) * 60 + Number(count[2]);
    if (count && kind !== 'away' && !this.unaware && !machine.dark && machine.now > calm && (shown < left - patience / second || shown > left + 2.5)) machine.wrong(`tab ${this.name} says ${count[0]}, and ${left} s are left`);
  }
}

// Page is a tab at the page of the service, in a document of its own for each load.
class Page extends Tab {
  load(url = '/') {
    this.leave();
    const { machine, life } = this, since = machine.wall() - machine.steady();
    this.url = url;
    machine.at(machine.now + machine.latency(), async () => {
      if (!machine.online || machine.lying) { // the browser's own page says so, and the person tries again
        return machine.at(machine.now + 5 * second, () => { if (this.life === life) this.load(url); }, 'machine', this);
      }
      const answer = await machine.ask(url), at = machine.now;
      return machine.at(machine.now + machine.latency(), () => {
        const began = machine.steady();
        machine.at(machine.now + machine.chance.between(0, 100), () => {
          if (this.life === life) [this.loaded, this.heard] = [at, at];
          if (this.alive(life)) this.begin(life, answer, began, since);
        }, 'machine', this);
      }, 'machine', this);
    }, 'server');
  }

  begin(life, answer, began, since) {
    const { machine } = this;
    this.begun = this.ready = machine.now;
    this.since = this.loaded;
    const document = this.root = this.sight = new DOMParser().parseFromString(answer.body, 'text/html');
    Object.defineProperty(document, 'visibilityState', { value: 'visible' });
    const location = { href: answer.url };
    machine.served.page({ ...this.globals(life, began, since), document, location, history: { replaceState: (state, title, url) => { location.href = url; } } });
  }

  mine(all) { return all.slice(-2); } // one may take the other's place

  acts(url, body) { return new URLSearchParams(body).get('act'); }

  // go follows a link of the card.
  go(link) {
    this.past.push(this.url);
    this.load(link.getAttribute('href'));
  }

  anew() { this.load('/?view=new'); }
}

// Element is a tab at another site's page, with the widget in it.
class Element extends Tab {
  load() {
    this.element?.remove();
    this.leave();
    const { machine, life } = this;
    machine.at(machine.now + machine.latency(), () => {
      if (!machine.online || machine.lying) return machine.at(machine.now + 5 * second, () => { if (this.life === life) this.load(); }, 'machine', this);
      return machine.at(machine.now + machine.latency(), () => { if (this.alive(life)) this.begin(life); }, 'machine', this);
    }, 'server');
  }

  begin(life) {
    const { machine } = this;
    this.loaded = this.begun = this.ready = this.since = machine.now;
    this.sight = new EventTarget();
    let SendCode;
    const globals = this.around = {
      ...this.globals(life, machine.steady(), machine.wall() - machine.steady()), location: { origin },
      document: {
        visibilityState: 'visible', baseURI: `${origin}/`, hasFocus: () => true, createElement: (name) => document.createElement(name),
        createElementNS: (...all) => document.createElementNS(...all), addEventListener: (...all) => this.sight.addEventListener(...all),
      },
      customElements: { get: () => undefined, define: (name, made) => { SendCode = made; } },
      CSSStyleSheet: function () { return unstyled; },
      here: `${origin}/widget.js`, importing: (url) => this.bring(life, url),
    };
    machine.served.modules.widget(globals);
    customElements.define(`send-code-${++defined}`, SendCode);
    const element = this.element = new SendCode();
    element.setAttribute('public-key', machine.served.key);
    element.addEventListener('approved', ({ detail }) => { if (!detail.proof) machine.wrong('an approval without a proof'); });
    document.body.append(element);
    this.root = element.shadowRoot;
  }

  close() {
    this.element?.remove();
    super.close();
  }

  // bring is an import of a module.
  bring(life, url) {
    const { machine } = this;
    return new Promise((resolve, reject) => machine.at(machine.now + machine.latency(), () => {
      if (!this.alive(life)) return;
      if (!machine.online || machine.lying) reject(new TypeError('no module'));
      else resolve(machine.served.modules[new URL(url).pathname](this.around));
    }, 'machine', this));
  }

  hear({ url, status, body }, way) {
    if (way === 'send' && status === 429) this.id = undefined;
    if (status === 202 || status === 200 && /\/v1\/verifications/.test(url)) this.id = status === 202 ? JSON.parse(body).id : this.id ?? JSON.parse(body).id;
  }

  mine(all) { return all.filter((v) => v.ID === this.id); }

  acts(url, body) { return url.endsWith('/check') ? 'check' : JSON.parse(body).verification_id ? 'again' : 'send'; }

  get deaf() { return !this.id; }

  get unaware() { return this.machine.freed > 0 && (this.deaf || this.machine.sent[0] !== this); } // of a message of another verification that failed

  get late() { return 2 * patience; } // the API tells whole seconds

  go(button) { button.dispatchEvent(new MouseEvent('click', { bubbles: true })); }

  anew() {
    this.id = undefined;
    this.element.reset();
  }
}

let defined = 0;
const unstyled = new CSSStyleSheet();
unstyled.replaceSync = () => {};

const happenings = {
  // step sets the clock, though not so that it undoes a sleep: no clock of the machine would tell
  // of that.
  step(m, slept = 0) {
    const by = m.chance.one([-1, 1]) * m.chance.scale(50, 24 * 60 * minute);
    if (slept && Math.abs(slept + by) < second / 2) return;
    m.ahead += by;
    m.stepped = m.now;
    m.note(`the clock is set by ${by} ms`);
  },
  sleep(m) {
    const lasts = m.chance.scale(200, 20 * minute), seen = m.chance.one([true, false]), set = m.chance.one([true, false, false]);
    m.note(`the machine sleeps for ${lasts} ms`);
    m.slept += lasts;
    m.wakes = m.woke = m.now + lasts;
    m.at(m.wakes, () => {
      m.note('the machine wakes');
      if (set) happenings.step(m, lasts);
      if (seen) m.tabs.forEach((tab) => tab.see());
    });
  },
  // freeze has one tab's scripts stand still, as in the background or while another page is shown
  // in it.
  freeze(m) {
    const tab = m.chance.one(m.tabs), back = m.chance.one([true, false]);
    if (tab.posting || !tab.root || m.now < tab.thaws) return;
    tab.thaws = m.now + m.chance.scale(second, 5 * minute);
    m.note(`tab ${tab.name} is frozen for ${tab.thaws - m.now} ms`);
    m.at(tab.thaws, () => {
      m.note(`tab ${tab.name} goes on`);
      if (back) tab.window?.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
      else tab.see();
    }, 'machine', tab);
  },
  reload(m) {
    const tab = m.chance.one(m.tabs);
    if (tab.posting || !tab.root || m.now < tab.thaws) return;
    m.note(`tab ${tab.name} is loaded again`);
    tab.load(tab.past.pop() ?? tab.url); // or goes back
  },
  tab(m) {
    const { name, session } = m.tabs[0], other = m.tabs[1];
    if (other) return other.posting || other.close();
    m.note('another tab is opened');
    const tab = new m.tabs[0].constructor(m, name === 'A' ? 'B' : 'A');
    if (m.chance.one([true, false])) session.forEach((text, key) => tab.session.setItem(key, text)); // it is a duplicate
    return tab;
  },
  see(m) { m.chance.one(m.tabs).see(); },
  offline(m) {
    m.connect(false);
    m.at(m.now + m.chance.scale(second, minute), () => m.connect(true));
  },
  lie(m) {
    if (m.lying) return;
    m.note('no answer comes any more');
    m.lying = true;
    m.at(m.now + m.chance.scale(100, 20 * second), () => { m.note('answers come again'); m.lying = false; m.light(); });
  },
  async away(m) {
    if (m.away) return;
    m.note('the service is away');
    m.away = true;
    await m.control('down=1');
    m.at(m.now + m.chance.scale(second, 20 * second), async () => { m.note('the service is back'); m.away = false; m.light(); await m.control('down='); }, 'server');
  },
  // press is one too early: nothing may come of it.
  async press(m) {
    const tab = m.chance.one(m.tabs), button = tab.find('#again');
    if (tab.posting || m.now < tab.thaws || button?.getAttribute('aria-disabled') !== 'true') return;
    m.note(`tab ${tab.name} is pressed early`);
    tab.early = true;
    tab.submit(button.form, button);
    await turn();
    tab.early = false;
  },
  type(m) {
    const tab = m.chance.one(m.tabs);
    if (m.now >= tab.thaws) tab.enter(m.chance.one([wrong, wrong, wrong, '48291', `${right} is your code`, right]));
  },
  // go leads to another card, or from the last one to the first.
  go(m) {
    const tab = m.chance.one(m.tabs), links = [...tab.root?.querySelectorAll('#card :is(a[href], [data-act].link)') ?? []].filter((a) => !a.getAttribute('href')?.startsWith('http'));
    if (tab.posting || m.now < tab.thaws || !tab.root) return;
    tab.owes = undefined;
    if (tab.kind === 'approved') tab.anew();
    else if (links.length) tab.go(m.chance.one(links));
  },
};

// person is one's hour; it throws when something was not as the server has it, or a tab did not
// come to its end.
async function person(seed, world, kind, served) {
  const m = new Machine(seed, world, kind, served), { chance } = m;
  new (kind === 'page' ? Page : Element)(m, 'A');
  for (let at = chance.between(0, 5 * second); at < 80 * second; at += chance.scale(second, 30 * second)) {
    m.at(m.steady() + at, () => happenings[chance.one(Object.keys(happenings))](m), 'timer');
  }
  const done = () => m.tabs.every((tab) => tab.kind === 'approved');
  m.at(m.steady() + 100 * second, () => { m.patient = true; m.note('the person is patient'); }, 'timer');
  const look = () => { // all that goes wrong has ended, and all tabs must come to their end
    if (m.patient && done()) m.ended = true;
    else m.at(m.now + second, look);
  };
  look();
  m.at(m.steady() + 600 * second, () => m.wrong(`still at ${m.tabs.map((tab) => `${tab.kind}: ${tab.find('#card')?.innerText ?? tab.find('#card')?.textContent}`)}`), 'timer');
  try {
    await m.run();
  } finally {
    for (const tab of [...m.tabs]) tab.close();
    await m.control('down=');
  }
  return m.sends ?? 0;
}

// compiled is a served script as a function of what is around it; it returns what the module
// exports.
function compiled(source) {
  let run;
  const body = source.replaceAll('import.meta.url', 'here').replaceAll('import(', 'importing(')
    .replace(/export\s*\{([^}]*)\};?\s*$/, (all, names) => `return {${names.replace(/([\w$]+) as (\w+)/g, '$2: $1')}};`);
  return (globals) => (run ??= new Function(...Object.keys(globals), `'use strict';${body}`))(...Object.values(globals));
}

const source = async (path) => (await real.fetch(path)).text();
const constant = (text) => JSON.parse(text.match(/^const SENDCODE=(\{.*?\});(?=\S)/s)[1]);

// people runs those of some seeds in a few worlds at a time, and tells what came of them.
export async function people(first, count, worlds, kind, page, key) {
  const widget = await source('/widget.js?lang=en'), { code, languages } = constant(widget), faults = [];
  const served = { key, page: compiled(await source(page)), words: constant(await source(`/${languages.en}`)).mails, modules: { widget: compiled(widget) } };
  served.modules[new URL(code, origin).pathname] = compiled(await source(`/${code}`));
  const next = [first + first % 2, first + (first + 1) % 2]; // an even seed goes to an even world, so that one person alone meets the same
  let sends = 0;
  await Promise.all(Array.from({ length: worlds }, async (_, world) => {
    for (let seed; (seed = next[world % 2]) < first + count;) {
      next[world % 2] += 2;
      try {
        const sent = await person(seed, world, kind, served);
        sends += sent;
      } catch (error) {
        faults.push(String(error.stack ?? error));
      }
    }
  }));
  return { Sends: sends, Wrong: faults };
}
