// Runs the page's own script under a machine whose clocks, timers, network and tabs follow a random schedule. Nothing waits: time is
// what the next event says. The server is the real one; what it decides is asked at the schedule's time.
//
// The machine has a steady clock, which stands still while it sleeps, and a clock of the day, which is wrong from the beginning and is set
// forward and back. Timers run by the steady clock. What comes in during a sleep is there when the machine wakes.

const second = 1000, minute = 60 * second;
const real = { fetch: window.fetch.bind(window), Date };
const patience = second; // what the button may be late, and what another tab's send takes to be known

// turn lets everything go on that promises hold back: each of them some steps, and no longer chain is anywhere.
async function turn() {
  for (let n = 0; n < 40; n++) await undefined;
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

class Machine {
  now = 0; // the true time, which is the server's
  slept = 0;
  wakes = 0; // until then the machine sleeps
  woke = 0;
  events = [];
  tabs = [];
  accepts = 0; // when the server accepts the next send
  sent = [0, -Infinity]; // the last send: its tab and when
  told = []; // what happened

  constructor(seed, world, script) {
    Object.assign(this, { seed, world, script, chance: chance(seed), address: `person${seed}@example.com` });
    this.ahead = this.chance.one([0, this.chance.between(-1, 1) * 24 * 60 * minute]);
  }

  get asleep() { return this.now < this.wakes; }
  steady(at = this.now) { return at - this.slept + (at < this.wakes ? this.wakes - at : 0) + 5000; }
  wall() { return real.Date.UTC(2026, 0, 1) + this.now + this.ahead; }

  note(text) { this.told.push(`${(this.now / second).toFixed(3)} ${text}`); }

  // at has something happen at the server, at the machine (then not before it wakes), or by its steady clock.
  at(time, run, where = 'machine') {
    const event = { time, run, where };
    this.events.push(event);
    return event;
  }

  due({ time, where }) {
    if (where === 'timer') return this.now + Math.max(0, time - this.steady()) + Math.max(0, this.wakes - this.now);
    return where === 'machine' ? Math.max(time, this.wakes) : time;
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

  // judge holds each tab to what the server would do, from now on until a time at which nothing has changed yet.
  judge(until) {
    if (this.asleep) return;
    for (const tab of this.tabs) {
      const button = tab.document?.querySelector('#again');
      if (!button || tab.posting) continue;
      const active = button.getAttribute('aria-disabled') !== 'true';
      if (active && this.now < this.accepts - 1 && !this.news(tab)) this.wrong(`tab ${tab.name} can be pressed ${this.accepts - this.now} ms too early`);
      const since = Math.max(this.accepts, tab.ready, this.woke);
      if (!active && until > since + patience) this.wrong(`tab ${tab.name} can still not be pressed ${until - since} ms after it could be`);
      if (active && !tab.planned) this.press(tab);
    }
  }

  // news says that another tab has sent and this one need not know yet, or was being loaded and has heard nothing of it.
  news(tab) {
    const [by, at] = this.sent;
    return by !== tab && (this.now < Math.max(at, this.woke) + patience || tab.loaded < at && at < tab.begun);
  }

  wrong(text) {
    this.note(text);
    throw new Error(`schedule ${this.seed}: ${text}\n${this.told.join('\n')}`);
  }

  press(tab) {
    tab.planned = true;
    const { document } = tab;
    this.at(this.now + this.chance.one([0, this.chance.scale(100, 20 * second)]), () => {
      tab.planned = false;
      const button = tab.document === document && document.querySelector('#again');
      if (!button || button.getAttribute('aria-disabled') === 'true') return;
      this.note(`tab ${tab.name} is pressed`);
      button.form.dispatchEvent(new SubmitEvent('submit', { submitter: button, bubbles: true, cancelable: true }));
    });
  }

  // ask has the server answer.
  async ask(url, { method, body, headers } = {}) {
    const answer = await real.fetch(url, { method, body, headers: { ...headers, 'X-World': this.world, 'X-Seed': this.seed, 'X-Now': Math.round(this.now * second) } });
    this.accepts = this.now + Number(answer.headers.get('X-Wait')) / second;
    return { status: answer.status, url: answer.url, body: await answer.text(), sends: Number(answer.headers.get('X-Sends')) };
  }

  latency() { return this.chance.scale(5, 200); }

  settle() { return this.at(this.now + this.chance.scale(100, 2 * second), () => this.ask('/settle', { method: 'POST' }), 'server'); }
}

class Tab {
  constructor(machine, name) {
    Object.assign(this, { machine, name });
    machine.tabs.push(this);
    this.load();
  }

  close() {
    this.document = undefined;
    this.machine.tabs = this.machine.tabs.filter((tab) => tab !== this);
  }

  // load loads the page, and whatever went on in it is gone.
  load() {
    const { machine } = this, life = this.life = {};
    this.document = undefined;
    this.posting = this.planned = false;
    const origin = machine.wall() - machine.steady();
    machine.at(machine.now + machine.latency(), async () => {
      const answer = await machine.ask('/');
      if (this.life === life) this.loaded = machine.now;
      machine.at(machine.now + machine.latency(), () => {
        const began = machine.steady();
        machine.at(machine.now + machine.chance.between(0, 100), () => { if (this.life === life) this.begin(life, answer, began, origin); });
      });
    }, 'server');
  }

  begin(life, answer, began, origin) {
    const { machine } = this, alive = () => this.life === life && machine.tabs.includes(this);
    this.begun = this.ready = machine.now;
    this.window = new EventTarget();
    const document = this.document = new DOMParser().parseFromString(answer.body, 'text/html');
    Object.defineProperty(document, 'visibilityState', { value: 'visible' });
    const location = { href: answer.url };
    const timer = (run, ms) => machine.at(machine.steady() + Math.max(1, ms), () => { if (alive()) run(); }, 'timer');
    const globals = {
      document, location, navigator: { onLine: true }, matchMedia: () => ({ matches: false }),
      history: { replaceState: (state, title, url) => { location.href = url; } },
      addEventListener: (...all) => this.window.addEventListener(...all),
      performance: { timeOrigin: origin, now: () => machine.steady(), getEntriesByType: () => [{ responseStart: began }] },
      Date: class extends real.Date {
        constructor(...all) { super(...all.length ? all : [machine.wall()]); }
        static now() { return Math.floor(machine.wall()); }
      },
      setTimeout: timer,
      clearTimeout: (event) => { machine.events = machine.events.filter((each) => each !== event); },
      AbortSignal: {
        any: (all) => AbortSignal.any(all),
        timeout: (ms) => { const c = new AbortController(); timer(() => c.abort(), ms); return c.signal; }, // after a request it comes to nothing
      },
      BroadcastChannel: class {
        constructor() { (life.channels ??= []).push(this); }
        postMessage(data) {
          for (const tab of machine.tabs) {
            for (const c of tab.life.channels ?? []) {
              if (c !== this) machine.at(machine.now + machine.chance.between(0, 20), () => { if (tab.document) c.onmessage?.({ data }); });
            }
          }
        }
        close() {}
      },
      fetch: (url, options) => this.fetch(alive, url, options),
    };
    machine.script(Object.keys(globals))(...Object.values(globals));
    if (document.querySelector('#to')) this.first();
  }

  // first asks for the first code.
  first() {
    const { machine, document } = this, form = document.querySelector('form');
    form.querySelector('#to').value = machine.address;
    form.dispatchEvent(new SubmitEvent('submit', { submitter: form.querySelector('button'), bubbles: true, cancelable: true }));
  }

  fetch(alive, url, options) {
    const { machine } = this, posts = Boolean(options.body), { signal } = options;
    this.posting ||= posts;
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError')));
      machine.at(machine.now + machine.latency(), async () => {
        const before = machine.sends ?? 0, allowed = machine.now >= machine.accepts, answer = await machine.ask(url, options);
        machine.sends = answer.sends;
        if (answer.sends > before) {
          machine.sent = [this, machine.now];
          machine.settle();
          machine.note(`tab ${this.name} has sent`);
        } else if (posts && !allowed && !machine.news(this)) {
          machine.wrong(`tab ${this.name} was refused`);
        }
        machine.at(machine.now + machine.latency(), () => {
          if (!alive()) return;
          if (posts) machine.at(machine.now, () => { this.posting = false; });
          this.ready = posts ? machine.now : this.ready;
          resolve({ status: answer.status, url: answer.url, headers: new Headers(), text: async () => answer.body });
        });
      }, 'server');
    });
  }

  // see has the page told that it is looked at again.
  see() { this.document?.dispatchEvent(new Event('visibilitychange')); }
}

const happenings = {
  // step sets the clock, though not so that it undoes a sleep: no clock of the machine would tell of that.
  step(m, slept = 0) {
    const by = m.chance.one([-1, 1]) * m.chance.scale(50, 24 * 60 * minute);
    if (slept && Math.abs(slept + by) < second / 2) return;
    m.ahead += by;
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
  reload(m) {
    const tab = m.chance.one(m.tabs);
    if (tab.posting) return;
    m.note(`tab ${tab.name} is loaded again`);
    tab.load();
  },
  tab(m) {
    if (m.tabs[1]) return m.tabs[1].posting || m.tabs[1].close();
    m.note('another tab is opened');
    return new Tab(m, 'B');
  },
  see(m) { m.chance.one(m.tabs).see(); },
};

// schedule runs one; it throws when the button did not do as the server would.
async function schedule(seed, world, script) {
  const m = new Machine(seed, world, script), { chance } = m;
  new Tab(m, 'A');
  for (let at = chance.between(0, 5 * second); at < 80 * second; at += chance.scale(second, 30 * second)) {
    m.at(m.steady() + at, () => happenings[chance.one(Object.keys(happenings))](m), 'timer');
  }
  m.at(m.steady() + 100 * second, () => { m.ended = true; }, 'timer');
  await m.run();
  return m.sends ?? 0;
}

// schedules runs those of some seeds in a few worlds at a time, and tells what came of them.
export async function schedules(first, count, worlds, page) {
  const source = await (await real.fetch(page)).text(), wrong = [];
  let script, next = first, sends = 0;
  const compile = (names) => script ??= new Function(...names, `'use strict';${source}`);
  await Promise.all(Array.from({ length: worlds }, async (_, world) => {
    while (next < first + count) {
      try {
        const sent = await schedule(next++, world, compile);
        sends += sent;
      } catch (error) {
        wrong.push(String(error.stack ?? error));
      }
    }
  }));
  return { Sends: sends, Wrong: wrong };
}
