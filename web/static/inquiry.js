import { Moment, second } from './time.js';

const patience = 15 * second;

// Inquiry asks the server: one question at a time, and those that nobody prompted at least a second apart. When one of
// these fails, what is shown stays and the countdown goes on.
export class Inquiry {
  #flight;
  #asked = -second;
  #later;
  #follows = 0;
  #missed;
  #ends;
  posting = false; // somebody waits for an answer

  // look asks how things stand and shows it; it throws when it did not learn that. polls says whether something is
  // under way that will change soon.
  constructor({ look, polls }) {
    Object.assign(this, { look, polls });
  }

  // ask fetches, giving up whatever was being asked, and keeps the moment at which the answer came.
  async ask(url, options) {
    this.#flight?.abort();
    const mine = this.#flight = new AbortController();
    const signal = AbortSignal.any([mine.signal, AbortSignal.timeout(patience)]);
    try {
      const answer = await fetch(url, { ...options, signal });
      const moment = new Moment();
      return { answer, moment, text: await answer.text() };
    } finally {
      if (this.#flight === mine) this.#flight = undefined;
    }
  }

  async refresh(force) {
    if (this.posting) return; // its answer says more
    if (this.#flight) { this.#missed = { force }; return; } // which may have set out before what there is to see now
    clearTimeout(this.#later);
    const rest = this.#asked + second - performance.now();
    if (rest > 0) { this.#later = setTimeout(() => this.refresh(force), rest); return; }
    this.#asked = performance.now();
    try {
      await this.look(force);
    } catch {
      if (this.posting) return; // given up for a post
    }
    const missed = this.#missed;
    this.#missed = undefined;
    if (missed) this.refresh(missed.force);
    else this.follow();
  }

  // follow asks again while a mail is on its way, ever less often.
  follow() {
    if (!this.polls()) { this.#follows = 0; return; }
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refresh(), Math.min(second + 500 * this.#follows++, 5 * second));
  }

  // soon asks again in a second: the marks beside a wait that is over have changed too.
  soon() {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refresh(), second);
  }

  // attend asks again whenever the page is looked at again or has its connection back. woke comes before that, on the
  // event's own time; connected is told whether there is a connection.
  attend({ woke, connected }) {
    const { signal } = this.#ends = new AbortController();
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') { woke(); this.refresh(); }
    }, { signal });
    addEventListener('pageshow', (event) => {
      if (event.persisted) { woke(); this.#anew(true); }
    }, { signal });
    addEventListener('online', () => { connected(true); this.#anew(); }, { signal });
    addEventListener('offline', () => connected(false), { signal });
    if (!navigator.onLine) connected(false);
  }

  // anew asks although something is being asked: what set out before the page slept may never be answered.
  #anew(force) {
    if (!this.posting) this.#flight?.abort();
    this.refresh(force);
  }

  stop() {
    clearTimeout(this.#later);
    this.#flight?.abort();
    this.#ends?.abort();
  }
}
