import { second } from './time.js';

// What the widget and the API (docs/openapi.yaml) say to each other.

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');

// Intents gives each thing that somebody wants one Idempotency-Key, until it is known what came of it: asked again after a
// lost answer, it is the same request.
export class Intents {
  #open;

  // key is that of a request with this body.
  key(body) {
    if (this.#open?.body !== body) this.#open = { body, key: hex(crypto.getRandomValues(new Uint8Array(16))) };
    return this.#open.key;
  }

  settled() {
    this.#open = undefined;
  }
}

// How often and how far apart a request is repeated while its twin is worked on (409).
const twins = 20, twinWait = second / 2;

const patience = 15 * second;

// Talk asks at base with a public key. Answers are {status, body, moment, retry}: retry in seconds, 0 where none was told;
// status 0 is no answer, and `barred` then says that the service is there and does not let this page read its answers.
export class Talk {
  #intents = new Intents();

  constructor(inquiry) {
    this.inquiry = inquiry;
  }

  // to says whom to ask from now on.
  to({ base, key }) {
    Object.assign(this, { base, key });
  }

  get(id) {
    return this.#ask(`v1/verifications/${encodeURIComponent(id)}`, { cache: 'no-store' });
  }

  // channels asks what codes can be sent over now. It is no inquiry, and disturbs none; undefined: that is not known.
  async channels(purpose) {
    const path = `v1/channels${purpose ? `?purpose=${encodeURIComponent(purpose)}` : ''}`;
    try {
      const answer = await fetch(new URL(path, this.base), {
        headers: { Authorization: `Bearer ${this.key}` }, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(patience),
      });
      return answer.ok ? (await answer.json()).channels : undefined;
    } catch {
      return undefined;
    }
  }

  check(id, code) {
    return this.#post(`v1/verifications/${encodeURIComponent(id)}/check`, JSON.stringify({ code }));
  }

  async send(what) {
    const body = JSON.stringify(what), header = { 'Idempotency-Key': this.#intents.key(body) };
    for (let n = 0; ; n++) {
      const answer = await this.#post('v1/verifications', body, header);
      if (answer.status === 409 && n < twins) {
        await new Promise((go) => setTimeout(go, twinWait));
        continue;
      }
      if (answer.status !== 0 && answer.status < 500 && answer.status !== 409) this.#intents.settled();
      return answer;
    }
  }

  #post(path, body, headers) {
    return this.#ask(path, { method: 'POST', body, headers: { 'Content-Type': 'application/json', ...headers } });
  }

  async #ask(path, options) {
    const headers = { ...options.headers, Authorization: `Bearer ${this.key}` };
    let got;
    try {
      got = await this.inquiry.ask(new URL(path, this.base), { ...options, headers, credentials: 'omit', referrerPolicy: 'no-referrer' });
    } catch (error) {
      return { status: 0, error, barred: error instanceof TypeError && navigator.onLine && await this.reachable() };
    }
    const { answer, moment, text } = got;
    return { status: answer.status, body: read(text), moment, retry: Number(answer.headers.get('Retry-After')) || 0 };
  }

  // reachable tells a page that may not ask from a service that is away: browsers say the same of both, but everybody may
  // read the widget itself.
  async reachable() {
    try {
      return (await fetch(new URL('widget.js', this.base), { cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(patience) })).ok;
    } catch {
      return false;
    }
  }
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {}; // of somebody in between, who speaks HTML
  }
}
