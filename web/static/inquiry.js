import { attempt, offline, within } from './browser.js';
import { Moment, second } from './time.js';

// Inquiry asks the server: one request at a time, and automatic ones at least a second apart. When one of
// these fails, what is shown stays, the countdown goes on, and it is asked again.
export class Inquiry {
  #flight;
  #asked; // when something was asked unprompted
  #later;
  #follows = 0;
  #missed = false;
  #forced = false; // until an answer has come
  #doubted; // the moment that the clocks have parted since
  #vain; // the same, once asking told no other
  #tabs;
  #ends;
  posting = false; // a person waits for an answer

  // look asks how things stand and shows it; it throws when it did not learn that. polls says whether something is
  // under way that will change soon. A look that is forced takes in whatever it hears.
  constructor(parts) { Object.assign(this, parts); }

  // ask fetches, giving up whatever was being asked, and keeps the moment at which the answer came.
  async ask(url, options) {
    this.#flight?.abort();
    const mine = this.#flight = new AbortController(), began = new Moment();
    try {
      return await within(async (signal) => {
        const answer = await fetch(url, { ...options, signal });
        const moment = new Moment(undefined, began.parted());
        if (options?.body) {
          attempt(() => this.#tabs?.postMessage(''));
          this.#follows = 0;
        }
        return { answer, moment, text: await answer.text() };
      }, mine);
    } finally {
      if (this.#flight === mine) this.#flight = undefined;
    }
  }

  async refresh(force) {
    if (this.posting || this.#ends?.signal.aborted) return; // its answer says more
    this.#forced ||= force;
    if (this.#flight) { this.#missed = true; return; } // which may have set out before what there is to see now
    clearTimeout(this.#later);
    const rest = this.#asked && !this.#asked.parted() ? second - this.#asked.certain() : 0;
    if (rest > 0) { this.#in(rest); return; }
    this.#asked = new Moment();
    const forced = this.#forced, doubted = this.#doubted;
    this.#forced = false;
    let failed = false;
    try {
      await this.look(forced);
    } catch {
      if (this.posting) return; // given up for a post
      failed = true;
      this.#forced ||= forced;
    }
    const missed = this.#missed;
    this.#missed = false;
    this.#vain = doubted;
    if (missed) this.refresh();
    else this.follow(failed);
  }

  // follow asks again, ever less often but in time to show within 5 s what is reported, while that may change or after a question that failed.
  follow(failed) {
    if (!failed && !this.polls()) { this.#follows = 0; return; }
    this.#in(Math.min(second + 500 * this.#follows++, 4 * second));
  }

  // soon asks again in a second: the marks beside a wait that is over have changed too.
  soon() { this.#in(second); }

  #in(ms) {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refresh(), ms);
  }

  // unsure asks, since the clocks have parted since a moment, and says whether the answer is to be awaited: not after a question
  // in vain.
  unsure(moment) {
    if (this.#vain === moment) return false;
    if (this.#doubted !== moment) {
      this.#doubted = moment;
      this.refresh();
    }
    return true;
  }

  // attend asks again whenever the page is looked at again or has its connection back, or another tab has done something. woke comes
  // before that, on the event's own time; connected is told whether there is a connection.
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
    if (offline()) connected(false);
    this.#tabs = attempt(() => new BroadcastChannel('sendcode')); // else other tabs are not heard of
    if (this.#tabs) {
      this.#tabs.onmessage = () => {
        this.#asked = undefined;
        this.#anew();
      };
    }
  }

  // anew asks although something is being asked: what set out before the page slept may never be answered.
  #anew(force) {
    if (!this.posting) this.#flight?.abort();
    this.refresh(force);
  }

  // stop ends what nobody waits for.
  stop() {
    clearTimeout(this.#later);
    if (!this.posting) this.#flight?.abort();
    this.#ends?.abort();
    attempt(() => this.#tabs?.close());
  }
}
