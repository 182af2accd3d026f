import { attempt, offline, within } from './browser.js';
import { Moment, second } from './time.js';

// Inquiry asks the server: one request at a time, and automatic ones at least a second apart. When
// an automatic request fails, the card stays, the countdown goes on, and Inquiry asks again.
export class Inquiry {
  #flight;
  #asked; // the Moment of the last automatic request
  #later;
  #follows = 0;
  #missed = false;
  #forced = false; // the next look is forced, until one has succeeded
  #doubted; // the Moment since which the clocks have parted
  #vain; // that Moment, once the server was asked because of it
  #tabs;
  #ends;
  posting = false; // a form was posted, and its answer has not come

  // look asks for the state and shows it; it throws if it got none. polls reports whether something
  // is under way that will change soon. A forced look shows the answer even if nothing has changed
  // or the service is away.
  constructor(parts) { Object.assign(this, parts); }

  // ask fetches, and aborts the request that was under way. It returns the answer, its text and the
  // Moment at which it came.
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
    if (this.posting || this.#ends?.signal.aborted) return; // the post's answer will show the state
    this.#forced ||= force;
    if (this.#flight) { this.#missed = true; return; } // that request may have been sent before the change
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
      if (this.posting) return; // ask aborted it for a post
      failed = true;
      this.#forced ||= forced;
    }
    const missed = this.#missed;
    this.#missed = false;
    this.#vain = doubted;
    if (missed) this.refresh();
    else this.follow(failed);
  }

  // follow asks again while the state may change, or after a failure: after 1 s, then ever later up
  // to 4 s, so that a change shows within 5 s.
  follow(failed) {
    if (!failed && !this.polls()) { this.#follows = 0; return; }
    this.#in(Math.min(second + 500 * this.#follows++, 4 * second));
  }

  // soon asks again in a second: at the end of a wait, the marks of used sends have changed too.
  soon() { this.#in(second); }

  #in(ms) {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refresh(), ms);
  }

  // unsure is for a Moment since which the clocks have parted. It asks the server once, and reports
  // whether that may still give a newer Moment; false: asking was in vain.
  unsure(moment) {
    if (this.#vain === moment) return false;
    if (this.#doubted !== moment) {
      this.#doubted = moment;
      this.refresh();
    }
    return true;
  }

  // attend asks again whenever the page becomes visible, the connection is back, or another tab has
  // posted. When the page becomes visible, it calls woke first, without waiting for an answer. It
  // calls connected with whether there is a connection.
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
    this.#tabs = attempt(() => new BroadcastChannel('sendcode')); // without it, posts of other tabs are not noticed
    if (this.#tabs) {
      this.#tabs.onmessage = () => {
        this.#asked = undefined;
        this.#anew();
      };
    }
  }

  // #anew asks although a request may be under way, and aborts that unless it is a post: after a
  // sleep it may never be answered.
  #anew(force) {
    if (!this.posting) this.#flight?.abort();
    this.refresh(force);
  }

  // stop ends the timer, the listeners and the request under way, unless that is a post.
  stop() {
    clearTimeout(this.#later);
    if (!this.posting) this.#flight?.abort();
    this.#ends?.abort();
    attempt(() => this.#tabs?.close());
  }
}
