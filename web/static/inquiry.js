import { attempt, offline, within } from './browser.js';
import { Moment, second } from './time.js';

// Inquiry makes requests to the server: one at a time, and automatic requests at least a second
// apart. If an automatic request fails, the card stays, the countdown goes on, and Inquiry tries
// again.
export class Inquiry {
  #flight;
  #asked; // the Moment of the last automatic request
  #later;
  #follows = 0;
  #missed = false;
  #forced = false; // the next look is forced, until a look has succeeded
  #doubted; // the Moment since which the clocks disagree
  #vain; // that Moment, after a question to the server did not help
  #tabs;
  #ends;
  posting = false; // a form was posted, and its answer has not arrived

  // look requests the state and shows it. It throws if it gets no answer. polls returns whether the
  // state will change soon. A forced look shows the answer even if nothing has changed or the
  // service is away.
  constructor(parts) { Object.assign(this, parts); }

  // ask fetches, after it has aborted the request under way. It returns the answer, its text and
  // the Moment of its arrival.
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
    if (this.posting || this.#ends?.signal.aborted) return; // the answer to the post will show the state
    this.#forced ||= force;
    if (this.#flight) { this.#missed = true; return; } // the request under way may have been sent before the change
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

  // follow makes further requests while the state may change, or after a failure: the first after 1
  // s, then after longer waits up to 4 s, so that a change shows within 5 s.
  follow(failed) {
    if (!failed && !this.polls()) { this.#follows = 0; return; }
    this.#in(Math.min(second + 500 * this.#follows++, 4 * second));
  }

  // soon makes a request in a second, for the end of a wait: then the marks of used sends have
  // changed, too.
  soon() { this.#in(second); }

  #in(ms) {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refresh(), ms);
  }

  // unsure is for a Moment since which the clocks disagree. It makes one request, and returns
  // whether that may still bring a newer Moment; false: the request did not help.
  unsure(moment) {
    if (this.#vain === moment) return false;
    if (this.#doubted !== moment) {
      this.#doubted = moment;
      this.refresh();
    }
    return true;
  }

  // attend makes a request whenever the page becomes visible, the connection is back, or another
  // tab has posted. When the page becomes visible, it first calls woke, without waiting for an
  // answer. It calls connected with whether there is a connection.
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
    this.#tabs = attempt(() => new BroadcastChannel('sendcode')); // without this, posts of other tabs are not noticed
    if (this.#tabs) {
      this.#tabs.onmessage = () => {
        this.#asked = undefined;
        this.#anew();
      };
    }
  }

  // #anew makes a request even if another one is under way, which it aborts unless that is a post:
  // after a sleep of the machine, it may never be answered.
  #anew(force) {
    if (!this.posting) this.#flight?.abort();
    this.refresh(force);
  }

  // stop ends the timer, the listeners and the request under way, unless that request is a post.
  stop() {
    clearTimeout(this.#later);
    if (!this.posting) this.#flight?.abort();
    this.#ends?.abort();
    attempt(() => this.#tabs?.close());
  }
}
